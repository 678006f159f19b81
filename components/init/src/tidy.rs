//! Removes from DATA what was given up or moved aside, in a child, `init tidy`: that may be
//! millions of files, and the boot goes on meanwhile.

use osbuild_abi::paths::INIT;
use osbuild_failure::{Explain, Outcome};

use crate::data;
use crate::node::Node;
use crate::process::Life;

/// The name of the job and of the subcommand.
pub const NAME: &str = "tidy";

/// Starts the job, if there is something to remove.
pub fn start(node: &mut Node) -> Outcome {
    match data::folder()?.is_untidy() {
        true => node.run(NAME, Life::Job, |_| [INIT, NAME].map(str::to_owned).to_vec()),
        false => Ok(()),
    }
}

/// Does it. What cannot be removed is tried again at the next boot.
pub fn run() -> Outcome {
    if let Err(error) = data::folder()?.tidy().explain("remove what was given up on DATA") {
        println!("{error}");
    }
    Ok(())
}
