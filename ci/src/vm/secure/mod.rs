//! Secure Boot: what the firmware does not trust does not start, and what it trusts does. Each
//! attempt is one UKI, the one that the VMs boot with something done to it, on a disk with nothing
//! but a system partition.

mod attempts;
mod beside;
mod disk;
mod lab;

pub use beside::nothing_beside_the_uki_is_read;

use crate::check::Verdict;
use crate::image::RECIPE;
use crate::site::Site;
use attempts::{Attempt, Named, REFUSED, REFUSED_OF_TWO, STARTED, STARTED_OF_TWO};
use lab::{Lab, Outcome};

pub use lab::NOT_TRUSTED;
use osbuild::error::{Error, Problem, Result};

/// The part of a UKI in which `cargo ci` flips a bit. `cargo ci full` does so in all.
const TELLING: &str = ".linux";

/// The firmware refuses a UKI that is not signed, that somebody else signed, that is revoked, or
/// that has one bit flipped. It starts one whose certificate has expired, as it does not look at
/// dates.
pub fn the_firmware_starts_what_it_trusts_and_nothing_else(site: &Site) -> Result<Verdict> {
    let lab = Lab::open(site)?;
    let mut verdict = Verdict::default();
    try_each(&lab, &mut verdict, REFUSED, STARTED);
    flip(&lab, &mut verdict, |part| part == TELLING)?;
    Ok(verdict)
}

/// So it is where two keys are at work, and one flipped bit is refused in whatever other part of
/// the UKI.
pub fn the_firmware_is_not_fooled_by_halves(site: &Site) -> Result<Verdict> {
    let lab = Lab::open(site)?;
    let mut verdict = Verdict::default();
    try_each(&lab, &mut verdict, REFUSED_OF_TWO, STARTED_OF_TWO);
    flip(&lab, &mut verdict, |part| part != TELLING)?;
    Ok(verdict)
}

fn try_each(lab: &Lab, verdict: &mut Verdict, refused: &[Named], started: &[Named]) {
    for (attempts, wanted) in [(refused, Outcome::Refused), (started, Outcome::Started)] {
        for (name, prepare) in attempts {
            judge(verdict, name, wanted, attempt(lab, name, *prepare));
        }
    }
}

fn flip(lab: &Lab, verdict: &mut Verdict, chosen: impl Fn(&str) -> bool) -> Result<()> {
    for part in lab.parts()?.into_iter().filter(|part| chosen(part)) {
        let name = format!("uki_with_a_flipped_bit_in_{}_is_refused", part.trim_start_matches('.'));
        judge(
            verdict,
            &name,
            Outcome::Refused,
            lab.flipped(&part).and_then(|(uki, trust)| lab.boot(&name, &uki, trust)),
        );
    }
    Ok(())
}

fn attempt(lab: &Lab, name: &str, prepare: Attempt) -> Result<Outcome> {
    let (uki, trust) = prepare(lab)?;
    lab.boot(name, &uki, trust)
}

fn judge(verdict: &mut Verdict, name: &str, wanted: Outcome, found: Result<Outcome>) {
    match found {
        Ok(found) if found == wanted => verdict.passed += 1,
        Ok(found) => verdict
            .problems
            .push(Problem::new(format!("not so: {name}")).cause(format!("it was {found}"))),
        Err(error) => {
            verdict.problems.extend(error.problems.into_iter().map(|problem| problem.cause(name)))
        }
    }
}

/// `osbuild run` gives the firmware other keys when told to, and says what the firmware refused.
pub fn run_says_what_the_firmware_refused(site: &Site) -> Result<Verdict> {
    let copy = site.root.join("out/ci/secure boot");
    site.copy_to(&copy)?;
    let flags = [
        "run",
        RECIPE,
        "--until",
        "ready",
        "--timeout",
        "120",
        "--unsigned",
        "--trust",
        "ours",
        "--yes",
    ];
    site.finish("secure-keys", site.osbuild()?.current_dir(&copy).args(["keys", "new", "ours"]))?;
    let ran = site.run("secure-boot", site.osbuild()?.current_dir(&copy).args(flags))?;
    let explained = ran
        .said
        .contains("caused by: Secure Boot: the image has no signature that the firmware trusts");
    if ran.code != Some(1) || !explained || ran.said.contains("init: ") {
        return Err(ran.failure("an unsigned image was not refused with a clear reason"));
    }
    std::fs::remove_dir_all(&copy)
        .map_err(|error| Error::build("cannot remove the copy of the checkout").cause(error))?;
    Ok(Verdict::holds(""))
}
