//! The Rust toolchain by way of `rustup`, as one tar file with the same bytes on every machine:
//! only what the distribution's own manifests list, sorted, without owners and times.

use super::client::Client;
use crate::engine::digest::Digest;
use crate::engine::store::Store;
use crate::engine::toolchain::pack;
use crate::error::{Context, Error, Result};
use crate::plan::RustRequirement;
use crate::report::Step;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The standard library that build scripts and procedural macros link, for the build machine
/// itself.
const HOST: &str = "x86_64-unknown-linux-gnu";

/// Installs the toolchain where rustup keeps it, and puts its tar file into the store.
///
/// # Errors
/// rustup is missing or cannot install it.
pub fn toolchain(store: &Store, wish: &RustRequirement, step: &Step) -> Result<Digest> {
    let (root, files) = installed(wish).or_else(|_| {
        complete(wish, step)?;
        installed(wish)
    })?;
    step.doing("packing the toolchain");
    let mut incoming = store.incoming()?;
    pack(&root, &files, &mut incoming)?;
    incoming.finish()
}

/// Has rustup add what the toolchain lacks, or install it. One that is there is only added to:
/// `rustup toolchain install` would replace files under a compiler that runs.
fn complete(wish: &RustRequirement, step: &Step) -> Result<()> {
    let targets = || wish.targets.iter().map(String::as_str);
    let is_there =
        Client::new("rustup").args(["which", "--toolchain", &wish.version, "rustc"]).run().is_ok();
    let rustup = Client::new("rustup").shown(step);
    let rustup = match is_there {
        true => rustup.args(["target", "add", "--toolchain", &wish.version]).args(targets()),
        false => {
            let install =
                ["toolchain", "install", &wish.version, "--profile", "minimal", "--no-self-update"];
            rustup.args(install).args(targets().flat_map(|target| ["--target", target]))
        }
    };
    rustup.run().map(drop)
}

/// Where rustup has the toolchain, and its files.
fn installed(wish: &RustRequirement) -> Result<(PathBuf, BTreeSet<PathBuf>)> {
    let compiler =
        Client::new("rustup").args(["which", "--toolchain", &wish.version, "rustc"]).run()?;
    let root = Path::new(compiler.trim()).parent().and_then(Path::parent);
    let root = root.ok_or_else(|| {
        Error::build(format!("`rustup which` gave the odd path `{}`", compiler.trim()))
    })?;
    Ok((root.to_owned(), files(root, wish)?))
}

/// The files of the compiler, of cargo and of the standard libraries, relative to the toolchain,
/// without documentation.
fn files(root: &Path, wish: &RustRequirement) -> Result<BTreeSet<PathBuf>> {
    let libraries = wish
        .targets
        .iter()
        .map(String::as_str)
        .chain([HOST])
        .map(|target| format!("manifest-rust-std-{target}"));
    let manifests = [format!("manifest-rustc-{HOST}"), format!("manifest-cargo-{HOST}")];
    let mut files = BTreeSet::new();
    for manifest in manifests.into_iter().chain(libraries) {
        let path = root.join("lib/rustlib").join(&manifest);
        let text = std::fs::read_to_string(&path)
            .or_build(|| format!("the Rust toolchain has no `{manifest}`"))?;
        for line in text.lines() {
            match line.split_once(':') {
                Some(("file", file)) => drop(files.insert(PathBuf::from(file))),
                Some(("dir", folder)) => below(root, Path::new(folder), &mut files)?,
                _ => {}
            }
        }
    }
    files.retain(|file| {
        file.starts_with("bin") || file.starts_with("lib") || file.starts_with("libexec")
    });
    Ok(files)
}

fn below(root: &Path, folder: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(root.join(folder))
        .or_build(|| format!("cannot read `{}` of the toolchain", folder.display()))?
    {
        let name = folder.join(
            entry
                .or_build(|| format!("cannot read `{}` of the toolchain", folder.display()))?
                .file_name(),
        );
        if root.join(&name).is_dir() {
            below(root, &name, files)?;
        } else {
            files.insert(name);
        }
    }
    Ok(())
}
