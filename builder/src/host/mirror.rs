//! Checks that apt of this machine has a mirror with the Debian of the locks. Nothing is fetched.

use super::lack::Lack;
use super::program::find_program;
use crate::produce::fetch::check_mirrors;

/// Why the packages of a lock cannot be fetched, if they cannot. Without apt, only its own check
/// fails.
pub fn lack() -> Option<Lack> {
    find_program("apt-config")?;
    let problem = check_mirrors().err()?.problems.into_iter().next()?;
    Some(Lack {
        problem: problem.message,
        cause: problem.causes.into_iter().next(),
        remedy: problem.hint.unwrap_or_else(|| "see builder/docs/hosts.md".to_owned()),
    })
}
