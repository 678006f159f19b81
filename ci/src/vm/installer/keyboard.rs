//! A USB keyboard of a machine, on which a check types by QEMU's own protocol (QMP).

use osbuild::error::{Context, Error, Result};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;
use tempfile::TempDir;

/// How long a key is down and, as long again, up: QEMU presses it for a tenth of a second, and a keyboard tells of few keys at once.
const PRESS: Duration = Duration::from_millis(250);

/// The keyboard.
pub struct Keyboard {
    folder: TempDir,
}

impl Keyboard {
    /// A keyboard that no machine has yet.
    pub fn new() -> Result<Self> {
        // A socket's path has 107 bytes at most, and a checkout may lie deep.
        Ok(Keyboard { folder: tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())? })
    }

    /// What QEMU is asked for, in a machine whose disk is on a USB bus: the keyboard goes onto the same.
    pub fn arguments(&self) -> Vec<String> {
        let qmp = format!("unix:{},server=on,wait=off", self.socket().display());
        ["-device", "usb-kbd,bus=controller.0", "-qmp", &qmp].map(str::to_owned).into()
    }

    /// Types a line of letters, and Enter.
    pub fn type_line(&self, letters: &str) -> Result<()> {
        letters.chars().map(String::from).chain(["ret".to_owned()]).try_for_each(|key| self.press(&[&key]))
    }

    /// Presses keys at once, by their names in QEMU.
    pub fn press(&self, keys: &[&str]) -> Result<()> {
        let cannot = || "cannot speak with QEMU".to_owned();
        let mut socket = UnixStream::connect(self.socket()).or_build(cannot)?;
        let mut answers = BufReader::new(socket.try_clone().or_build(cannot)?).lines();
        let keys: Vec<Value> = keys.iter().map(|key| json!({ "type": "qcode", "data": key })).collect();
        for said in [json!({ "execute": "qmp_capabilities" }), json!({ "execute": "send-key", "arguments": { "keys": keys } })] {
            writeln!(socket, "{said}").or_build(cannot)?;
            // Its greeting and events come between.
            let answer = answers
                .by_ref()
                .map_while(std::result::Result::ok)
                .find(|line| !line.contains("\"QMP\"") && !line.contains("\"event\""));
            match answer {
                Some(answer) if answer.contains("\"return\"") => {}
                answer => return Err(Error::build("QEMU does not press a key").cause(answer.unwrap_or_default())),
            }
        }
        sleep(2 * PRESS);
        Ok(())
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("qmp")
    }
}
