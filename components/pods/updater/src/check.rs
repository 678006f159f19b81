//! One check of the repository, and the update that may follow from it.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fs::File;
use std::future::{pending, poll_fn};
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::small_file;
use osbuild_formats::epoch;
use osbuild_formats::pe::Image;
use osbuild_protocol::{
    Client, ClientError, InstallPermit, MAX_BOOT_PROGRAM, RefusalCode, Request, Slots,
};
use osbuild_release::{Architecture, Document, target};
use osbuild_rollout::Hold;
use osbuild_signatures::authenticode::Hasher;
use osbuild_slots::Header;
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::time::sleep;

use crate::api::Api;
use crate::cluster_files::{ClusterFiles, Membership};
use crate::decision::{Decision, decide};
use crate::firmware::{Firmware, Trust};
use crate::own_node::OwnNode;
use crate::pace::Pace;
use crate::report::Reporter;
use crate::repository::{Repository, for_each_piece, wait_for_first_piece};
use crate::request::Offered;
use crate::request_for_check;
use crate::settings::Settings;
use crate::slot::{Slot, Uki};

/// How long to wait for `init`, which hashes a whole slot and has a shorter time limit of its own.
const TIMEOUT: Duration = Duration::from_secs(360);

/// How long a release that was refused after its download is not downloaded again.
const REFUSED_INTERVAL: Duration = Duration::from_secs(86_400);

/// The pause between two looks at whether a reboot is granted, or what became of it.
pub const GRANT_INTERVAL: Duration = Duration::from_secs(30);

/// The architecture of this program.
pub(crate) const ARCHITECTURE: Architecture =
    if cfg!(target_arch = "aarch64") { Architecture::Arm64 } else { Architecture::Amd64 };

/// Everything that a check needs.
pub struct Updater {
    /// Where the releases are, and which of them are for this node.
    pub settings: Settings,
    /// `init`'s socket.
    pub socket: PathBuf,
    /// The files that show in which cluster the node is.
    pub cluster: ClusterFiles,
    /// The file with the machine's identity, by which a rollout orders the nodes.
    pub machine_id: PathBuf,
    /// The folder that keeps the newest metadata seen so far.
    pub seen: PathBuf,
    /// The firmware, which decides whose programs it starts.
    pub firmware: Firmware,
    /// How fast a server must be.
    pub pace: Pace,
    /// Tells `init` what happens.
    pub reporter: Reporter,
    /// The release that was refused after its download.
    pub refused: RefCell<Option<Refused>>,
}

/// A release that was downloaded, and could not be installed.
pub struct Refused {
    /// It, as its channel describes it.
    document: Document,
    /// When.
    at: Instant,
    /// Why.
    why: String,
}

/// The result of a check. The strings are lines for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckOutcome {
    /// Nothing to do until the channel offers another release.
    Idle(String),
    /// Nothing can be done yet.
    Waits(String),
    /// The release's publisher has stopped it.
    Held(String),
    /// The release's rollout does not allow it yet: it waits for its wave or its window.
    AwaitsTurn(String),
    /// This release is installed, and the cluster has not granted the reboot yet.
    Asks(Box<Document>),
    /// The node reboots into this version.
    Reboots(String),
}

/// Checks the channel, and installs a release for this node into the other slot and reboots, as
/// soon as the release's rollout allows it, or the node's cluster grants it.
///
/// # Errors
/// No release could be verified, or it could not be installed. The running slot is unchanged.
pub async fn check(updater: &Updater) -> Outcome<CheckOutcome> {
    let (repository, document) = offered(updater).await?;
    follow(updater, Some(&repository), document).await
}

/// Like [`check`], but goes on with the release in `asked`, for which the node has asked its
/// cluster, if the channel cannot be read: a node that its cluster has drained only has to reboot,
/// and one that waits for its turn must learn of it. The release stays there until that succeeds,
/// or until the channel offers another one: a node never reboots into a release that it knows to be
/// superseded, also if the next one cannot be installed.
///
/// # Errors
/// As for [`check`].
pub async fn check_or_resume(
    updater: &Updater,
    asked: &mut Option<Document>,
) -> Outcome<CheckOutcome> {
    let outcome = match (offered(updater).await, asked.clone()) {
        (Ok((repository, document)), before) => {
            // Its rollout may be another one by now.
            *asked = before.filter(|before| is_same(before, &document)).map(|_| document.clone());
            follow(updater, Some(&repository), document).await
        }
        (Err(failure), Some(document)) => {
            eprintln!("{failure}");
            follow(updater, None, document).await
        }
        (Err(failure), None) => Err(failure),
    };
    if outcome.is_ok() {
        *asked = None;
    }
    outcome
}

/// Reads which release the channel offers.
async fn offered(updater: &Updater) -> Outcome<(Repository, Document)> {
    let repository = Repository::load(&updater.settings, &updater.seen, updater.pace).await?;
    let document = repository.document(&updater.settings).await?;
    updater.reporter.on_offered(&document.version);
    Ok((repository, document))
}

/// Whether two documents are of the same release, perhaps with different rollouts.
fn is_same(one: &Document, other: &Document) -> bool {
    (&one.version, &one.files) == (&other.version, &other.files)
}

async fn follow(
    updater: &Updater,
    repository: Option<&Repository>,
    document: Document,
) -> Outcome<CheckOutcome> {
    let slots = updater.init()?.slots().explain("ask init for the state of the slots")?;
    let (decision, fits) = (decide(&slots, &document), fits(&document, &updater.settings));
    let is_idle = matches!(decision, Decision::Idle(_));
    let hold = if decision.is_nothing() { None } else { updater.hold(&document)? };
    // A stopped release is no longer wanted, and neither is one that this one supersedes, also if
    // this one cannot be installed: the cluster must not drain the node for it.
    let is_unwanted = is_idle || hold == Some(Hold::Stopped) || fits.is_err();
    let offered = if is_unwanted { Offered::Nothing } else { Offered::Version(&document.version) };
    updater.settle(&slots, offered).await;
    fits?;
    if let Some(hold) = hold {
        return Ok(held(&document, hold));
    }
    let (is_marked, staged) = match decision {
        Decision::Idle(why) => return Ok(CheckOutcome::Idle(why)),
        Decision::Wait(why) => return Ok(CheckOutcome::Waits(why)),
        Decision::Reboot => (true, None),
        Decision::Try => (false, None),
        Decision::Mark(permit) => (false, Some(permit)),
        Decision::Install(permit) => {
            let missing =
                || Failure::new(format!("{} is not installed any more", document.version));
            install(updater, repository.ok_or_else(missing)?, &document, permit).await?;
            // The window may have closed.
            if let Some(hold) = updater.hold(&document)? {
                return Ok(held(&document, hold));
            }
            (false, None)
        }
    };
    updater.reporter.on_installed();
    if !updater.is_granted(&document.version).await? {
        return Ok(CheckOutcome::Asks(Box::new(document)));
    }
    if !is_marked {
        updater.mark(staged)?;
    }
    updater.send(&Request::Reboot)?;
    Ok(CheckOutcome::Reboots(document.version))
}

fn held(document: &Document, hold: Hold) -> CheckOutcome {
    let line = format!("{} {hold}", document.version);
    match hold {
        Hold::Stopped => CheckOutcome::Held(line),
        Hold::Unreached(_) | Hold::Wave(_) | Hold::Window(_) => CheckOutcome::AwaitsTurn(line),
    }
}

impl Updater {
    /// Connects to `init`, which accepts few connections at a time: use each at once.
    fn init(&self) -> Outcome<Client> {
        Client::connect(&self.socket, TIMEOUT)
            .explain(format_args!("connect to init at {}", self.socket.display()))
    }

    /// Whether the node may reboot into this version. One that is in no cluster may.
    ///
    /// # Errors
    /// The cluster could not be asked.
    pub async fn is_granted(&self, version: &str) -> Outcome<bool> {
        match self.own_node().await? {
            Some(mut node) => node.ask(version).await.explain("ask for a reboot"),
            None => Ok(true),
        }
    }

    /// Why the release's rollout does not allow an update now. In a cluster that grants reboots,
    /// only a stop counts: waves and windows are the cluster's own.
    ///
    /// # Errors
    /// The machine's identity cannot be read.
    fn hold(&self, document: &Document) -> Outcome<Option<Hold>> {
        let Some(rollout) = &document.rollout else { return Ok(None) };
        if rollout.is_stopped() {
            return Ok(Some(Hold::Stopped));
        }
        if self.cluster()?.is_some() {
            return Ok(None);
        }
        let machine = small_file::read(&self.machine_id)?
            .ok_or_else(|| Failure::new(format!("{} is missing", self.machine_id.display())))?;
        Ok(rollout.hold(machine.trim_end(), Timestamp::now()))
    }

    /// Reports to the cluster what became of a request. It is repeated at the next check.
    async fn settle(&self, slots: &Slots, offered: Offered<'_>) {
        if let Err(failure) = self.settled(slots, offered).await {
            eprintln!("report to the cluster: {failure}");
        }
    }

    /// Waits for `pause`, or until a person asks for a check. Returns whether one did. A node that
    /// has rebooted reports meanwhile what became of that, as soon as it is known.
    pub async fn is_asked_to_check(&self, pause: Duration) -> bool {
        let mut reports = pin!(self.report_results());
        let mut asked = pin!(request_for_check::comes_within(pause, &self.socket));
        poll_fn(|context| {
            let _: Poll<Infallible> = reports.as_mut().poll(context);
            asked.as_mut().poll(context)
        })
        .await
    }

    /// Reports what became of a reboot, if there is anything to report. It never ends.
    async fn report_results(&self) -> Infallible {
        while self.has_to_report().await {
            sleep(GRANT_INTERVAL).await;
        }
        pending().await
    }

    /// Reports to the cluster what became of a reboot that it has granted. Returns whether that is
    /// still to be done: the release is on trial, or the cluster cannot be asked.
    pub async fn has_to_report(&self) -> bool {
        let slots = self.init().and_then(|mut init| init.slots().explain("ask init for the slots"));
        match slots {
            Ok(slots) => self.settled(&slots, Offered::Unknown).await.unwrap_or(true),
            Err(_) => false,
        }
    }

    /// Reports what became of a request, and returns whether that is not known yet.
    async fn settled(&self, slots: &Slots, offered: Offered<'_>) -> Outcome<bool> {
        let Some(mut node) = self.own_node().await? else { return Ok(false) };
        node.settle(slots, offered).await?;
        Ok(node.is_on_trial(slots))
    }

    /// The node's own Node, if the node is in a cluster that it has to ask.
    async fn own_node(&self) -> Outcome<Option<OwnNode>> {
        match self.cluster()? {
            Some(api) => OwnNode::read(api).await.map(Some),
            None => Ok(None),
        }
    }

    /// The cluster that the node has to ask, if it is in one.
    ///
    /// # Errors
    /// The node has no certificate of its cluster now. Its pods may run on meanwhile.
    fn cluster(&self) -> Outcome<Option<Api>> {
        if !self.settings.waits_for_grant {
            return Ok(None);
        }
        match self.cluster.membership() {
            Membership::Member(kubeconfig) => Api::of_node(kubeconfig),
            Membership::Rejoins => Err(Failure::new("the node joins its cluster again")),
            Membership::None => Ok(None),
        }
    }

    /// Takes note of a release that cannot be installed.
    fn refuse(&self, document: &Document, why: &Failure) {
        let (document, at, why) = (document.clone(), Instant::now(), why.to_string());
        self.refused.replace(Some(Refused { document, at, why }));
    }

    /// Refuses a release once more that could not be installed, instead of downloading it again.
    fn admits(&self, document: &Document) -> Outcome {
        match &*self.refused.borrow() {
            Some(Refused { document: refused, at, why })
                if is_same(refused, document) && at.elapsed() < REFUSED_INTERVAL =>
            {
                Err(Failure::new(format!("{why}: the release is not downloaded again for a day")))
            }
            _ => Ok(()),
        }
    }

    /// Has the other slot booted next. If an earlier check installed what it holds (`staged`) and
    /// the medium has lost it since, the slot is emptied, and the next check installs it again.
    fn mark(&self, staged: Option<InstallPermit>) -> Outcome {
        let marked = self.send(&Request::TrySlot);
        if let (Err(_), Some(permit)) = (&marked, staged) {
            self.init()?.open_slot(permit).explain("ask init for the other slot")?;
        }
        marked
    }

    fn send(&self, request: &Request) -> Outcome {
        self.init()?.send(request).explain(format_args!("send init the request `{request}`"))
    }
}

/// Refuses a release that is not for this node.
fn fits(document: &Document, settings: &Settings) -> Outcome {
    if document.recipe != settings.recipe || document.architecture != ARCHITECTURE {
        let (recipe, architecture) = (&document.recipe, document.architecture);
        return Err(Failure::new(format!(
            "the release is for {recipe} on {architecture}, not for this node"
        )));
    }
    if document.security_epoch < settings.security_epoch {
        let (its, ours) = (document.security_epoch, settings.security_epoch);
        return Err(Failure::new(format!(
            "the release has security epoch {its}, which is lower than the node's {ours}"
        )));
    }
    Ok(())
}

/// Writes the release to the disk, in an order that leaves a bootable node after a power cut at any
/// instant. The UKI comes first: nothing boots it yet. Then slotboot: a new one also starts old
/// slots, which the fallback needs, but a new slot may need a new slotboot. The slot's header comes
/// last: a slot that has one only needs the mark.
async fn install(
    updater: &Updater,
    repository: &Repository,
    document: &Document,
    permit: InstallPermit,
) -> Outcome {
    updater.admits(document)?;
    let trust = updater.firmware.trust()?;
    let boot = boot_program(repository, document, trust.as_ref()).await?;
    let mut init = updater.init()?;
    let (file, stream) = repository.file(document, target::NODE).await?;
    // `open_slot` takes the fallback slot out of use, so first make sure that the server has the
    // file.
    let stream = wait_for_first_piece(stream).await?;
    let (slot, length) = init.open_slot(permit).explain("ask init for the other slot")?;
    let mut slot = Slot::new(File::from(slot), length)?;
    let mut received = 0;
    for_each_piece(stream, |piece| {
        slot.push(piece)?;
        received += piece.len() as u64;
        updater.reporter.on_received(received, file.length);
        Ok(())
    })
    .await?;
    let uki = slot.finish()?;
    verify(&uki, document, trust.as_ref()).inspect_err(|why| updater.refuse(document, why))?;
    let replaced = init.replace_boot_program(&boot);
    let is_refused = replaced.as_ref().is_err_and(is_about_the_release);
    replaced.explain("have init replace slotboot").inspect_err(|why| {
        if is_refused {
            updater.refuse(document, why);
        }
    })?;
    uki.write_header(&Header {
        length: file.length,
        sha256: file.sha256.0,
        version: document.version.clone(),
    })
}

/// Whether `init` would refuse the same slotboot again. One that is busy, or does not answer, may
/// take it a moment later.
fn is_about_the_release(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(refusal) if refusal.code != RefusalCode::Busy)
}

/// Downloads the release's slotboot into a memfd and verifies it.
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
    for_each_piece(stream, |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })
    .await?;
    if let Some(trust) = trust {
        trust.check(target::BOOT, &bytes, Hasher::default(), now())?;
    }
    check_epoch(document, target::BOOT, &bytes)?;
    let mut memory =
        File::from(memfd_create(target::BOOT, MemfdFlags::CLOEXEC).explain("create a memfd")?);
    memory.write_all(&bytes).and_then(|()| memory.rewind()).explain("write a memfd")?;
    Ok(memory)
}

/// Refuses a UKI that the firmware would not start, or whose security epoch is not the release's.
fn verify(uki: &Uki, document: &Document, trust: Option<&Trust>) -> Outcome {
    if let Some(trust) = trust {
        trust.check(target::NODE, uki.bytes(), uki.hasher(), now())?;
    }
    check_epoch(document, target::NODE, uki.bytes())
}

/// Refuses a program whose security epoch is not the one that its release declares.
fn check_epoch(document: &Document, name: &str, program: &[u8]) -> Outcome {
    let image = Image::parse(program).explain(format_args!("read {name}"))?;
    let found = epoch::of(&image).explain(format_args!("read {name}"))?;
    let declared = document.security_epoch;
    match found == declared {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{name} has security epoch {found}, but its release declares {declared}"
        ))),
    }
}

/// Seconds since 1970; 0 if the clock is before that.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
