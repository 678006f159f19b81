//! Devices of the machine that `init` itself uses: hardware watchdogs, the power button, and the
//! keyboards of its consoles.

pub mod buttons;
pub mod keyboards;
pub mod watchdog;
