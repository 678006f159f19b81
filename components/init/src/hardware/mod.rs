//! Devices of the machine that `init` itself uses: hardware watchdogs and the power button.

pub mod buttons;
pub mod watchdog;
