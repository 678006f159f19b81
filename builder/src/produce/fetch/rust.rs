//! Fetches the Rust toolchain with `rustup`, and packs it as a tar file with the same bytes on
//! every machine: only files in the distribution's manifests, sorted, without owners and times.

use super::client::Client;
use crate::engine::digest::Digest;
use crate::engine::store::Store;
use crate::engine::toolchain::pack;
use crate::error::{Context, Error, Result};
use crate::plan::RustRequirement;
use crate::report::Step;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The target of the compiler itself, whose standard library build scripts and procedural macros
/// link. It is the same on every machine ([`crate::host`]).
const HOST: &str = "x86_64-unknown-linux-gnu";

/// Installs the toolchain with rustup, and puts its tar file into the store. Other builds wait
/// meanwhile.
///
/// # Errors
/// rustup is missing or cannot install it.
pub fn toolchain(store: &Store, requirement: &RustRequirement, step: &Step) -> Result<Digest> {
    // rustup has no lock of its own: two of them would break the toolchain that both install.
    let _alone = store.lock("rustup", || {
        step.doing("waiting for another build that uses rustup");
        Ok(())
    })?;
    let (root, files) = installed(requirement).or_else(|_| {
        complete(requirement, step)?;
        installed(requirement)
    })?;
    step.doing("packing the toolchain");
    let mut incoming = store.incoming()?;
    pack(&root, &files, &mut incoming)?;
    incoming.finish()
}

/// Installs the toolchain, or adds missing targets to it: `rustup toolchain install` would replace
/// files of a running compiler.
fn complete(requirement: &RustRequirement, step: &Step) -> Result<()> {
    let targets = || requirement.targets.iter().map(String::as_str);
    let rustup = Client::new("rustup").shown(step);
    let rustup = match compiler(requirement) {
        Ok(_) => rustup.args(["target", "add", "--toolchain", &name(requirement)]).args(targets()),
        Err(_) => {
            let install = [
                "toolchain",
                "install",
                &name(requirement),
                "--force-non-host",
                "--profile",
                "minimal",
                "--no-self-update",
            ];
            rustup.args(install).args(targets().flat_map(|target| ["--target", target]))
        }
    };
    rustup.run().map(drop)
}

/// The path of the installed compiler.
fn compiler(requirement: &RustRequirement) -> Result<String> {
    Client::new("rustup").args(["which", "--toolchain", &name(requirement), "rustc"]).run()
}

/// The name of the toolchain for rustup, with its target: on a machine of another architecture, the
/// version alone would be a toolchain for that machine.
fn name(requirement: &RustRequirement) -> String {
    format!("{}-{HOST}", requirement.version)
}

/// The folder of the installed toolchain, and its files.
fn installed(requirement: &RustRequirement) -> Result<(PathBuf, BTreeSet<PathBuf>)> {
    let compiler = compiler(requirement)?;
    let root = Path::new(compiler.trim()).parent().and_then(Path::parent);
    let root = root.ok_or_else(|| {
        Error::build(format!("`rustup which` printed the invalid path `{}`", compiler.trim()))
    })?;
    Ok((root.to_owned(), files(root, requirement)?))
}

/// The files of the compiler, of cargo and of the standard libraries, relative to the toolchain,
/// without documentation.
fn files(root: &Path, requirement: &RustRequirement) -> Result<BTreeSet<PathBuf>> {
    let libraries = requirement
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
