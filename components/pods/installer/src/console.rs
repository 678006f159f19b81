//! What people see, and say.

use std::thread::sleep;
use std::time::Duration;

use osbuild_abi::console::INSTALLER;
use osbuild_consoles::{Consoles, typed};
use osbuild_failure::{Failure, Outcome};

/// What somebody has to type. Its letters are at the same place on the keyboards of most countries,
/// as the kernel takes each for an American one.
const WORD: &str = "begin";

/// The machine's consoles.
pub struct Console {
    consoles: Consoles,
}

impl Console {
    /// Opens them all. A machine that has none is installed as well.
    pub fn open() -> Console {
        let mut consoles = Consoles::first();
        consoles.open_others();
        Console { consoles }
    }

    /// Writes a line, to the pod's log as well.
    pub fn say(&mut self, line: impl AsRef<str>) {
        self.line(&format!("{INSTALLER}{}", line.as_ref()));
    }

    /// Writes a line that has its beginning already.
    pub fn line(&mut self, line: &str) {
        eprintln!("{line}");
        self.consoles.line(line);
    }

    /// Waits until somebody types the word.
    pub fn ask(&mut self) -> Outcome {
        let typed = typed();
        self.say(format!("type `{WORD}` and Enter to go on"));
        while let Ok(line) = typed.recv() {
            if line.trim() == WORD {
                return Ok(());
            }
            self.say(format!("type `{WORD}`, or switch the machine off"));
        }
        Err(Failure::new("nobody can type here: say `unattended = true`"))
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
