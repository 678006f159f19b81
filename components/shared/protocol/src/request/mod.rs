//! The requests of clients to `init`.

mod decode;
mod report_text;
mod update_report;

use std::fmt;
use std::net::IpAddr;

pub use report_text::ReportText;
pub(crate) use update_report::PHASE;
pub use update_report::{UpdatePhase, UpdateReport};

use crate::{
    BlockDevice, DebugContainer, Fingerprint, LinkName, Mtu, NetworkName, NetworkSetting, Setting,
    SettingName, TryTime, WireGuardState,
};

/// The maximum bytes of a reason why a setting of the network is not in effect.
pub const MAX_REASON: usize = 256;

/// A request. [`Request::decode`] reads one from a line, and `to_string` writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Set the host name now, and keep it over boots. A kubelet without a cluster knows the node by
    /// it from its next start on; in a cluster the node keeps the name under which it has joined.
    HostName(String),
    /// Set the name servers, up to three, and the search list, up to six.
    Resolver {
        /// The addresses of the name servers.
        servers: Vec<IpAddr>,
        /// The domains of the search list.
        search: Vec<String>,
    },
    /// Set the time servers, up to eight, which `init` writes to
    /// [`NTP_SERVERS`](osbuild_abi::paths::NTP_SERVERS) in place of those of the image. None brings
    /// those back.
    TimeServers(Vec<IpAddr>),
    /// Take note of all addresses of a link, up to eight, which `init` prints and remembers. They
    /// replace those noted before; an empty list says that the link has none, or is gone. A link
    /// with addresses has to exist.
    Addresses {
        /// Each `ADDRESS/PREFIX-LENGTH`.
        addresses: Vec<String>,
        /// The name of a network link.
        link: String,
    },
    /// Have the kernel accept IPv6 router advertisements on the link of this name, which give it
    /// addresses and routes. On all other links it ignores them: the machine at the other end, a
    /// pod for instance, could become the node's router. The link has to exist.
    RouterAdvertisements(String),
    /// Reply with the [`NetworkSettings`](crate::NetworkSettings) that shall be in effect, once
    /// their revision is another one than this. The last client that sends it gets the reply.
    AwaitNetwork(u64),
    /// Take note that the host has this setting of the network.
    NetworkSet(NetworkSetting),
    /// Take note that the host does not have a setting of the network.
    NetworkFailed {
        /// The setting.
        name: NetworkName,
        /// Why: up to [`MAX_REASON`] bytes of printable ASCII.
        reason: String,
    },
    /// Remember the MTU that a link had before a setting of the network changed it, as the client
    /// may be started again; or forget it, as the link has it again.
    FormerMtu {
        /// The link, which has to have a setting of its MTU, unless this is to be forgotten.
        link: LinkName,
        /// The MTU.
        mtu: Option<Mtu>,
    },
    /// Take note of what a link of WireGuard is like, which the node makes.
    WireGuard(WireGuardState),
    /// Reply with [`LastSeen`](crate::LastSeen).
    LastSeen,
    /// Print that the clock was set.
    ClockSet(ClockReport),
    /// Print that the clock was not set although time servers agree that it is wrong.
    ClockRefused(ClockReport),
    /// Give a setting of the host this value, keep it over boots, and set it again if another
    /// program changes it. Refused if the image does not allow it.
    Apply(Setting),
    /// Give a setting the value that it has without requests, and forget theirs.
    Withdraw(SettingName),
    /// Take back what the requests from now on change, unless it is confirmed within this time. If
    /// a try is running already, it gets this time.
    BeginTry(TryTime),
    /// Keep what the try has changed.
    ConfirmTry,
    /// Take back what the try has changed, or take note that `init` has done so.
    RevertTry,
    /// Reply with [`HostSettings`](crate::HostSettings).
    Observe,
    /// Print the fingerprint of the certificate with which the client serves the node API on the
    /// network, so that a person at the console can compare it.
    Serves(Fingerprint),
    /// Print what became of the node document of the machine, so that a person at the console can
    /// tell why the node has the settings that it has.
    Bootstrap(ReportText),
    /// Reply with the first volume of the label `cidata` or `config-2` in the order of the names of
    /// devices, after this device, and with a descriptor of it for reading. Refused if the image
    /// does not allow it.
    OpenVolume {
        /// The device of the last reply.
        after: Option<BlockDevice>,
    },
    /// Reply with the state of the node.
    Status,
    /// Reply with the state of the slots.
    SlotsStatus,
    /// Take the other slot out of use, and reply with its size and a descriptor of it, for reading
    /// and writing. Refused while the slot that runs is on trial, and while another program has the
    /// descriptor.
    OpenSlot,
    /// Make the other slot the next one to be booted, once `init` has found in it what its header
    /// names. Refused while a program has the descriptor of the slot.
    TrySlot,
    /// Make the other slot, which has been good, the next one to be booted, once `init` has found
    /// in it what its header names; then shut down in order and reboot. The slot is on trial then.
    /// Refused while the slot that runs is on trial: the node goes back by itself.
    RollBack,
    /// Reply once another client has sent [`CheckNow`](Self::CheckNow): the updater waits so for
    /// its next check. The last one that sends this is the one that gets the reply.
    AwaitCheck,
    /// Take note of what the updater does, as long as it keeps the connection open.
    Progress(UpdateReport),
    /// Have the updater check for a release now. Refused if it does not wait for its next check.
    CheckNow,
    /// Replace slotboot on the system partition with the file in memory (memfd_create(2)) that
    /// comes with the line, of up to [`MAX_BOOT_PROGRAM`](crate::MAX_BOOT_PROGRAM) bytes. If it is
    /// the same already, nothing is written.
    ReplaceBootProgram,
    /// Make a pod of a debug container, which ends with its time, with [`EndDebug`](Self::EndDebug)
    /// or with the node. Refused if the image does not allow its rights, and while there is one.
    Debug(DebugContainer),
    /// Remove the pod of the debug container, if there is one.
    EndDebug,
    /// End the kubelet and start it again, with the configuration that is now on DATA.
    RestartKubelet,
    /// End containerd and start it again. Its containers go on.
    RestartContainerd,
    /// Shut down in order, then reboot, and empty DATA before anything reads it: the node starts as
    /// if it had never run. The slots stay.
    Reset,
    /// Shut down in order, then reboot.
    Reboot,
    /// Shut down in order, then power off.
    PowerOff,
}

/// How far the clock is off, by several time servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReport {
    /// How far the clock is behind, in microseconds.
    pub offset: i64,
    /// How many servers agree on that.
    pub agreeing: u8,
    /// How many have answered.
    pub answered: u8,
}

impl fmt::Display for ClockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClockReport { offset, agreeing, answered } = self;
        write!(f, "{offset} by {agreeing} of {answered}")
    }
}

impl Request {
    /// The line for logs: without the secrets of a setting that the host has.
    pub fn shown(&self) -> String {
        match self {
            Self::Apply(setting) => format!("apply {setting}"),
            Self::NetworkSet(setting) => {
                format!("network-set {} {}", setting.name(), setting.shown())
            }
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Request {
    /// Writes the line, without its end, with the secrets of a setting.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostName(name) => write!(f, "hostname {name}"),
            Self::Resolver { servers, search } => {
                words(f, "resolv", servers)?;
                if search.is_empty() { Ok(()) } else { words(f, " search", search) }
            }
            Self::TimeServers(servers) => words(f, "ntp", servers),
            Self::Addresses { addresses, link } => {
                words(f, "address", addresses)?;
                write!(f, " on {link}")
            }
            Self::RouterAdvertisements(link) => write!(f, "router-advertisements on {link}"),
            Self::AwaitNetwork(revision) => write!(f, "await-network {revision}"),
            Self::NetworkSet(setting) => {
                write!(f, "network-set {} {}", setting.name(), setting.value())
            }
            Self::NetworkFailed { name, reason } => write!(f, "network-failed {name} {reason}"),
            Self::FormerMtu { link, mtu: Some(mtu) } => write!(f, "former-mtu {mtu} on {link}"),
            Self::FormerMtu { link, mtu: None } => write!(f, "former-mtu none on {link}"),
            Self::WireGuard(state) => write!(f, "wireguard {state}"),
            Self::LastSeen => f.write_str("last"),
            Self::ClockSet(report) => write!(f, "set {report}"),
            Self::ClockRefused(report) => write!(f, "refused {report}"),
            Self::Apply(setting) => write!(f, "apply {}", setting.line()),
            Self::Withdraw(name) => write!(f, "withdraw {name}"),
            Self::BeginTry(time) => write!(f, "try {}", time.seconds()),
            Self::ConfirmTry => f.write_str("confirm"),
            Self::RevertTry => f.write_str("revert"),
            Self::Observe => f.write_str("observe"),
            Self::Serves(fingerprint) => write!(f, "serves {fingerprint}"),
            Self::Bootstrap(report) => write!(f, "report {report}"),
            Self::OpenVolume { after: None } => f.write_str("volume"),
            Self::OpenVolume { after: Some(device) } => write!(f, "volume after {device}"),
            Self::Status | Self::SlotsStatus => f.write_str("status"),
            Self::OpenSlot => f.write_str("slot"),
            Self::TrySlot => f.write_str("try"),
            Self::RollBack => f.write_str("rollback"),
            Self::AwaitCheck => f.write_str("await-check"),
            Self::Progress(report) => write!(f, "progress {report}"),
            Self::CheckNow => f.write_str("check"),
            Self::ReplaceBootProgram => f.write_str("boot-program"),
            Self::Debug(container) => write!(f, "debug {container}"),
            Self::EndDebug => f.write_str("end-debug"),
            Self::RestartKubelet => f.write_str("restart kubelet"),
            Self::RestartContainerd => f.write_str("restart containerd"),
            Self::Reset => f.write_str("reset"),
            Self::Reboot => f.write_str("reboot"),
            Self::PowerOff => f.write_str("power-off"),
        }
    }
}

fn words(f: &mut fmt::Formatter<'_>, verb: &str, words: &[impl fmt::Display]) -> fmt::Result {
    f.write_str(verb)?;
    words.iter().try_for_each(|word| write!(f, " {word}"))
}
