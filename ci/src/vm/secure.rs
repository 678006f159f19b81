//! Secure Boot: what the firmware does not trust does not start, and `osbuild run` says why.

use crate::check::Verdict;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::Result;

/// What is tried: a name, the flags of `osbuild run`.
const ATTACKS: [(&str, &[&str]); 2] = [
    ("an unsigned UKI", &["--unsigned", "--trust", "ours"]),
    ("a UKI signed by another key", &["--key", "other", "--trust", "ours"]),
];

/// The firmware refuses a UKI that is not signed, and one that a key signed which it was not given. The error says so.
pub fn what_the_firmware_does_not_trust_does_not_start(site: &Site) -> Result<Verdict> {
    let copy = site.root.join("out/ci/secure boot");
    site.copy_to(&copy)?;
    for name in ["ours", "other"] {
        site.finish("secure-keys", site.osbuild()?.current_dir(&copy).args(["keys", "new", name]))?;
    }
    let mut problems = Vec::new();
    for (what, flags) in ATTACKS {
        let mut osbuild = site.osbuild()?;
        osbuild.current_dir(&copy).args(["run", RECIPE, "--until", "ready", "--timeout", "120", "--yes"]).args(flags);
        let ran = site.run("secure-boot", &mut osbuild)?;
        let explained = ran.said.contains("caused by: Secure Boot: the image has no signature that the firmware trusts");
        if ran.code != Some(1) || !explained || ran.said.contains("init: ") {
            problems.extend(ran.failure(&format!("{what} was not refused with a clear reason")).problems);
        }
    }
    Ok(Verdict { passed: ATTACKS.len() - problems.len(), problems, said: String::new() })
}
