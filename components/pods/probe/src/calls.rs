//! Prints which system calls a container may make.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use crate::sys::HARMLESS;

/// Prints a line for each of [`HARMLESS`], every second: `NAME ok`, or `NAME ERROR`.
pub fn print_for_ever() -> ! {
    loop {
        for (name, call) in HARMLESS {
            println!("{name} {}", word(call()));
        }
        sleep(Duration::from_secs(1));
    }
}

fn word(outcome: io::Result<()>) -> String {
    match outcome.map_err(|error| error.raw_os_error()) {
        Ok(()) => "ok".to_owned(),
        Err(Some(libc::EPERM)) => "EPERM".to_owned(),
        Err(other) => format!("error {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_nothing_filters_may_make_the_calls() {
        for (name, call) in HARMLESS {
            assert_eq!(word(call()), "ok", "{name}");
        }
        assert_eq!(word(Err(io::Error::from_raw_os_error(libc::EPERM))), "EPERM");
        assert_eq!(word(Err(io::Error::from_raw_os_error(libc::ENOSYS))), "error Some(38)");
    }
}
