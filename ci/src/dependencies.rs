//! `cargo deny`, with the rules of `ci/deny.toml`.

use crate::check::Outcome;
use crate::site::Site;
use osbuild::error::Result;

/// The version to install. Compiling it takes some minutes.
const CARGO_DENY: &str = "0.20.2";

/// cargo-deny's message when it cannot fetch the list of advisories.
const UNREACHABLE: &str = "failed to fetch advisory database";

/// Every library has a compatible licence, comes from crates.io in one version, and has no
/// advisory.
///
/// A machine may reach crates.io, but not the host of the advisories: then the last line of the run
/// counts them as not checked.
pub fn libraries_are_fit(site: &Site) -> Result<Outcome> {
    let root = site.tools();
    let install =
        ["install", "--quiet", "--locked", "--version", CARGO_DENY, "cargo-deny", "--root"];
    site.finish("cargo-deny", site.cargo()?.args(install).arg(&root))?;
    let check = |log: &str, what: &[&str]| {
        let mut cargo = site.cargo()?;
        cargo
            .args([
                "deny",
                "--workspace",
                "--locked",
                "--config",
                "ci/deny.toml",
                "check",
                "--hide-inclusion-graph",
            ])
            .args(what);
        site.run(log, cargo.env("PATH", path_with(&root)))
    };
    let rules = check("rules", &["bans", "licenses", "sources"])?;
    if rules.code != Some(0) {
        return Err(rules.failure("a library breaks a rule of `ci/deny.toml`"));
    }
    let advisories = check("advisories", &["advisories"])?;
    match advisories.code {
        Some(0) => Ok(Outcome { passed: 2, ..Outcome::default() }),
        _ if advisories.output.contains(UNREACHABLE) => {
            let why = "whether a library has an advisory: the list of them cannot be fetched";
            let unchecked = vec![why.to_owned()];
            Ok(Outcome { unchecked, ..Outcome::holds("ADVISORIES NOT CHECKED") })
        }
        _ => Err(advisories.failure("a library has an advisory")),
    }
}

/// The search path with the programs that `cargo install` installed in `root`.
fn path_with(root: &std::path::Path) -> std::ffi::OsString {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all =
        std::iter::once(root.join("bin")).chain(std::env::split_paths(&rest).collect::<Vec<_>>());
    std::env::join_paths(all).expect("the parts of a path have no colons")
}
