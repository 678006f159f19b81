//! Compiles the `.proto` files in Rust, so no `protoc` is needed.

use prost::Message;
use prost_types::FileDescriptorSet;
use prost_types::field_descriptor_proto::Type;
use std::collections::BTreeSet;
use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use tonic_prost_build::Builder;

/// The folder of the `.proto` files, which are named by their paths in it.
const FOLDER: &str = "proto";

include!("src/secrets.rs");

/// The files of the node's own API.
const FILES: [&str; 37] = [
    "cosi/resource/meta.proto",
    "cosi/resource/resource.proto",
    "cosi/resource/state.proto",
    "machine/machine.proto",
    "osbuild/v1/access.proto",
    "osbuild/v1/cluster_join.proto",
    "osbuild/v1/control_plane.proto",
    "osbuild/v1/configuration.proto",
    "osbuild/v1/credential_provider.proto",
    "osbuild/v1/device.proto",
    "osbuild/v1/firewall_rule.proto",
    "osbuild/v1/hostname.proto",
    "osbuild/v1/inspect.proto",
    "osbuild/v1/kernel_module.proto",
    "osbuild/v1/kernel_parameter.proto",
    "osbuild/v1/kubelet.proto",
    "osbuild/v1/motd.proto",
    "osbuild/v1/mount.proto",
    "osbuild/v1/nat.proto",
    "osbuild/v1/network.proto",
    "osbuild/v1/network_status.proto",
    "osbuild/v1/node.proto",
    "osbuild/v1/node_label.proto",
    "osbuild/v1/node_state.proto",
    "osbuild/v1/plugin.proto",
    "osbuild/v1/proxy.proto",
    "osbuild/v1/registry.proto",
    "osbuild/v1/registry_credential.proto",
    "osbuild/v1/resolver.proto",
    "osbuild/v1/routing_rule.proto",
    "osbuild/v1/seccomp_profile.proto",
    "osbuild/v1/static_pod.proto",
    "osbuild/v1/swap.proto",
    "osbuild/v1/system_image.proto",
    "osbuild/v1/time_server.proto",
    "osbuild/v1/trusted_root.proto",
    "osbuild/v1/volume.proto",
];

/// The files of the API for plugins.
const PLUGIN_FILES: [&str; 2] = ["cosi/runtime/runtime.proto", "engine/engine.proto"];

/// The files of services between parts of the node, which no client sees.
const INNER_FILES: [&str; 1] = ["osbuild/v1/attach.proto"];

/// The package of COSI's State, and its message with the events of a watch.
const STATE: &str = "cosi.resource";
const WATCH: &str = "WatchResponse";

/// The package whose messages are YAML, too, with the same names.
const YAML: &str = ".osbuild.v1";

/// Fields of it that are left out of the YAML when they are empty.
const OPTIONAL: [&str; 168] = [
    "AddressSettingStatusSpec.error",
    "BondLink.lacp_rate",
    "BondLink.primary",
    "BondLink.xmit_hash_policy",
    "BpfProgramSpec.name",
    "ClusterJoinSpec.domain",
    "ClusterJoinStatusSpec.certificate_until",
    "ClusterJoinStatusSpec.domain",
    "ClusterJoinStatusSpec.error",
    "ClusterJoinStatusSpec.ready",
    "ClusterJoinStatusSpec.reason",
    "ClusterJoinStatusSpec.resource",
    "ClusterJoinStatusSpec.version",
    "CniStatusSpec.changed",
    "CniStatusSpec.cni_version",
    "CniStatusSpec.error",
    "ControlPlaneStatusSpec.error",
    "ControlPlaneStatusSpec.resource",
    "ControlPlaneStatusSpec.set_by",
    "ControlPlaneStatusSpec.version",
    "ControllerStatusSpec.last_reconcile",
    "CredentialProviderStatusSpec.error",
    "CredentialProviderStatusSpec.set_by",
    "CredentialProviderStatusSpec.version",
    "DeviceInfoSpec.class",
    "DeviceInfoSpec.class_id",
    "DeviceInfoSpec.firmware",
    "DeviceInfoSpec.modalias",
    "DeviceInfoSpec.model",
    "DeviceInfoSpec.parent",
    "DeviceInfoSpec.product_id",
    "DeviceInfoSpec.serial",
    "DeviceInfoSpec.transport",
    "DeviceInfoSpec.uuid",
    "DeviceInfoSpec.vendor",
    "DeviceInfoSpec.vendor_id",
    "DeviceInfoSpec.version",
    "DeviceInfoSpec.wwid",
    "FirewallRuleSpec.protocol",
    "FirewallRuleStatusSpec.error",
    "FirewallRuleStatusSpec.protocol",
    "FirewallRuleStatusSpec.set_by",
    "FirewallRuleStatusSpec.version",
    "FirewallRuleStatusSpec.warning",
    "HostnameStatusSpec.error",
    "HostnameStatusSpec.resource",
    "HostnameStatusSpec.version",
    "KernelModuleStatusSpec.error",
    "KernelModuleStatusSpec.set_by",
    "KernelModuleStatusSpec.version",
    "KernelParameterStatusSpec.error",
    "KubeletConfigStatusSpec.error",
    "KubeletConfigStatusSpec.set_by",
    "KubeletConfigStatusSpec.value",
    "KubeletConfigStatusSpec.version",
    "LinkSettingStatusSpec.error",
    "LinkStatusSpec.active_port",
    "LinkStatusSpec.bond_mode",
    "LinkStatusSpec.parent",
    "LinkStatusSpec.port_state",
    "MotdStatusSpec.error",
    "MotdStatusSpec.resource",
    "MotdStatusSpec.version",
    "MountStatusSpec.error",
    "MountStatusSpec.version",
    "NatSpec.address",
    "NatSpec.link",
    "NatSpec.protocol",
    "NatSpec.to",
    "NatStatusSpec.action",
    "NatStatusSpec.address",
    "NatStatusSpec.error",
    "NatStatusSpec.link",
    "NatStatusSpec.protocol",
    "NatStatusSpec.set_by",
    "NatStatusSpec.to",
    "NatStatusSpec.version",
    "NodeLabelSpec.value",
    "NodeLabelStatusSpec.error",
    "NodeLabelStatusSpec.set_by",
    "NodeLabelStatusSpec.version",
    "NodeTaintSpec.value",
    "NodeTaintStatusSpec.error",
    "NodeTaintStatusSpec.set_by",
    "NodeTaintStatusSpec.version",
    "ProxySpec.http",
    "ProxySpec.https",
    "ProxyStatusSpec.error",
    "ProxyStatusSpec.resource",
    "ProxyStatusSpec.version",
    "RegistryCredentialSpec.username",
    "RegistryCredentialStatusSpec.error",
    "RegistryCredentialStatusSpec.set_by",
    "RegistryCredentialStatusSpec.username",
    "RegistryCredentialStatusSpec.version",
    "RegistryMirrorSpec.certificate_authority",
    "RegistryMirrorSpec.server",
    "RegistryMirrorStatusSpec.error",
    "RegistryMirrorStatusSpec.server",
    "RegistryMirrorStatusSpec.set_by",
    "RegistryMirrorStatusSpec.version",
    "ResolverStatusSpec.error",
    "ResolverStatusSpec.resource",
    "ResolverStatusSpec.version",
    "RevocationSpec.certificate",
    "RevocationSpec.issued_before",
    "RevocationSpec.user",
    "RouteSettingStatusSpec.error",
    "RouteSettingStatusSpec.gateway",
    "RouteSpec.gateway",
    "RoutingRuleSpec.family",
    "RoutingRuleSpec.from",
    "RoutingRuleSpec.fwmark",
    "RoutingRuleSpec.iif",
    "RoutingRuleSpec.oif",
    "RoutingRuleSpec.to",
    "RoutingRuleStatusSpec.error",
    "RoutingRuleStatusSpec.from",
    "RoutingRuleStatusSpec.fwmark",
    "RoutingRuleStatusSpec.iif",
    "RoutingRuleStatusSpec.oif",
    "RoutingRuleStatusSpec.set_by",
    "RoutingRuleStatusSpec.to",
    "RoutingRuleStatusSpec.version",
    "RuntimeClientSpec.cgroup",
    "RuntimeClientSpec.pod",
    "RuntimeClientSpec.program",
    "SbomItemSpec.version",
    "SeccompProfileStatusSpec.error",
    "SeccompProfileStatusSpec.set_by",
    "SeccompProfileStatusSpec.version",
    "StaticPodStatusSpec.error",
    "StaticPodStatusSpec.message",
    "StaticPodStatusSpec.reason",
    "StaticPodStatusSpec.set_by",
    "StaticPodStatusSpec.version",
    "StorageDriverSpec.error",
    "SwapSpec.memory_limit",
    "SwapStatusSpec.error",
    "SwapStatusSpec.resource",
    "SwapStatusSpec.set_by",
    "SwapStatusSpec.version",
    "SystemImageStatusSpec.digest",
    "SystemImageStatusSpec.error",
    "SystemImageStatusSpec.set_by",
    "SystemImageStatusSpec.version",
    "TimeServerStatusSpec.error",
    "TimeServerStatusSpec.resource",
    "TimeServerStatusSpec.version",
    "TokenIssuerSpec.audience",
    "TrustedRootStatusSpec.error",
    "TrustedRootStatusSpec.set_by",
    "TrustedRootStatusSpec.version",
    "UpdateStatusSpec.last_check_time",
    "UpdateStatusSpec.next_check_time",
    "UpdateStatusSpec.offered_version",
    "UpdateStatusSpec.report_time",
    "VlanLink.protocol",
    "VolumeDisk.serial",
    "VolumeDisk.wwid",
    "VolumeStatusSpec.device",
    "VolumeStatusSpec.error",
    "VolumeStatusSpec.set_by",
    "VolumeStatusSpec.version",
    "WireguardLink.fwmark",
    "WireguardPeer.endpoint",
    "WireguardPeerStatus.endpoint",
    "WireguardPeerStatus.last_handshake",
];

/// Fields of it that may be missing from the YAML, and are left out when they are empty.
const MISSING: [(&str, &str); 81] = [
    ("BondLink.miimon", "crate::yaml::is_zero"),
    ("BpfProgramSpec.map_ids", "Vec::is_empty"),
    ("BpfProgramSpec.run_nanoseconds", "crate::yaml::is_zero"),
    ("BpfProgramSpec.runs", "crate::yaml::is_zero"),
    ("BpfProgramSpec.targets", "Vec::is_empty"),
    ("BridgeLink.stp", "std::ops::Not::not"),
    ("BridgeLink.vlan_filtering", "std::ops::Not::not"),
    ("ClusterJoinSpec.dns", "Vec::is_empty"),
    ("ClusterJoinStatusSpec.dns", "Vec::is_empty"),
    ("CniStatusSpec.missing_plugins", "Vec::is_empty"),
    ("CredentialProviderSpec.args", "Vec::is_empty"),
    ("CredentialProviderSpec.env", "Vec::is_empty"),
    ("CredentialProviderStatusSpec.match_images", "Vec::is_empty"),
    ("DeviceInfoSpec.bytes", "crate::yaml::is_zero"),
    ("DeviceInfoSpec.drivers", "Vec::is_empty"),
    ("DeviceInfoSpec.read_only", "std::ops::Not::not"),
    ("DeviceInfoSpec.removable", "std::ops::Not::not"),
    ("DeviceInfoSpec.rotational", "std::ops::Not::not"),
    ("FirewallRuleSpec.priority", "crate::yaml::is_zero"),
    ("FirewallRuleStatusSpec.links", "Vec::is_empty"),
    ("FirewallRuleStatusSpec.ports", "Vec::is_empty"),
    ("FirewallRuleStatusSpec.priority", "crate::yaml::is_zero"),
    ("FirewallRuleStatusSpec.sources", "Vec::is_empty"),
    ("LinkSettingStatusSpec.bond", "Option::is_none"),
    ("LinkSettingStatusSpec.bridge", "Option::is_none"),
    ("LinkSettingStatusSpec.dhcp", "Option::is_none"),
    ("LinkSettingStatusSpec.mtu", "crate::yaml::is_zero"),
    ("LinkSettingStatusSpec.state", "String::is_empty"),
    ("LinkSettingStatusSpec.vlan", "Option::is_none"),
    ("LinkSettingStatusSpec.wireguard", "Option::is_none"),
    ("LinkSpec.bond", "Option::is_none"),
    ("LinkSpec.bridge", "Option::is_none"),
    ("LinkSpec.dhcp", "Option::is_none"),
    ("LinkSpec.mtu", "crate::yaml::is_zero"),
    ("LinkSpec.state", "String::is_empty"),
    ("LinkSpec.vlan", "Option::is_none"),
    ("LinkSpec.wireguard", "Option::is_none"),
    ("LinkStatusSpec.vlan_id", "crate::yaml::is_zero"),
    ("NatSpec.port", "crate::yaml::is_zero"),
    ("NatSpec.to_port", "crate::yaml::is_zero"),
    ("NatStatusSpec.port", "crate::yaml::is_zero"),
    ("NatStatusSpec.sources", "Vec::is_empty"),
    ("NatStatusSpec.to_port", "crate::yaml::is_zero"),
    ("PluginGrantSpec.inputs", "Vec::is_empty"),
    ("PluginGrantSpec.outputs", "Vec::is_empty"),
    ("PluginInput.id", "Option::is_none"),
    ("PluginOutput.columns", "Vec::is_empty"),
    ("ProxySpec.no_proxy", "Vec::is_empty"),
    ("RegistryCredentialSpec.plain_http", "std::ops::Not::not"),
    ("RegistryHost.capabilities", "Vec::is_empty"),
    ("RegistryMirrorSpec.mirrors", "Vec::is_empty"),
    ("RegistryMirrorStatusSpec.mirrors", "Vec::is_empty"),
    ("RoleRule.namespaces", "Vec::is_empty"),
    ("RoleSpec.calls", "Vec::is_empty"),
    ("RoleSpec.resources", "Vec::is_empty"),
    ("RouteSettingStatusSpec.table", "crate::yaml::is_zero"),
    ("RouteSpec.metric", "crate::yaml::is_zero"),
    ("RouteSpec.table", "crate::yaml::is_zero"),
    ("RoutingRuleStatusSpec.table", "crate::yaml::is_zero"),
    ("RuntimeClientSpec.ended", "std::ops::Not::not"),
    ("RuntimeClientSpec.since_milliseconds", "crate::yaml::is_zero"),
    ("SeccompArgument.value_two", "crate::yaml::is_zero"),
    ("SeccompProfileSpec.architectures", "Vec::is_empty"),
    ("SeccompProfileSpec.default_errno_ret", "Option::is_none"),
    ("SeccompProfileSpec.syscalls", "Vec::is_empty"),
    ("SeccompSyscalls.args", "Vec::is_empty"),
    ("SeccompSyscalls.errno_ret", "Option::is_none"),
    ("SwapSpec.pods", "std::ops::Not::not"),
    ("SystemImageStatusSpec.bytes", "crate::yaml::is_zero"),
    ("TokenIssuerSpec.any_node", "std::ops::Not::not"),
    ("TokenIssuerSpec.max_lifetime_seconds", "crate::yaml::is_zero"),
    ("TrustedRootStatusSpec.subject", "Vec::is_empty"),
    ("UpdateStatusSpec.received_bytes", "crate::yaml::is_zero"),
    ("UpdateStatusSpec.total_bytes", "crate::yaml::is_zero"),
    ("VolumeSpec.disk", "Option::is_none"),
    ("VolumeSpec.folder", "std::ops::Not::not"),
    ("VolumeStatusSpec.bytes", "crate::yaml::is_zero"),
    ("WireguardLink.listen_port", "crate::yaml::is_zero"),
    ("WireguardLink.peers", "Vec::is_empty"),
    ("WireguardPeer.persistent_keepalive", "crate::yaml::is_zero"),
    ("WireguardStatus.peers", "Vec::is_empty"),
];

/// The message whose fields may all be missing from the YAML, and its fields of one value.
const KUBELET: &str = "KubeletConfigSpec";
const KUBELET_FIELDS: [&str; 19] = [
    "container_log_max_files",
    "container_log_max_size",
    "cpu_manager_policy",
    "eviction_max_pod_grace_period",
    "eviction_pressure_transition_period",
    "image_gc_high_threshold_percent",
    "image_gc_low_threshold_percent",
    "image_maximum_gc_age",
    "image_minimum_gc_age",
    "max_parallel_image_pulls",
    "max_pods",
    "pod_pids_limit",
    "registry_burst",
    "registry_pull_qps",
    "serialize_image_pulls",
    "shutdown_grace_period",
    "shutdown_grace_period_critical_pods",
    "topology_manager_policy",
    "topology_manager_scope",
];
/// Its fields of several values.
const KUBELET_MAPS: [&str; 6] = [
    "eviction_hard",
    "eviction_minimum_reclaim",
    "eviction_soft",
    "eviction_soft_grace_period",
    "kube_reserved",
    "system_reserved",
];
/// Its fields whose names in Kubernetes are not those that follow from the message's.
const KUBELET_NAMES: [(&str, &str); 5] = [
    ("image_gc_high_threshold_percent", "imageGCHighThresholdPercent"),
    ("image_gc_low_threshold_percent", "imageGCLowThresholdPercent"),
    ("image_maximum_gc_age", "imageMaximumGCAge"),
    ("image_minimum_gc_age", "imageMinimumGCAge"),
    ("registry_pull_qps", "registryPullQPS"),
];

/// The messages of a static pod, whose fields may all be missing from the YAML and are left out
/// when they are empty, by the kinds of their fields.
const POD: [(&str, [&[&str]; 5]); 16] = [
    (
        "StaticPodSpec",
        [
            &["namespace", "restart_policy"],
            &["volumes", "init_containers"],
            &["termination_grace_period_seconds"],
            &["host_network", "host_pid"],
            &[],
        ],
    ),
    ("PodVolume", [&[], &[], &["empty_dir", "host_path"], &[], &[]]),
    ("PodEmptyDir", [&["medium", "size_limit"], &[], &[], &[], &[]]),
    ("PodHostPath", [&[], &[], &[], &[], &[]]),
    (
        "PodContainer",
        [
            &["image_pull_policy"],
            &["command", "args", "env", "ports", "volume_mounts"],
            &[
                "resources",
                "security_context",
                "startup_probe",
                "liveness_probe",
                "readiness_probe",
            ],
            &[],
            &[],
        ],
    ),
    ("PodVariable", [&["value"], &[], &[], &[], &[]]),
    ("PodResources", [&[], &[], &["requests", "limits"], &[], &[]]),
    ("PodAmounts", [&["cpu", "memory"], &[], &[], &[], &[]]),
    ("PodPort", [&["protocol"], &[], &[], &[], &[]]),
    ("PodMount", [&[], &[], &[], &["read_only"], &[]]),
    (
        "PodSecurity",
        [
            &[],
            &[],
            &["run_as_user", "run_as_group", "read_only_root_filesystem", "capabilities"],
            &["privileged"],
            &[],
        ],
    ),
    ("PodCapabilities", [&[], &[], &[], &[], &[]]),
    (
        "PodProbe",
        [
            &[],
            &[],
            &["exec", "http_get", "tcp_socket"],
            &[],
            &["initial_delay_seconds", "period_seconds", "timeout_seconds", "failure_threshold"],
        ],
    ),
    ("PodExec", [&[], &[], &[], &[], &[]]),
    ("PodHttpGet", [&["path"], &[], &[], &[], &[]]),
    ("PodTcpSocket", [&[], &[], &[], &[], &[]]),
];
/// The tests for an empty field of each of these kinds: texts, lists, messages and numbers that may
/// be missing, flags, and other numbers.
const POD_IS_EMPTY: [&str; 5] = [
    "String::is_empty",
    "Vec::is_empty",
    "Option::is_none",
    "std::ops::Not::not",
    "crate::yaml::is_zero",
];

/// Lists in it, for which a person may write one word.
const LISTS: [&str; 11] = [
    "BondLink.ports",
    "BridgeLink.ports",
    "FirewallRuleSpec.links",
    "FirewallRuleSpec.ports",
    "FirewallRuleSpec.sources",
    "MountSpec.options",
    "NatSpec.sources",
    "ResolverSpec.nameserver",
    "ResolverSpec.search",
    "TimeServerSpec.server",
    "WireguardPeer.allowed_ips",
];

/// Those of them that are left out of the YAML when they are empty.
const OMITTED_LISTS: [&str; 5] = [
    "FirewallRuleSpec.links",
    "FirewallRuleSpec.ports",
    "FirewallRuleSpec.sources",
    "NatSpec.sources",
    "WireguardPeer.allowed_ips",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    println!("cargo::rerun-if-changed=src/secrets.rs");
    let files = protox::compile(FILES, [FOLDER])?;
    let plugin_files = protox::compile(PLUGIN_FILES, [FOLDER])?;
    let derive = "#[derive(serde::Deserialize, serde::Serialize)]";
    let strict = "#[serde(deny_unknown_fields, rename_all = \"camelCase\")]";
    let mut code = tonic_prost_build::configure()
        .build_transport(false)
        .type_attribute(YAML, derive)
        .type_attribute(YAML, strict);
    for field in OPTIONAL {
        let skip = "#[serde(default, skip_serializing_if = \"String::is_empty\")]";
        code = code.field_attribute(format!("{YAML}.{field}"), skip);
    }
    for (_, _, message, field) in SECRETS {
        let skip = "#[serde(default, deserialize_with = \"crate::yaml::secret\", \
                    skip_serializing_if = \"String::is_empty\")]";
        code = code.field_attribute(format!("{YAML}.{message}.{field}"), skip);
    }
    let with_secrets: BTreeSet<_> = SECRETS.into_iter().map(|(.., message, _)| message).collect();
    for message in with_secrets {
        code = code.skip_debug([format!("{YAML}.{message}")]);
    }
    for field in LISTS {
        let list = "#[serde(default, deserialize_with = \"crate::yaml::one_or_more\")]";
        code = code.field_attribute(format!("{YAML}.{field}"), list);
    }
    for field in OMITTED_LISTS {
        let skip = "#[serde(skip_serializing_if = \"Vec::is_empty\")]";
        code = code.field_attribute(format!("{YAML}.{field}"), skip);
    }
    for (field, is_empty) in MISSING {
        let skip = format!("#[serde(default, skip_serializing_if = \"{is_empty}\")]");
        code = code.field_attribute(format!("{YAML}.{field}"), skip);
    }
    for (fields, is_empty) in
        [(&KUBELET_FIELDS[..], "Option::is_none"), (&KUBELET_MAPS, "BTreeMap::is_empty")]
    {
        let is_empty = is_empty.replace("BTreeMap", "std::collections::BTreeMap");
        let skip = format!("#[serde(skip_serializing_if = \"{is_empty}\")]");
        for field in fields {
            code = code.field_attribute(format!("{YAML}.{KUBELET}.{field}"), &skip);
        }
    }
    for (field, name) in KUBELET_NAMES {
        let rename = format!("#[serde(rename = \"{name}\")]");
        code = code.field_attribute(format!("{YAML}.{KUBELET}.{field}"), rename);
    }
    code = with_pods(code);
    code = code
        .type_attribute(format!("{YAML}.{KUBELET}"), "#[serde(default)]")
        .btree_map(format!("{YAML}.{KUBELET}"));
    let all = FILES.iter().chain(&PLUGIN_FILES).chain(&INNER_FILES);
    let all = with_encoded_events(protox::compile(all, [FOLDER])?);
    code.bytes(format!(".{STATE}.{WATCH}")).compile_fds(all)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), with_comments_alone(files).encode_to_vec())?;
    fs::write(out.join("plugins.bin"), with_comments_alone(plugin_files).encode_to_vec())?;
    Ok(())
}

/// Leaves the fields of static pods out of the YAML where they may be missing.
fn with_pods(mut code: Builder) -> Builder {
    for (message, kinds) in POD {
        code = code.type_attribute(format!("{YAML}.{message}"), "#[serde(default)]");
        for (fields, is_empty) in kinds.into_iter().zip(POD_IS_EMPTY) {
            let skip = format!("#[serde(skip_serializing_if = \"{is_empty}\")]");
            for field in fields {
                code = code.field_attribute(format!("{YAML}.{message}.{field}"), &skip);
            }
        }
    }
    let rename = "#[serde(rename = \"hostPID\")]";
    code.field_attribute(format!("{YAML}.StaticPodSpec.host_pid"), rename)
}

/// Has a message of a watch hold its events as bytes, which are the same on the wire: a server
/// encodes an event once for all watches.
fn with_encoded_events(mut files: FileDescriptorSet) -> FileDescriptorSet {
    let of_state = files.file.iter_mut().filter(|file| file.package() == STATE);
    let messages = of_state.flat_map(|file| &mut file.message_type);
    for field in messages.filter(|one| one.name() == WATCH).flat_map(|one| &mut one.field) {
        field.set_type(Type::Bytes);
        field.type_name = None;
    }
    files
}

/// Of the source, clients of server reflection read the comments. Where each name and number stands
/// in a file would be most of the bytes.
fn with_comments_alone(mut files: FileDescriptorSet) -> FileDescriptorSet {
    for source in files.file.iter_mut().filter_map(|file| file.source_code_info.as_mut()) {
        source.location.retain(|location| {
            location.leading_comments.is_some() || !location.leading_detached_comments.is_empty()
        });
    }
    files
}
