//! Secure Boot: the firmware starts exactly the programs that it trusts. Each attempt is a changed
//! copy of the UKI that the VMs boot, on a disk with only a system partition.

mod attempts;
mod lab;
mod unsigned_inputs;

pub use lab::NOT_TRUSTED;
pub use unsigned_inputs::nothing_beside_the_uki_is_read;

use crate::check::{Outcome, unmet};
use crate::image::RECIPE;
use crate::site::Site;
use attempts::{Attempt, Named, REFUSED, REFUSED_OF_TWO, STARTED, STARTED_OF_TWO};
use lab::{Lab, Response};
use osbuild::error::{Error, Result};

/// The part of a UKI in which `cargo ci` flips a bit. `cargo ci full` flips one in every part.
const FLIPPED_PART: &str = ".linux";

/// The firmware refuses a UKI that is unsigned, signed with another key, revoked, or has one bit
/// flipped. It starts a UKI with an expired certificate: it does not check dates.
pub fn the_firmware_starts_only_what_it_trusts(site: &Site) -> Result<Outcome> {
    let lab = Lab::open(site)?;
    let mut outcome = Outcome::default();
    try_each(&lab, &mut outcome, REFUSED, STARTED);
    flip(&lab, &mut outcome, |part| part == FLIPPED_PART)?;
    Ok(outcome)
}

/// The same with two keys, and with one bit flipped in each other part of the UKI.
pub fn the_firmware_checks_every_signature_and_every_part(site: &Site) -> Result<Outcome> {
    let lab = Lab::open(site)?;
    let mut outcome = Outcome::default();
    try_each(&lab, &mut outcome, REFUSED_OF_TWO, STARTED_OF_TWO);
    flip(&lab, &mut outcome, |part| part != FLIPPED_PART)?;
    Ok(outcome)
}

/// The names of all claims but those about flipped bits, which contain a part's name.
pub fn claims() -> impl Iterator<Item = &'static str> {
    let attempts = [REFUSED, REFUSED_OF_TWO, STARTED, STARTED_OF_TWO].into_iter().flatten();
    attempts.map(|(name, _)| *name).chain(unsigned_inputs::claims())
}

fn try_each(lab: &Lab, outcome: &mut Outcome, refused: &[Named], started: &[Named]) {
    for (attempts, expected) in [(refused, Response::Refused), (started, Response::Started)] {
        for (name, prepare) in attempts {
            record(outcome, name, expected, attempt(lab, name, *prepare));
        }
    }
}

fn flip(lab: &Lab, outcome: &mut Outcome, chosen: impl Fn(&str) -> bool) -> Result<()> {
    for part in lab.parts()?.into_iter().filter(|part| chosen(part)) {
        let name = format!("uki_with_a_flipped_bit_in_{}_is_refused", part.trim_start_matches('.'));
        record(
            outcome,
            &name,
            Response::Refused,
            lab.flipped(&part).and_then(|(uki, trust)| lab.boot(&name, &uki, trust)),
        );
    }
    Ok(())
}

fn attempt(lab: &Lab, name: &str, prepare: Attempt) -> Result<Response> {
    let (uki, trust) = prepare(lab)?;
    lab.boot(name, &uki, trust)
}

fn record(outcome: &mut Outcome, name: &str, expected: Response, found: Result<Response>) {
    match found {
        Ok(found) if found == expected => outcome.passed += 1,
        Ok(found) => outcome.problems.push(unmet(name).cause(format!("it was {found}"))),
        Err(error) => {
            outcome.problems.extend(error.problems.into_iter().map(|problem| problem.cause(name)))
        }
    }
}

/// `osbuild run --unsigned --trust KEYS` enrolls these keys, and reports that the firmware refused
/// the image.
pub fn run_reports_that_the_firmware_refused_the_image(site: &Site) -> Result<Outcome> {
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
        .output
        .contains("caused by: Secure Boot: the image has no signature that the firmware trusts");
    if ran.code != Some(1) || !explained || ran.output.contains("init: ") {
        return Err(ran.failure("an unsigned image was not refused with a clear reason"));
    }
    std::fs::remove_dir_all(&copy)
        .map_err(|error| Error::build("cannot remove the copy of the checkout").cause(error))?;
    Ok(Outcome::holds(""))
}
