//! The protocol between `init` and its clients, and between slotboot and `init`.
//!
//! `init` serves six unix sockets (`SOCK_STREAM`, [`Socket`]), each of which is the right to one
//! role. A [`Client`] sends a [`Request`] as one line and reads the [`Reply`]. slotboot leaves a
//! [`BootReport`] in a volatile UEFI variable. `builder/docs/protocol.md` has all of it as tables,
//! which a test compares with this crate.
//!
//! # Form
//!
//! A line is printable ASCII. That of a request has at most as many bytes as its
//! [socket takes](Socket::max_line), with its newline. A request is a verb and
//! its words, with one space between. A reply is lines of data, `KEY VALUE` each, and then `ok`, or
//! `error: REASON [code=N]` with a [`RefusalCode`]. Values that programs act on are `KEY=VALUE`
//! fields; the sentences beside them are for people.
//!
//! A reader ignores unknown keys. An unknown value becomes `Unknown`, which never permits an
//! installation or a reboot ([`InstallPermit`]). A key keeps its meaning within a [`VERSION`]; a
//! reader of an older version treats every value of a newer version as unknown.
//!
//! # Releases
//!
//! Releases up to commit `3366aed` have no fields: their sentences are the protocol, version 0.
//! These pairings of programs from different releases occur:
//!
//! - *slotboot of version 0 and `init` of version 1*: the power fails after an update to an old
//!   release replaced slotboot and before its reboot; or a user's own pod writes a slot without
//!   replacing slotboot.
//! - *slotboot of version 1 and `init` and updater of version 0*: each update from version 0
//!   replaces slotboot before it marks the slot, and the old slot runs again if the new one fails.
//! - *`init` of version 1 and a client of version 0*: a user's own pod was built for version 0.
//! - *`init` of version 0 and a client of version 1*: such a pod is newer than the node, or the
//!   node is back in its old slot.
//! - *DATA of one version and `init` of the other*: each update, and each return to the old slot.
//!
//! A release's own updater, `dhcp` and `time` are in the same signed root as its `init`, so they
//! never meet the `init` of another release. They still read version 0, because a recipe may name
//! another pod image.
//!
//! This crate therefore reads the sentences of version 0, and `init` and slotboot still write them
//! beside the fields. `tests/release_3366aed.rs` pins both directions.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]

extern crate alloc;

mod boot_report;
mod fields;
mod pass_reason;

pub use boot_report::{BootReport, MAX_REPORT, StartReason};
pub use pass_reason::{PassReason, PassedOver};

/// Version of the protocol. Version 0 is that of releases up to commit `3366aed`.
pub const VERSION: u16 = 1;

#[cfg(feature = "std")]
mod block_device;
#[cfg(feature = "std")]
mod bpf_program;
#[cfg(feature = "std")]
mod client;
#[cfg(feature = "std")]
mod cni_state;
#[cfg(feature = "std")]
mod debug;
#[cfg(feature = "std")]
pub mod fd_passing;
#[cfg(feature = "std")]
mod fingerprint;
#[cfg(feature = "std")]
pub mod host_name;
#[cfg(feature = "std")]
mod node_status;
#[cfg(feature = "std")]
mod refusal;
#[cfg(feature = "std")]
mod reply;
#[cfg(feature = "std")]
mod request;
#[cfg(feature = "std")]
mod runtime_client;
#[cfg(feature = "std")]
mod security;
#[cfg(feature = "std")]
mod setting;
#[cfg(feature = "std")]
mod slots_status;
#[cfg(feature = "std")]
mod socket;
#[cfg(feature = "std")]
mod storage_driver;
#[cfg(feature = "std")]
mod updater_state;
#[cfg(feature = "std")]
mod version0;

#[cfg(feature = "std")]
pub use block_device::BlockDevice;
#[cfg(feature = "std")]
pub use bpf_program::{BpfProgram, BpfPrograms, MAX_BPF_PROGRAMS};
#[cfg(feature = "std")]
pub use client::{Client, ClientError, MAX_REPLY};
#[cfg(feature = "std")]
pub use cni_state::CniState;
#[cfg(feature = "std")]
pub use debug::{DebugContainer, DebugId, DebugRights, DebugTime, ImageName};
#[cfg(feature = "std")]
pub use fingerprint::Fingerprint;
#[cfg(feature = "std")]
pub use host_name::HostName;
#[cfg(feature = "std")]
pub use node_status::{NodeStatus, Problem, ProcessState, ProcessStatus};
#[cfg(feature = "std")]
pub use refusal::{Refusal, RefusalCode};
#[cfg(feature = "std")]
pub use reply::{ERROR, LastSeen, OK, Reply};
#[cfg(feature = "std")]
pub use request::{ClockReport, MAX_REASON, ReportText, Request, UpdatePhase, UpdateReport};
#[cfg(feature = "std")]
pub use runtime_client::{ClientProcess, MAX_RUNTIME_CLIENTS, RuntimeClient, RuntimeClients};
#[cfg(feature = "std")]
pub use security::Security;
#[cfg(feature = "std")]
pub use setting::{
    AllowedNetwork, Authorities, Bond, BondMode, BondOptions, BootstrapToken, Bridge, ByteSize,
    Capability, ClusterDomain, ClusterJoin, ClusterState, ContainerPort, ContainerSecurity,
    ControlPlane, CpuTime, CredentialProvider, DiskId, DiskText, Domain, Entry, FirewallRule,
    Forwarding, HashPolicy, HostSettings, IpFamily, KEY, KernelModule, KernelParameter,
    KubeletField, KubeletKey, KubeletValue, LabelKey, LabelValue, LacpRate, LinkName, LinkPattern,
    LinkState, List, MAX_CREDENTIALS, MAX_EXCLUSIONS, MAX_LABELS, MAX_MODULES, MAX_MOTD_COLUMNS,
    MAX_MOTD_LINES, MAX_MOUNTS, MAX_NETWORK_SETTINGS, MAX_PARAMETERS, MAX_PROFILES, MAX_PROVIDERS,
    MAX_REGISTRIES, MAX_ROOTS, MAX_STATIC_PODS, MAX_SYSTEM_IMAGES, MAX_TAINTS, MAX_VOLUMES,
    MadeLink, Metric, MirrorHost, ModuleName, Motd, Mount, MountOptions, MountPath, MountSource,
    Mtu, NEVER_PROXIED, NameServers, Nat, NatOptions, NetworkKind, NetworkName, NetworkSetting,
    NetworkSettings, NodeLabel, NodeTaint, Observed, PacketMark, ParameterKey, ParameterValue,
    PeerOptions, PeerState, PodContainer, PodName, PodNamespace, PodRight, PodRights, PodSpec,
    PodState, PodText, PodVolume, PortProtocol, PortRange, Ports, Probe, ProbeAction, ProbeTiming,
    ProviderName, ProviderOptions, Proxy, ProxyExclusion, ProxyUrl, PublicKey, PullPolicy,
    REDACTED, REDACTED_CHANGE, Readiness, RegistryCredential, RegistryLogin, RegistryMirror,
    RegistryName, RegistryUrl, Resources, RestartPolicy, RootName, RouteTable, RoutingPriority,
    RoutingRule, RoutingRuleOptions, RuleAction, RuleLink, RuleName, RuleOptions, RuleOrder,
    RulePriority, RuleProtocol, SearchDomains, SeccompAction, SeccompArgument, SeccompFilter,
    SeccompName, SeccompRule, Secret, SecretKey, ServerUrl, Setting, SettingName, Single,
    StartSettings, StaticAddress, StaticPod, StaticRoute, Subnet, Swap, SwapAmounts, SwapSize,
    SwapState, SystemImage, SystemImageName, SystemImageState, TaintEffect, TaintName, TimeServer,
    TimeServers, TmpfsSize, Translation, TrustedRoot, TryState, TryTime, VariableName, Vlan,
    VlanProtocol, Volume, VolumeBacking, VolumeMount, VolumeName, VolumePhase, VolumeSource,
    VolumeState, WireGuard, WireGuardOptions, WireGuardPeer, WireGuardState, firewall_conflict,
    is_subdomain, link_conflicts, nat_conflict, rule_that_closes, words,
};
#[cfg(feature = "std")]
pub use slots_status::{
    Contents, InstallPermit, Release, SlotState, SlotStatus, Slots, SlotsStatus,
};
#[cfg(feature = "std")]
pub use socket::Socket;
#[cfg(feature = "std")]
pub use storage_driver::{DriverSocket, MAX_DRIVERS, StorageDriver, StorageDrivers};
#[cfg(feature = "std")]
pub use updater_state::UpdaterState;

/// The maximum bytes of the line of a request to any socket, with its newline.
pub const MAX_LINE: usize = 16 << 10;
/// The maximum bytes of a boot program.
pub const MAX_BOOT_PROGRAM: u64 = 4 << 20;
