//! What `cargo deny` says of the libraries that we use. Its rules are in `ci/deny.toml`.

use crate::check::Outcome;
use crate::site::Site;
use osbuild::error::Result;

/// The version that is installed. It is compiled from source, so that takes some minutes once.
const CARGO_DENY: &str = "0.20.2";

/// What cargo-deny says when it cannot get the list of advisories.
const UNREACHABLE: &str = "failed to fetch advisory database";

/// Every library has a licence that ours goes with, comes from crates.io and once only, and no
/// advisory speaks against it.
///
/// Where the advisories cannot be reached the check's line says so: it is not a fault of the
/// checkout.
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
        return Err(rules.failure("a library is not as `ci/deny.toml` wants it"));
    }
    let advisories = check("advisories", &["advisories"])?;
    match advisories.code {
        Some(0) => Ok(Outcome { passed: 2, ..Outcome::default() }),
        _ if advisories.output.contains(UNREACHABLE) => {
            Ok(Outcome::holds("ADVISORIES UNCHECKED: not reachable"))
        }
        _ => Err(advisories.failure("an advisory speaks against a library")),
    }
}

/// The search path with the programs that `cargo install` put into `root`.
fn path_with(root: &std::path::Path) -> std::ffi::OsString {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all =
        std::iter::once(root.join("bin")).chain(std::env::split_paths(&rest).collect::<Vec<_>>());
    std::env::join_paths(all).expect("what was split at colons has none")
}
