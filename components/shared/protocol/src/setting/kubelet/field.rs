//! The fields of the kubelet's configuration that may be set, and no others
//! (`https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/`). None of them says
//! who may use the kubelet, where its files and sockets are, or which protection of pods it
//! applies.

use super::form::Form;
use super::form::Form::{Amount, Count, Flag, Size, Threshold, Time, Word};

/// A field.
pub(super) struct Field {
    /// The kubelet's name for it.
    pub name: &'static str,
    /// The keys that it has values for; none if it has one value.
    pub keys: &'static [&'static str],
    /// The form of a value.
    pub form: Form,
}

/// The eviction signals of the kubelet.
const SIGNALS: &[&str] = &[
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
/// The resources that the kubelet can reserve.
const RESOURCES: &[&str] = &["cpu", "memory", "ephemeral-storage", "pid"];

const DAY: u32 = 24 * 3600;
/// `init` waits no longer for pods before a shutdown.
const MAX_SHUTDOWN: u32 = 1800;

/// All of them. The node's own pods count for `maxPods`.
pub(super) const FIELDS: [Field; 25] = [
    one("containerLogMaxFiles", Count(2..=100)),
    one("containerLogMaxSize", Size),
    one("cpuManagerPolicy", Word(&["none", "static"])),
    map("evictionHard", SIGNALS, Threshold),
    one("evictionMaxPodGracePeriod", Count(0..=3600)),
    map("evictionMinimumReclaim", SIGNALS, Threshold),
    one("evictionPressureTransitionPeriod", Time(DAY)),
    map("evictionSoft", SIGNALS, Threshold),
    map("evictionSoftGracePeriod", SIGNALS, Time(DAY)),
    one("imageGCHighThresholdPercent", Count(1..=100)),
    one("imageGCLowThresholdPercent", Count(0..=100)),
    one("imageMaximumGCAge", Time(366 * DAY)),
    one("imageMinimumGCAge", Time(366 * DAY)),
    map("kubeReserved", RESOURCES, Amount),
    one("maxParallelImagePulls", Count(1..=64)),
    one("maxPods", Count(16..=1000)),
    one("podPidsLimit", Count(256..=4_194_304)),
    one("registryBurst", Count(1..=1000)),
    one("registryPullQPS", Count(0..=1000)),
    one("serializeImagePulls", Flag),
    one("shutdownGracePeriod", Time(MAX_SHUTDOWN)),
    one("shutdownGracePeriodCriticalPods", Time(MAX_SHUTDOWN)),
    map("systemReserved", RESOURCES, Amount),
    one("topologyManagerPolicy", Word(&["none", "best-effort", "restricted", "single-numa-node"])),
    one("topologyManagerScope", Word(&["container", "pod"])),
];

const fn one(name: &'static str, form: Form) -> Field {
    Field { name, keys: &[], form }
}

const fn map(name: &'static str, keys: &'static [&'static str], form: Form) -> Field {
    Field { name, keys, form }
}

/// The names of the fields.
pub(super) const NAMES: [&str; FIELDS.len()] = {
    let mut names = [""; FIELDS.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = FIELDS[index].name;
        index += 1;
    }
    names
};
