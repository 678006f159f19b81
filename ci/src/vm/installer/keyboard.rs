//! A USB keyboard of a machine, on which a check types.

use crate::vm::qmp::Qmp;
use osbuild::error::Result;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// How long a key is down and, as long again, up: QEMU presses it for a tenth of a second, and a
/// keyboard tells of few keys at once.
const PRESS: Duration = Duration::from_millis(250);

/// The keyboard.
pub struct Keyboard {
    qmp: Qmp,
}

impl Keyboard {
    /// A keyboard that no machine has yet.
    pub fn new() -> Result<Self> {
        Ok(Keyboard { qmp: Qmp::new()? })
    }

    /// What QEMU is asked for, in a machine whose disk is on a USB bus: the keyboard goes onto the
    /// same.
    pub fn arguments(&self) -> Vec<String> {
        let keyboard = ["-device", "usb-kbd,bus=controller.0"].map(str::to_owned);
        keyboard.into_iter().chain(self.qmp.arguments()).collect()
    }

    /// Types a line of letters, and Enter.
    pub fn type_line(&self, letters: &str) -> Result<()> {
        letters
            .chars()
            .map(String::from)
            .chain(["ret".to_owned()])
            .try_for_each(|key| self.press(&[&key]))
    }

    /// Presses keys at once, by their names in QEMU.
    pub fn press(&self, keys: &[&str]) -> Result<()> {
        let keys: Vec<Value> =
            keys.iter().map(|key| json!({ "type": "qcode", "data": key })).collect();
        self.qmp.execute("send-key", json!({ "keys": keys }))?;
        sleep(2 * PRESS);
        Ok(())
    }
}
