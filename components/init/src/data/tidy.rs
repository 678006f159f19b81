//! Removes discarded files and those that were moved aside from DATA, in a child, `init tidy`: they
//! may be millions, and the boot goes on meanwhile. While the node runs, the child is started again
//! after files were moved aside.

use osbuild_failure::{Explain, Outcome};

use crate::data;

/// Whether there is something to remove.
pub fn is_due() -> Outcome<bool> {
    Ok(data::folder::open()?.is_untidy())
}

/// Removes discarded files from DATA. The next start tries again to remove those that are left.
pub fn run() -> Outcome {
    if let Err(error) = data::folder::open()?.tidy().explain("remove discarded files from DATA") {
        println!("{error}");
    }
    Ok(())
}
