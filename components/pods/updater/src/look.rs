//! One look at the repository, and what follows from it.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_formats::epoch;
use osbuild_formats::pe::Image;
use osbuild_protocol::{Client, InstallPermit, MAX_BOOT_PROGRAM, Request};
use osbuild_release::{Architecture, Document, target};
use osbuild_signatures::authenticode::Hasher;
use osbuild_slots::Header;
use rustix::fs::{MemfdFlags, memfd_create};

use crate::decision::{Decision, decide};
use crate::firmware::{Firmware, Trust};
use crate::pace::Pace;
use crate::repository::{Repository, begun, each};
use crate::settings::Settings;
use crate::slot::{Slot, Uki};

/// How long `init` may take: it hashes a whole slot, and gives up before this.
const TIMEOUT: Duration = Duration::from_secs(360);

/// The architecture that this program was compiled for.
pub(crate) const HERE: Architecture =
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
    let slots = updater.init()?.slots().explain("ask init how the slots are")?;
    match decide(&slots, &document) {
        Decision::Nothing(look) => return Ok(look),
        Decision::Reboot => {}
        Decision::Try => updater.tell(&Request::TrySlot)?,
        Decision::Install(permit) => install(updater, &repository, &document, permit).await?,
    }
    updater.tell(&Request::Reboot)?;
    Ok(Look::Reboots(document.version))
}

impl Updater {
    /// A connection to `init`. Each is used at once: `init` keeps few of them.
    fn init(&self) -> Outcome<Client> {
        Client::connect(&self.socket, TIMEOUT)
            .explain(format_args!("reach init at {}", self.socket.display()))
    }

    fn tell(&self, request: &Request) -> Outcome {
        self.init()?.tell(request).explain(format_args!("ask init for `{request}`"))
    }
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

/// Puts the release onto the disk, in an order in which a power cut at any instant leaves a node
/// that boots. First the slot, which nothing boots yet. Then slotboot: a new one starts old slots
/// too, as it has to do when the update fails; but a new slot may need the new one. At last the
/// slot is marked.
async fn install(
    updater: &Updater,
    repository: &Repository,
    document: &Document,
    permit: InstallPermit,
) -> Outcome {
    let trust = updater.firmware.trust()?;
    let boot = boot_program(repository, document, trust.as_ref()).await?;
    let mut init = updater.init()?;
    let (file, stream) = repository.file(document, target::NODE).await?;
    // A server that has no such file must not cost the node the slot to which it could go back.
    let stream = begun(stream).await?;
    let (slot, length) = init.open_slot(permit).explain("ask init for the other slot")?;
    let mut slot = Slot::new(File::from(slot), length)?;
    each(stream, |piece| slot.push(piece)).await?;
    let uki = slot.written()?;
    verify(&uki, document, trust.as_ref())?;
    uki.finish(&Header {
        length: file.length,
        sha256: file.sha256.0,
        version: document.version.clone(),
    })?;
    init.replace_boot_program(&boot).explain("have init replace slotboot")?;
    init.tell(&Request::TrySlot).explain("have init mark the other slot")
}

/// The release's slotboot, verified, in memory.
async fn boot_program(
    repository: &Repository,
    document: &Document,
    trust: Option<&Trust>,
) -> Outcome<File> {
    let (file, stream) = repository.file(document, target::BOOT).await?;
    if file.length > MAX_BOOT_PROGRAM {
        return Err(Failure::new(format!(
            "{} has {} bytes, which is more than {MAX_BOOT_PROGRAM}",
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
