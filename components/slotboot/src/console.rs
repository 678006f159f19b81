//! Lines on the firmware's console. A console that takes none must not end the boot: firmware
//! reports an error if one of its consoles has one, such as a serial line without a reader.

use core::fmt::{Display, Write};
use uefi::{system, table};

/// Prints a line, if there is a console.
pub fn line(text: impl Display) {
    if has_console() {
        system::with_stdout(|console| {
            // There is no other place to report that to.
            let _ = writeln!(console, "{text}");
        });
    }
}

fn has_console() -> bool {
    let table = table::system_table_raw();
    // SAFETY: the table of the firmware is there as long as this program runs.
    table.is_some_and(|table| !unsafe { table.as_ref() }.stdout.is_null())
}
