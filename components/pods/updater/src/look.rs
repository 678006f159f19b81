//! One look at the repository, and what follows from it.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use osbuild_abi::sockets::update::MOST_BOOT_PROGRAM;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_formats::epoch;
use osbuild_formats::pe::Image;
use osbuild_release::{Architecture, Document, target};
use osbuild_signatures::authenticode::Hasher;
use osbuild_slots::{Header, NOT_COUNTED};
use rustix::fs::{MemfdFlags, memfd_create};

use crate::door::{Door, Slots, State};
use crate::firmware::{Firmware, Trust};
use crate::pace::Pace;
use crate::repository::{Repository, begun, each};
use crate::settings::Settings;
use crate::slot::Uki;

/// The architecture that this program was compiled for.
const HERE: Architecture =
    if cfg!(target_arch = "aarch64") { Architecture::Arm64 } else { Architecture::Amd64 };

/// What a look needs.
pub struct Updater {
    /// Where releases are.
    pub settings: Settings,
    /// `init`'s socket.
    pub socket: PathBuf,
    /// The folder with the newest metadata that were seen.
    pub seen: PathBuf,
    /// Whose programs the firmware starts.
    pub firmware: Firmware,
    /// What is asked of a server.
    pub pace: Pace,
}

/// What a look has led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing is to be done until the channel has something else.
    Rests(String),
    /// Nothing can be done yet.
    Waits(String),
    /// The node reboots into this version.
    Reboots(String),
}

/// What is to be done about a release.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Nothing(Look),
    Reboot,
    /// What is in the other slot is to be booted once more.
    Try,
    Install,
}

/// Looks, and if there is a release for this node puts it into the other slot and has the node
/// reboot.
///
/// # Errors
/// Nothing that could be verified was found, or it could not be installed. The slot that runs is as
/// it was.
pub async fn look(updater: &Updater) -> Outcome<Look> {
    let repository = Repository::load(&updater.settings, &updater.seen, updater.pace).await?;
    let document = repository.document(&updater.settings).await?;
    fits(&document, &updater.settings)?;
    let slots = Door::open(&updater.socket)?.status()?;
    match step(&slots, &document) {
        Step::Nothing(look) => return Ok(look),
        Step::Reboot => {}
        Step::Try => Door::open(&updater.socket)?.try_slot()?,
        Step::Install => install(updater, &repository, &document).await?,
    }
    Door::open(&updater.socket)?.reboot()?;
    Ok(Look::Reboots(document.version))
}

/// Refuses a release that is not for this node.
fn fits(document: &Document, settings: &Settings) -> Outcome {
    if document.recipe != settings.recipe || document.architecture != HERE {
        let (recipe, architecture) = (&document.recipe, document.architecture);
        return Err(Failure::new(format!(
            "the release is for {recipe} on {architecture}, not for this node"
        )));
    }
    if document.security_epoch < settings.security_epoch {
        let (its, ours) = (document.security_epoch, settings.security_epoch);
        return Err(Failure::new(format!(
            "the release is of security epoch {its}, and the node of {ours}"
        )));
    }
    Ok(())
}

fn step(slots: &Slots, document: &Document) -> Step {
    let version = &document.version;
    let running = slots.running.release.as_ref().map(|release| &release.version);
    if running == Some(version) {
        return Step::Nothing(Look::Rests(format!("{version} is what runs")));
    }
    if slots.running.state != State::Good {
        return Step::Nothing(Look::Waits(format!(
            "{} is on trial, so {version} waits",
            slots.running.slot
        )));
    }
    let digest =
        document.files.get(target::NODE).map(|file| file.sha256.to_string()).unwrap_or_default();
    let held = slots.other.release.as_ref();
    let is_there =
        held.is_some_and(|held| held.version == *version && digest.starts_with(&held.sha256));
    match slots.other.state {
        // The network had failed, and not the release.
        State::OnTrial(0) if is_there && slots.is_outage => Step::Try,
        // It was booted as often as it may be.
        State::OnTrial(0) if is_there => Step::Nothing(Look::Rests(format!(
            "{version} in {} did not become a good node",
            slots.other.slot
        ))),
        // It would not be booted the next time either, and the node would reboot for ever.
        State::OnTrial(_)
            if is_there
                && slots
                    .why
                    .contains(&format!("passed over {}: {NOT_COUNTED}", slots.other.slot)) =>
        {
            Step::Nothing(Look::Waits(format!(
                "{version} in {} cannot be tried: {}",
                slots.other.slot, slots.why
            )))
        }
        // Somebody ended this program before it could ask for the reboot.
        State::OnTrial(_) if is_there => Step::Reboot,
        _ => Step::Install,
    }
}

/// Puts the release onto the disk, in an order in which a power cut at any instant leaves a node
/// that boots. First the slot, which nothing boots yet. Then slotboot: a new one starts old slots
/// too, as it has to do when the update fails; but a new slot may need the new one. At last the
/// slot is marked.
async fn install(updater: &Updater, repository: &Repository, document: &Document) -> Outcome {
    let trust = updater.firmware.trust()?;
    let boot = boot_program(repository, document, trust.as_ref()).await?;
    let mut door = Door::open(&updater.socket)?;
    let (file, stream) = repository.file(document, target::NODE).await?;
    // A server that has no such file must not cost the node the slot to which it could go back.
    let stream = begun(stream).await?;
    let mut slot = door.slot()?;
    each(stream, |piece| slot.push(piece)).await?;
    let uki = slot.written()?;
    verify(&uki, document, trust.as_ref())?;
    uki.finish(&Header {
        length: file.length,
        sha256: file.sha256.0,
        version: document.version.clone(),
    })?;
    door.boot_program(&boot)?;
    door.try_slot()
}

/// The release's slotboot, verified, in memory.
async fn boot_program(
    repository: &Repository,
    document: &Document,
    trust: Option<&Trust>,
) -> Outcome<File> {
    let (file, stream) = repository.file(document, target::BOOT).await?;
    if file.length > MOST_BOOT_PROGRAM {
        return Err(Failure::new(format!(
            "{} has {} bytes, which is more than {MOST_BOOT_PROGRAM}",
            target::BOOT,
            file.length
        )));
    }
    let mut bytes = Vec::new();
    each(stream, |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })
    .await?;
    if let Some(trust) = trust {
        trust.check(target::BOOT, &bytes, Hasher::default(), now())?;
    }
    is_of_epoch(document, target::BOOT, &bytes)?;
    let mut memory = File::from(
        memfd_create(target::BOOT, MemfdFlags::CLOEXEC).explain("make a file in memory")?,
    );
    memory.write_all(&bytes).and_then(|()| memory.rewind()).explain("write to memory")?;
    Ok(memory)
}

/// Refuses a UKI that the firmware would not start, or that is of another epoch than its release.
fn verify(uki: &Uki, document: &Document, trust: Option<&Trust>) -> Outcome {
    if let Some(trust) = trust {
        trust.check(target::NODE, uki.bytes(), uki.hasher(), now())?;
    }
    is_of_epoch(document, target::NODE, uki.bytes())
}

/// Refuses a program of another security epoch than the release that it is in.
fn is_of_epoch(document: &Document, name: &str, program: &[u8]) -> Outcome {
    let image = Image::parse(program).explain(format_args!("read {name}"))?;
    let (its, named) =
        (epoch::of(&image).explain(format_args!("read {name}"))?, document.security_epoch);
    match its == named {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{name} is of security epoch {its}, and its release names {named}"
        ))),
    }
}

/// Seconds since 1970. A clock before that is as wrong as one that shows it.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::{Held, Release};
    use osbuild_release::{File as Listed, Sha256};

    fn document() -> Document {
        let file = Listed { length: 1, sha256: Sha256([0xAB; 32]) };
        let files = [target::NODE, target::BOOT].map(|name| (name.to_owned(), file)).into();
        Document::new("node", "2", HERE, 2, "2026-11-21", files).unwrap()
    }

    fn held(slot: &str, version: &str, state: State) -> Held {
        let release = Release { version: version.to_owned(), sha256: "abababababab".to_owned() };
        Held { slot: slot.to_owned(), release: Some(release), state }
    }

    fn decided(running: (&str, State), other: (&str, State)) -> Step {
        step(&slots("good", running, other), &document())
    }

    fn slots(why: &str, running: (&str, State), other: (&str, State)) -> Slots {
        let (running, other) =
            (held("SLOT-A", running.0, running.1), held("SLOT-B", other.0, other.1));
        Slots { why: why.to_owned(), running, other, is_outage: false }
    }

    #[test]
    fn another_version_than_the_one_that_runs_is_installed() {
        assert_eq!(decided(("1", State::Good), ("0", State::Good)), Step::Install);
        assert!(matches!(
            decided(("2", State::Good), ("1", State::Good)),
            Step::Nothing(Look::Rests(_))
        ));
        assert!(matches!(
            decided(("2", State::OnTrial(1)), ("1", State::Good)),
            Step::Nothing(Look::Rests(_))
        ));
    }

    #[test]
    fn nothing_is_installed_while_the_slot_that_runs_is_on_trial() {
        assert!(matches!(
            decided(("1", State::OnTrial(2)), ("0", State::Good)),
            Step::Nothing(Look::Waits(_))
        ));
    }

    #[test]
    fn a_release_that_did_not_become_good_is_not_tried_for_ever() {
        assert!(matches!(
            decided(("1", State::Good), ("2", State::OnTrial(0))),
            Step::Nothing(Look::Rests(_))
        ));
        assert_eq!(decided(("1", State::Good), ("2", State::OnTrial(3))), Step::Reboot);
        assert_eq!(decided(("1", State::Good), ("2", State::Unused)), Step::Install);
    }

    #[test]
    fn a_release_that_an_outage_has_ended_is_tried_once_more_and_not_fetched_again() {
        let tried = |version, state| {
            let slots =
                Slots { is_outage: true, ..slots("good", ("1", State::Good), (version, state)) };
            step(&slots, &document())
        };
        assert_eq!(tried("2", State::OnTrial(0)), Step::Try);
        assert_eq!(tried("2", State::OnTrial(3)), Step::Reboot);
        assert_eq!(tried("3", State::OnTrial(0)), Step::Install);
    }

    #[test]
    fn a_slot_whose_tries_cannot_be_counted_is_not_rebooted_into_for_ever() {
        let why = "good; passed over SLOT-B: its try cannot be counted: the disk cannot be written";
        let there = slots(why, ("1", State::Good), ("2", State::OnTrial(3)));
        assert!(matches!(
            step(&there, &document()),
            Step::Nothing(Look::Waits(reason)) if reason.ends_with(why)
        ));
        assert_eq!(
            step(&slots(why, ("1", State::Good), ("0", State::OnTrial(3))), &document()),
            Step::Install
        );
        let refused = "good; passed over SLOT-B: the firmware refuses it";
        assert_eq!(
            step(&slots(refused, ("1", State::Good), ("2", State::OnTrial(2))), &document()),
            Step::Reboot
        );
    }

    #[test]
    fn the_same_version_with_other_bytes_is_another_release() {
        let mut other = document();
        other.files.insert(target::NODE.to_owned(), Listed { length: 1, sha256: Sha256([0; 32]) });
        assert_eq!(
            step(&slots("good", ("1", State::Good), ("2", State::OnTrial(0))), &other),
            Step::Install
        );
    }
}
