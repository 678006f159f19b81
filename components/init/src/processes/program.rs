//! The programs that `init` starts: the two daemons, and the children of the same binary that do
//! what PID 1 must not wait for.

use std::time::Duration;

use osbuild_protocol::MAX_VOLUMES;

/// A program that `init` starts. Each runs at most once at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The container runtime.
    Containerd,
    /// The kubelet.
    Kubelet,
    /// Loads the node's pod images into containerd.
    Images,
    /// Writes the kubelet's configuration.
    KubeletConfig,
    /// Waits until the node is ready.
    Gate,
    /// Waits until the node has been ready for the board's `gate-hold-s`.
    Trial,
    /// Waits until the cluster reports the node as Ready.
    Cluster,
    /// Shows the cluster what is wrong with the node, and reports whether it is Ready there.
    NodeCondition,
    /// Waits until the node has other labels or taints in the cluster.
    NodeWatch,
    /// Looks at the plugins that give pods a network and storage, at the clients of containerd, and
    /// at the BPF programs.
    NodePlugins,
    /// Updates the name servers of running pods.
    PodResolvers,
    /// Reports what has become of the static pods of settings.
    PodStates,
    /// Prepares, mounts or unmounts the volume with this number, which is less than
    /// [`MAX_VOLUMES`].
    Volume(u8),
    /// Turns the swap on or off.
    Swap,
    /// Has containerd keep the images of settings, or waits until it does not.
    SystemImages,
    /// Removes discarded files from DATA.
    Tidy,
    /// Stops all pods before the node ends.
    StopPods,
    /// Asks both daemons whether they answer.
    Health,
    /// Verifies the other slot.
    TrySlot,
    /// Replaces slotboot on the system partition.
    ReplaceSlotboot,
}

/// How long a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// As long as the node: it is restarted whenever it exits. Its output goes to its log, errors
    /// to the console as well.
    Daemon,
    /// Until it succeeds: it is restarted when it fails. Its output goes to the console.
    Job,
    /// Until it exits, or is killed after the timeout. Its output is a report for whatever started
    /// it.
    Task {
        /// How long it may run.
        timeout: Duration,
    },
}

/// How long [`Program::Health`] may run: both answers, and its own start on a busy machine.
pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(40);
/// How long [`Program::NodeCondition`] may run: three requests of which each answers in time.
const CONDITION_TIMEOUT: Duration = Duration::from_secs(60);
/// How long [`Program::NodeWatch`] may run: as long as a watch, and each step before it.
const WATCH_TIMEOUT: Duration = Duration::from_secs(360);
/// How long [`Program::NodePlugins`] may run.
const PLUGINS_TIMEOUT: Duration = Duration::from_secs(20);
/// How long [`Program::PodStates`] may run.
const STATES_TIMEOUT: Duration = Duration::from_secs(20);
/// How long [`Program::Volume`] may run: 64 MiB are written, and a large file system grows. A disk
/// that needs longer has failed.
pub const VOLUME_TIMEOUT: Duration = Duration::from_secs(600);
/// The names of [`Program::Volume`], which differ as those of all programs do.
const VOLUMES: [&str; MAX_VOLUMES] = [
    "volume-0", "volume-1", "volume-2", "volume-3", "volume-4", "volume-5", "volume-6", "volume-7",
];
/// How long [`Program::Swap`] may run: much memory is read on a slow processor. It can be tried
/// again.
const SWAP_TIMEOUT: Duration = Duration::from_secs(600);
/// How long [`Program::SystemImages`] may run: large images over a slow network. It is tried again,
/// and containerd then goes on with the layers that it has.
const IMAGES_TIMEOUT: Duration = Duration::from_secs(3600);
/// How long a part of an update may run: a slot of the largest size on a slow disk.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(300);

impl Program {
    /// Every program.
    pub const ALL: [Program; 19 + MAX_VOLUMES] = [
        Self::Containerd,
        Self::Kubelet,
        Self::Images,
        Self::KubeletConfig,
        Self::Gate,
        Self::Trial,
        Self::Cluster,
        Self::NodeCondition,
        Self::NodeWatch,
        Self::NodePlugins,
        Self::PodResolvers,
        Self::PodStates,
        Self::Swap,
        Self::SystemImages,
        Self::Tidy,
        Self::StopPods,
        Self::Health,
        Self::TrySlot,
        Self::ReplaceSlotboot,
        Self::Volume(0),
        Self::Volume(1),
        Self::Volume(2),
        Self::Volume(3),
        Self::Volume(4),
        Self::Volume(5),
        Self::Volume(6),
        Self::Volume(7),
    ];

    /// Its name on the console, of its log, and as a subcommand of `init`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::Images => "images",
            Self::KubeletConfig => "kubelet-config",
            Self::Gate => "gate",
            Self::Trial => "trial",
            Self::Cluster => "cluster",
            Self::NodeCondition => "node-condition",
            Self::NodeWatch => "node-watch",
            Self::NodePlugins => "node-plugins",
            Self::PodResolvers => "resolver",
            Self::PodStates => "pod-states",
            Self::Swap => "swap",
            Self::SystemImages => "system-images",
            Self::Tidy => "tidy",
            Self::StopPods => "stop-pods",
            Self::Health => "health",
            Self::TrySlot => "try-slot",
            Self::ReplaceSlotboot => "boot-program",
            Self::Volume(number) => VOLUMES[number as usize],
        }
    }

    /// How long it lives.
    pub const fn life(self) -> Life {
        match self {
            Self::Containerd | Self::Kubelet => Life::Daemon,
            Self::Health => Life::Task { timeout: HEALTH_TIMEOUT },
            Self::NodeCondition => Life::Task { timeout: CONDITION_TIMEOUT },
            Self::NodeWatch => Life::Task { timeout: WATCH_TIMEOUT },
            Self::NodePlugins => Life::Task { timeout: PLUGINS_TIMEOUT },
            Self::PodStates => Life::Task { timeout: STATES_TIMEOUT },
            Self::Swap => Life::Task { timeout: SWAP_TIMEOUT },
            Self::SystemImages => Life::Task { timeout: IMAGES_TIMEOUT },
            Self::Volume(_) => Life::Task { timeout: VOLUME_TIMEOUT },
            Self::TrySlot | Self::ReplaceSlotboot => Life::Task { timeout: UPDATE_TIMEOUT },
            _ => Life::Job,
        }
    }

    /// The child of `init` that has this name as its subcommand.
    pub fn of_subcommand(name: &str) -> Option<Program> {
        Self::ALL
            .into_iter()
            .find(|program| program.life() != Life::Daemon && program.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_child_is_found_under_its_own_name_and_no_daemon_is() {
        for program in Program::ALL {
            let expected = (program.life() != Life::Daemon).then_some(program);
            assert_eq!(Program::of_subcommand(program.name()), expected);
        }
    }
}
