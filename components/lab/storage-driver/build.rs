//! Compiles the `.proto` files in Rust, so no `protoc` is needed.

use std::error::Error;

/// The folder of the files.
const FOLDER: &str = "proto";
const FILES: [&str; 2] = ["csi.proto", "pluginregistration.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let files = protox::compile(FILES, [FOLDER])?;
    tonic_prost_build::configure().build_client(false).build_transport(false).compile_fds(files)?;
    Ok(())
}
