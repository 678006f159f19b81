//! What people see, and say.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use osbuild_abi::console::INSTALLER;
use rustix::fs::OFlags;

use crate::failure::{Explain, Outcome};

/// The machine's console.
pub struct Console {
    file: Option<File>,
}

impl Console {
    /// Opens it. A machine that has none is installed as well.
    pub fn open(path: &Path) -> Console {
        // It must not become this program's own terminal, by which somebody could end it.
        let flags = OFlags::NOCTTY.bits() as i32;
        Console { file: File::options().read(true).write(true).custom_flags(flags).open(path).ok() }
    }

    /// Writes a line, to the pod's log as well.
    pub fn say(&mut self, line: impl AsRef<str>) {
        self.line(&format!("{INSTALLER}{}", line.as_ref()));
    }

    /// Writes a line that has its beginning already.
    pub fn line(&mut self, line: &str) {
        eprintln!("{line}");
        if let Some(file) = &mut self.file {
            // One write, so that it does not mix with what others write. What cannot be shown is in the log.
            let _ = file.write_all(format!("{line}\r\n").as_bytes());
        }
    }

    /// Waits until somebody types `yes`.
    pub fn ask(&mut self) -> Outcome {
        self.say("type `yes` and Enter to go on");
        let file = self.file.as_ref().and_then(|file| file.try_clone().ok());
        let file = file.ok_or_else(|| crate::failure::Failure::new("there is no console to ask at: say `unattended = true`"))?;
        for line in BufReader::new(file).lines() {
            if line.explain("read the console")?.trim() == "yes" {
                return Ok(());
            }
            self.say("type `yes`, or switch the machine off");
        }
        Err(crate::failure::Failure::new("the console has closed"))
    }

    /// Counts seconds down, in which the plug can be pulled.
    pub fn count_down(&mut self, seconds: u32) {
        for left in (1..=seconds).rev() {
            if left <= 5 || left % 5 == 0 {
                self.say(format!("begins in {left} s; nothing is written yet"));
            }
            sleep(Duration::from_secs(1));
        }
    }
}
