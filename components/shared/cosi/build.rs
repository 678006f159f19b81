//! Compiles the `.proto` files in Rust, so no `protoc` is needed.

use prost::Message;
use prost_types::FileDescriptorSet;
use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

/// The folder of the `.proto` files, which are named by their paths in it.
const FOLDER: &str = "proto";

/// The files of the node's own API.
const FILES: [&str; 18] = [
    "cosi/resource/meta.proto",
    "cosi/resource/resource.proto",
    "cosi/resource/state.proto",
    "machine/machine.proto",
    "osbuild/v1/access.proto",
    "osbuild/v1/configuration.proto",
    "osbuild/v1/hostname.proto",
    "osbuild/v1/inspect.proto",
    "osbuild/v1/kernel_parameter.proto",
    "osbuild/v1/mount.proto",
    "osbuild/v1/network.proto",
    "osbuild/v1/network_status.proto",
    "osbuild/v1/node.proto",
    "osbuild/v1/node_state.proto",
    "osbuild/v1/plugin.proto",
    "osbuild/v1/registry.proto",
    "osbuild/v1/resolver.proto",
    "osbuild/v1/time_server.proto",
];

/// The files of the API for plugins.
const PLUGIN_FILES: [&str; 2] = ["cosi/runtime/runtime.proto", "engine/engine.proto"];

/// The package whose messages are YAML, too, with the same names.
const YAML: &str = ".osbuild.v1";

/// Fields of it that are left out of the YAML when they are empty.
const OPTIONAL: [&str; 27] = [
    "AddressSettingStatusSpec.error",
    "ControllerStatusSpec.last_reconcile",
    "HostnameStatusSpec.error",
    "HostnameStatusSpec.resource",
    "HostnameStatusSpec.version",
    "KernelParameterStatusSpec.error",
    "LinkSettingStatusSpec.error",
    "MountStatusSpec.error",
    "MountStatusSpec.version",
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
    "TimeServerStatusSpec.error",
    "TimeServerStatusSpec.resource",
    "TimeServerStatusSpec.version",
];

/// Fields of it that may be missing from the YAML, and are left out when they are empty.
const MISSING: [(&str, &str); 15] = [
    ("LinkSettingStatusSpec.dhcp", "Option::is_none"),
    ("LinkSettingStatusSpec.mtu", "crate::yaml::is_zero"),
    ("LinkSpec.dhcp", "Option::is_none"),
    ("LinkSpec.mtu", "crate::yaml::is_zero"),
    ("PluginGrantSpec.inputs", "Vec::is_empty"),
    ("PluginGrantSpec.outputs", "Vec::is_empty"),
    ("PluginInput.id", "Option::is_none"),
    ("PluginOutput.columns", "Vec::is_empty"),
    ("RegistryHost.capabilities", "Vec::is_empty"),
    ("RegistryMirrorSpec.mirrors", "Vec::is_empty"),
    ("RegistryMirrorStatusSpec.mirrors", "Vec::is_empty"),
    ("RoleRule.namespaces", "Vec::is_empty"),
    ("RoleSpec.calls", "Vec::is_empty"),
    ("RoleSpec.resources", "Vec::is_empty"),
    ("RouteSpec.metric", "crate::yaml::is_zero"),
];

/// Lists in it, for which a person may write one word.
const LISTS: [&str; 4] = [
    "MountSpec.options",
    "ResolverSpec.nameserver",
    "ResolverSpec.search",
    "TimeServerSpec.server",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
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
    for field in LISTS {
        let list = "#[serde(default, deserialize_with = \"crate::yaml::one_or_more\")]";
        code = code.field_attribute(format!("{YAML}.{field}"), list);
    }
    for (field, is_empty) in MISSING {
        let skip = format!("#[serde(default, skip_serializing_if = \"{is_empty}\")]");
        code = code.field_attribute(format!("{YAML}.{field}"), skip);
    }
    code.compile_fds(protox::compile(FILES.iter().chain(&PLUGIN_FILES), [FOLDER])?)?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), with_comments_alone(files).encode_to_vec())?;
    fs::write(out.join("plugins.bin"), with_comments_alone(plugin_files).encode_to_vec())?;
    Ok(())
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
