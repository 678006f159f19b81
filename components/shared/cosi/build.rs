//! Compiles the `.proto` files in Rust, so no `protoc` is needed.

use prost::Message;
use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

/// The folder of the `.proto` files, which are named by their paths in it.
const FOLDER: &str = "proto";

const FILES: [&str; 4] = [
    "cosi/resource/meta.proto",
    "cosi/resource/resource.proto",
    "cosi/resource/state.proto",
    "osbuild/v1/kernel_parameter.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let mut files = protox::compile(FILES, [FOLDER])?;
    tonic_prost_build::configure().build_transport(false).compile_fds(files.clone())?;
    // Server reflection needs the definitions, not their comments.
    files.file.iter_mut().for_each(|file| file.source_code_info = None);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    Ok(())
}
