//! The console's output and input.

use std::thread::sleep;
use std::time::Duration;

use osbuild_abi::console::INSTALLER;
use osbuild_consoles::{Consoles, typed};
use osbuild_failure::{Failure, Outcome};

/// The word to type. Its letters have the same place on most countries' keyboards; the kernel
/// assumes the US layout.
const WORD: &str = "begin";

/// The machine's consoles.
pub struct Console {
    consoles: Consoles,
}

impl Console {
    /// Opens all consoles. A machine may have none.
    pub fn open() -> Console {
        let mut consoles = Consoles::first();
        consoles.open_others();
        Console { consoles }
    }

    /// Prints a message to all consoles and to the pod's log.
    pub fn print(&mut self, line: impl AsRef<str>) {
        self.line(&format!("{INSTALLER}{}", line.as_ref()));
    }

    /// Prints a whole line, which has its prefix already.
    pub fn line(&mut self, line: &str) {
        eprintln!("{line}");
        self.consoles.line(line);
    }

    /// Waits until somebody types the word.
    pub fn confirm(&mut self) -> Outcome {
        let typed = typed();
        self.print(format!("type `{WORD}` and Enter to continue"));
        while let Ok(line) = typed.recv() {
            if line.trim() == WORD {
                return Ok(());
            }
            self.print(format!("type `{WORD}`, or switch the machine off"));
        }
        Err(Failure::new("no console has an input: set `unattended = true`"))
    }

    /// Counts down, during which the machine can still be switched off.
    pub fn count_down(&mut self, seconds: u32) {
        for left in (1..=seconds).rev() {
            if left <= 5 || left % 5 == 0 {
                self.print(format!("starts in {left} s; nothing is written yet"));
            }
            sleep(Duration::from_secs(1));
        }
    }
}
