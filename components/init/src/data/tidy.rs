//! Removes discarded files and those that were moved aside from DATA, in a child, `init tidy`: they
//! may be millions, and the boot goes on meanwhile.

use osbuild_failure::{Explain, Outcome};

use crate::data;

/// Whether there is something to remove.
pub fn is_due() -> Outcome<bool> {
    Ok(data::folder::open()?.is_untidy())
}

/// Removes it. What cannot be removed is tried again at the next boot.
pub fn run() -> Outcome {
    if let Err(error) = data::folder::open()?.tidy().explain("remove discarded files from DATA") {
        println!("{error}");
    }
    Ok(())
}
