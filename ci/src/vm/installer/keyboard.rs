//! A machine's USB keyboard.

use crate::vm::qmp::Qmp;
use osbuild::error::Result;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// How long a key is down, and then up. QEMU presses it for a tenth of a second, and the keyboard
/// buffers few keys.
const PRESS: Duration = Duration::from_millis(250);

/// The keyboard.
pub struct Keyboard {
    qmp: Qmp,
}

impl Keyboard {
    /// A keyboard for a machine that is started later.
    pub fn new() -> Result<Self> {
        Ok(Keyboard { qmp: Qmp::new()? })
    }

    /// QEMU's arguments for a machine whose disk is on a USB bus: the keyboard is on the same bus.
    pub fn arguments(&self) -> Vec<String> {
        let keyboard = ["-device", "usb-kbd,bus=controller.0"].map(str::to_owned);
        keyboard.into_iter().chain(self.qmp.arguments()).collect()
    }

    /// Types letters, and Enter.
    pub fn type_line(&self, letters: &str) -> Result<()> {
        letters
            .chars()
            .map(String::from)
            .chain(["ret".to_owned()])
            .try_for_each(|key| self.press(&[&key]))
    }

    /// Presses keys together, by their names in QEMU.
    pub fn press(&self, keys: &[&str]) -> Result<()> {
        let keys: Vec<Value> =
            keys.iter().map(|key| json!({ "type": "qcode", "data": key })).collect();
        self.qmp.execute("send-key", json!({ "keys": keys }))?;
        sleep(2 * PRESS);
        Ok(())
    }
}
