//! The jobs of the disk worker and their results.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use osbuild_failure::{Failure, Outcome};
use osbuild_protocol::{BlockDevice, ProviderName, Refusal, Slots};

use crate::boot::images;
use crate::boot::security::{self, Security};
use crate::daemons::kubelet::{self, Start};
use crate::daemons::kubelet_config;
use crate::daemons::node_name::{self, Known};
use crate::daemons::static_pods::{self, Placed, Wave};
use crate::data::secret::NodeSecret;
use crate::data::volumes::{self, OpenedVolume};
use crate::data::{
    self, containerd_reset, machine_id, mount, obstacles, old_images, panics, reset, room, tidy,
    writable,
};
use crate::host::settings::fallback::{Fallback, Proof};
use crate::host::settings::kept;
use crate::host::{clock, credential_providers, host_name, registration};
use crate::processes::program::Program;
use crate::slot::boot_source::{self, BootSource, Occupied, OpenedSlot, TrialFacts};
use crate::slot::reached;
use crate::slot::update_job::Work;

/// A job. Those of the boot are the part of a [phase](crate::boot::BOOT) that needs a disk.
#[derive(Debug)]
pub enum Job {
    /// Asks the firmware whether it verifies signatures.
    ReadSecurity,
    /// Finds, grows and mounts DATA, or mounts it in memory.
    MountData {
        /// Whether DATA is in memory.
        in_memory: bool,
    },
    /// Empties DATA, if that was requested.
    EmptyData,
    /// Finds the slot that runs, and reads both.
    FindSlot,
    /// Reads what the trial of the slot depends on.
    ReadTrial,
    /// Reads when the node last ran.
    ReadClock,
    /// Makes the machine id, and the secret of the node.
    MakeIdentity,
    /// Deletes containerd's state after too many failed boots.
    ResetContainerd,
    /// Mounts the writable paths.
    MountWritable,
    /// Moves the messages of a panic from the firmware to a log.
    MovePanics,
    /// Reads the host names that are known before the network.
    ReadHostNames,
    /// Reads the settings that requests of earlier boots have set, and counts the start.
    ReadSettings {
        /// Whether the slot is on trial.
        is_on_trial: bool,
    },
    /// Removes containerd's copies of the node's own images.
    RemoveOldImages,
    /// Frees the memory of the node's own images.
    FreeImages,

    /// Reads the slots for a `status`.
    ReadSlots,
    /// Opens the other slot for an update.
    OpenSlot,
    /// Opens the first volume with a node document after this device.
    OpenVolume(Option<BlockDevice>),
    /// Finds the partition for a part of an update.
    FindPartition(Work),
    /// Marks the other slot as the one to boot next.
    MarkForTry,
    /// Marks the slot that runs as a good one.
    MarkGood,
    /// Keeps what the slots have reached: the text of the file.
    KeepReached(String),

    /// Removes the kubelet's state of the last boot, before its first start in this one.
    ForgetLastBoot,
    /// Reads what decides about the node's name.
    ReadNodeName,
    /// Keeps the name of the node in its cluster.
    KeepNodeName(String),
    /// Forgets that name.
    ForgetNodeName,
    /// Puts the static pods of now where the kubelet finds them.
    PlaceStaticPods(Wave),
    /// Looks which programs of credential providers with these names are there.
    LookForPrograms(Vec<ProviderName>),
    /// Prepares a start of the kubelet under this name.
    PrepareKubelet(String),
    /// Moves aside what is in the way in the kubelet's configuration.
    ClearForJoining,
    /// Keeps a host name that the network gave.
    KeepHostName(String),
    /// Keeps the settings that requests have set: the text of the file.
    KeepSettings(String),
    /// Keeps the names of the labels that requests set on the node's object: the text of the file.
    KeepLabels(String),
    /// Keeps the number of starts that have failed with the newest settings or earlier ones.
    CountFailedStarts(u32),
    /// Keeps what the node has shown about its settings by being ready.
    KeepProof(Proof),
    /// Keeps that a client knows that the node has gone back to earlier settings.
    KeepAcknowledged,

    /// Requests that the next boot empties DATA.
    RequestReset,
    /// Counts a boot that failed because of containerd.
    CountFailedBoot,
    /// Resets that count.
    ForgetFailedBoots,
    /// Keeps the time.
    KeepClock,
    /// Measures the room on DATA.
    MeasureRoom,
    /// Makes the link to the seccomp profiles again, if it has gone.
    LinkSeccompProfiles,
}

/// The result of a job.
pub enum Done {
    /// Success or failure, without a value.
    Plain(Outcome),
    /// [`Job::KeepSettings`].
    SettingsKept(Outcome),
    /// [`Job::KeepLabels`].
    LabelsKept(Outcome),
    /// [`Job::KeepProof`]: the proof, and whether DATA has it.
    ProofKept(Proof, Outcome),
    /// [`Job::KeepAcknowledged`].
    Acknowledged(Outcome),
    /// Of [`Job::ReadSecurity`].
    Security(Security),
    /// Of [`Job::MountData`]: lines for the console, and the outcome.
    DataMounted(Vec<String>, Outcome),
    /// Of [`Job::EmptyData`]: a line for the console.
    DataEmptied(Outcome<Option<&'static str>>),
    /// Of [`Job::FindSlot`].
    SlotFound(Outcome<Vec<Occupied>>),
    /// Of [`Job::ReadTrial`]: with the text of the file of what the slots have reached.
    Trial(Outcome<TrialFacts>, String),
    /// Of [`Job::ReadClock`].
    LastRun(Outcome<Option<SystemTime>>),
    /// Of [`Job::ResetContainerd`]: a line for the console, and whether discarded files are left to
    /// be removed.
    ContainerdReset(Outcome<(Option<String>, bool)>),
    /// Of [`Job::MountWritable`]: what could not be cleared.
    WritableMounted(Outcome<Vec<Failure>>),
    /// Of [`Job::MovePanics`]: lines for the console.
    PanicsMoved(Outcome<Vec<String>>),
    /// Of [`Job::ReadHostNames`].
    HostNames {
        /// The one made from the machine id.
        of_machine: String,
        /// The last one that the network gave.
        kept: Option<String>,
    },
    /// Of [`Job::ReadSettings`].
    Settings {
        /// The choice.
        fallback: Fallback,
        /// The names of the labels that requests have set on the node's object.
        labels: Outcome<String>,
        /// Whether the newest settings were read and the start is counted.
        counted: Outcome,
    },
    /// Of [`Job::ReadSlots`].
    Slots(Outcome<Slots>),
    /// Of [`Job::OpenSlot`].
    SlotOpened(Result<OpenedSlot, Refusal>),
    /// Of [`Job::OpenVolume`].
    VolumeOpened(Result<Option<OpenedVolume>, Refusal>),
    /// Of [`Job::FindPartition`]: the device.
    PartitionFound(Result<PathBuf, Refusal>),
    /// Of [`Job::MarkForTry`]: the name of the slot.
    MarkedForTry(Outcome<&'static str>),
    /// Of [`Job::MarkGood`].
    MarkedGood {
        /// The name of the slot.
        outcome: Outcome<&'static str>,
        /// Whether the slot still has to become a good one.
        is_still_on_trial: bool,
    },
    /// Of [`Job::ReadNodeName`].
    NodeName(Known),
    /// Of [`Job::MakeIdentity`]: the outcome for the machine id, and the node's secret, without
    /// which it makes no keys.
    Identity(Outcome, Outcome<NodeSecret>),
    /// Of [`Job::PlaceStaticPods`].
    StaticPodsPlaced(Outcome<Placed>),
    /// Of [`Job::LookForPrograms`]: those that are there.
    ProgramsFound(BTreeSet<ProviderName>),
    /// Of [`Job::PrepareKubelet`].
    KubeletPrepared {
        /// How it is started.
        start: Start,
        /// How long its pods may take to end before a shutdown.
        shutdown_grace: Duration,
    },
    /// Of [`Job::ClearForJoining`].
    ClearedForJoining(Outcome),
    /// Of [`Job::RequestReset`].
    ResetRequested(Outcome),
    /// Of [`Job::CountFailedBoot`]: a line for the console.
    FailedBootCounted(Outcome<String>),
    /// Of [`Job::MeasureRoom`].
    RoomMeasured(Outcome<room::Left>),
    /// Of [`Job::LinkSeccompProfiles`]: whether it had gone.
    SeccompProfilesLinked(Outcome<bool>),
}

impl Job {
    /// Whether it reads disks that the node does not need, which may hang for ever.
    pub fn reads_any_disk(&self) -> bool {
        matches!(self, Self::OpenVolume(_))
    }

    /// Its name, for a message about one that does not end.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ReadSecurity => "read-security",
            Self::MountData { .. } => "mount-data",
            Self::EmptyData => "empty-data",
            Self::FindSlot => "find-slot",
            Self::ReadTrial => "read-trial",
            Self::ReadClock => "read-clock",
            Self::MakeIdentity => "make-identity",
            Self::ResetContainerd => "reset-containerd",
            Self::MountWritable => "mount-writable",
            Self::MovePanics => "move-panics",
            Self::ReadHostNames => "read-host-names",
            Self::ReadSettings { .. } => "read-settings",
            Self::RemoveOldImages => "remove-old-images",
            Self::FreeImages => "free-images",
            Self::ReadSlots => "read-slots",
            Self::OpenSlot => "open-slot",
            Self::OpenVolume(_) => "open-volume",
            Self::FindPartition(_) => "find-partition",
            Self::MarkForTry => "mark-for-try",
            Self::MarkGood => "mark-good",
            Self::KeepReached(_) => "keep-reached",
            Self::ForgetLastBoot => "forget-last-boot",
            Self::ReadNodeName => "read-node-name",
            Self::KeepNodeName(_) => "keep-node-name",
            Self::ForgetNodeName => "forget-node-name",
            Self::PlaceStaticPods(_) => "place-static-pods",
            Self::LookForPrograms(_) => "look-for-programs",
            Self::PrepareKubelet(_) => "prepare-kubelet",
            Self::ClearForJoining => "clear-for-joining",
            Self::KeepHostName(_) => "keep-host-name",
            Self::KeepSettings(_) => "keep-settings",
            Self::KeepLabels(_) => "keep-labels",
            Self::CountFailedStarts(_) => "count-failed-starts",
            Self::KeepProof(_) => "keep-proof",
            Self::KeepAcknowledged => "keep-acknowledged",
            Self::RequestReset => "request-reset",
            Self::CountFailedBoot => "count-failed-boot",
            Self::ForgetFailedBoots => "forget-failed-boots",
            Self::KeepClock => "keep-clock",
            Self::MeasureRoom => "measure-room",
            Self::LinkSeccompProfiles => "link-seccomp-profiles",
        }
    }

    /// The name of lines about it on the console.
    pub fn subject(&self) -> &'static str {
        match self {
            Self::KeepNodeName(_) | Self::ForgetNodeName | Self::PlaceStaticPods(_) => {
                Program::Kubelet.name()
            }
            _ => mount::NAME,
        }
    }

    /// Carries out the job. It may wait for a disk; nothing else in PID 1 may.
    pub fn run(self, source: &BootSource) -> Done {
        match self {
            Self::ReadSecurity => Done::Security(security::observe()),
            Self::MountData { in_memory } => mount_data(source, in_memory),
            Self::EmptyData => Done::DataEmptied(reset::apply()),
            Self::FindSlot => Done::SlotFound(source.find().and_then(|()| source.slots())),
            Self::ReadTrial => Done::Trial(source.trial(), reached::read()),
            Self::ReadClock => Done::LastRun(clock::seen()),
            Self::MakeIdentity => Done::Identity(machine_id::make(), NodeSecret::make()),
            Self::ResetContainerd => {
                let reset = containerd_reset::apply();
                Done::ContainerdReset(reset.and_then(|line| Ok((line, tidy::is_due()?))))
            }
            Self::MountWritable => Done::WritableMounted(writable::mount()),
            Self::MovePanics => Done::PanicsMoved(panics::move_to_log()),
            Self::ReadHostNames => {
                Done::HostNames { of_machine: host_name::of_machine(), kept: host_name::kept() }
            }
            Self::ReadSettings { is_on_trial } => start_settings(is_on_trial),
            Self::RemoveOldImages => Done::Plain(old_images::remove()),
            Self::FreeImages => Done::Plain(images::free()),
            Self::ReadSlots => Done::Slots(source.status()),
            Self::OpenSlot => Done::SlotOpened(source.open_other()),
            Self::OpenVolume(after) => Done::VolumeOpened(volumes::open(after.as_ref())),
            Self::FindPartition(Work::Try) => Done::PartitionFound(source.other_device()),
            Self::FindPartition(Work::RollBack) => Done::PartitionFound(source.good_other_device()),
            Self::FindPartition(Work::BootProgram) => Done::PartitionFound(source.system_device()),
            Self::MarkForTry => Done::MarkedForTry(source.mark_for_try()),
            Self::MarkGood => mark_good(source),
            Self::KeepReached(text) => Done::Plain(reached::keep(&text)),
            Self::ForgetLastBoot => {
                kubelet::prepare_boot();
                Done::Plain(Ok(()))
            }
            Self::ReadNodeName => Done::NodeName(Known::observe()),
            Self::KeepNodeName(name) => Done::Plain(node_name::keep(&name)),
            Self::ForgetNodeName => Done::Plain(node_name::forget()),
            Self::PlaceStaticPods(wave) => Done::StaticPodsPlaced(static_pods::place(wave)),
            Self::LookForPrograms(names) => {
                Done::ProgramsFound(credential_providers::present(&names))
            }
            Self::PrepareKubelet(name) => prepare_kubelet(&name),
            Self::ClearForJoining => {
                let clear = |data| obstacles::clear_for_joining(&data);
                Done::ClearedForJoining(data::folder::open().and_then(clear))
            }
            Self::KeepHostName(name) => Done::Plain(host_name::keep(&name)),
            Self::KeepSettings(text) => Done::SettingsKept(kept::write(&text)),
            Self::KeepLabels(text) => Done::LabelsKept(registration::kept::keep(&text)),
            Self::CountFailedStarts(failures) => Done::Plain(kept::count(failures)),
            Self::KeepProof(proof) => {
                let outcome = kept::prove(&proof);
                Done::ProofKept(proof, outcome)
            }
            Self::KeepAcknowledged => Done::Acknowledged(kept::acknowledge()),
            Self::RequestReset => Done::ResetRequested(reset::request()),
            Self::CountFailedBoot => Done::FailedBootCounted(containerd_reset::count()),
            Self::ForgetFailedBoots => Done::Plain(containerd_reset::reset()),
            Self::KeepClock => {
                // A disk that is full costs the clock some accuracy at the next boot, not more.
                let _ = clock::keep();
                Done::Plain(Ok(()))
            }
            Self::MeasureRoom => Done::RoomMeasured(room::measure()),
            Self::LinkSeccompProfiles => {
                let link = |data| obstacles::clear_for_profiles(&data);
                Done::SeccompProfilesLinked(data::folder::open().and_then(link))
            }
        }
    }
}

fn prepare_kubelet(node_name: &str) -> Done {
    let start = Start::observe(node_name);
    kubelet::prepare(&start);
    Done::KubeletPrepared { start, shutdown_grace: kubelet_config::shutdown_grace() }
}

fn mount_data(source: &BootSource, in_memory: bool) -> Done {
    let booted = boot_source::booted().map(|booted| booted.disk);
    let mut lines = Vec::new();
    let disk = match in_memory {
        true => mount::in_memory(&mut lines, booted),
        false => mount::from_disk(&mut lines, booted).map(Some),
    };
    let outcome = disk.map(|disk| disk.into_iter().for_each(|disk| source.set_disk(disk)));
    Done::DataMounted(lines, outcome)
}

/// A start that cannot be counted is made all the same.
fn start_settings(is_on_trial: bool) -> Done {
    let (kept, read) = kept::read();
    let fallback = Fallback::new(kept, is_on_trial);
    let counted = fallback.count().map_or(Ok(()), kept::count);
    let labels = registration::kept::read();
    Done::Settings { fallback, labels, counted: read.and(counted) }
}

fn mark_good(source: &BootSource) -> Done {
    let outcome = source.mark_good();
    // If the table cannot be read, the slot is marked once more.
    let is_still_on_trial = source.slot().is_some() && source.is_on_trial().unwrap_or(true);
    Done::MarkedGood { outcome, is_still_on_trial }
}
