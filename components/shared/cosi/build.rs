//! Compiles the `.proto` files in Rust, so no `protoc` is needed.

use prost::Message;
use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

/// The folder of the `.proto` files, which are named by their paths in it.
const FOLDER: &str = "proto";

const FILES: [&str; 9] = [
    "cosi/resource/meta.proto",
    "cosi/resource/resource.proto",
    "cosi/resource/state.proto",
    "osbuild/v1/configuration.proto",
    "osbuild/v1/hostname.proto",
    "osbuild/v1/kernel_parameter.proto",
    "osbuild/v1/node.proto",
    "osbuild/v1/resolver.proto",
    "osbuild/v1/time_server.proto",
];

/// The package whose messages are YAML, too, with the same names.
const YAML: &str = ".osbuild.v1";

/// Fields of it that are left out of the YAML when they are empty.
const OPTIONAL: [&str; 10] = [
    "HostnameStatusSpec.error",
    "HostnameStatusSpec.resource",
    "HostnameStatusSpec.version",
    "KernelParameterStatusSpec.error",
    "ResolverStatusSpec.error",
    "ResolverStatusSpec.resource",
    "ResolverStatusSpec.version",
    "TimeServerStatusSpec.error",
    "TimeServerStatusSpec.resource",
    "TimeServerStatusSpec.version",
];

/// Lists in it, for which a person may write one word.
const LISTS: [&str; 3] =
    ["ResolverSpec.nameserver", "ResolverSpec.search", "TimeServerSpec.server"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let mut files = protox::compile(FILES, [FOLDER])?;
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
    code.compile_fds(files.clone())?;
    // Server reflection needs the definitions, not their comments.
    files.file.iter_mut().for_each(|file| file.source_code_info = None);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    Ok(())
}
