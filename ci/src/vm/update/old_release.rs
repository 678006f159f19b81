//! An old release that nodes still run: its checkout, from the history of this one, and its
//! `osbuild`.

use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The commit of the old release: the last one whose slotboot, `init` and pods exchange sentences
/// only, which is version 0 of `builder/docs/protocol.md`. Later releases have fields and codes, so
/// no two releases differ more in their protocol.
const COMMIT: &str = "3366aedca10e314d03a713712146493efe32c4f5";

/// Exports the old release's files to the folder `to`, compiles its `osbuild`, and returns that
/// program.
///
/// # Errors
/// This clone is shallow and lacks the commit.
pub fn check_out(site: &Site, to: &Path) -> Result<PathBuf> {
    export(site, to)?;
    compile(site, to)
}

fn export(site: &Site, to: &Path) -> Result<()> {
    let git = || {
        let mut git = Command::new("git");
        git.current_dir(&site.root);
        git
    };
    let known =
        site.run("old-commit", git().args(["cat-file", "-e", &format!("{COMMIT}^{{commit}}")]))?;
    if known.code != Some(0) {
        return Err(Error::build(format!("this clone has no commit {COMMIT}"))
            .hint("fetch its history: git fetch --unshallow"));
    }
    if to.exists() {
        fs::remove_dir_all(to).or_build(|| format!("cannot remove `{}`", to.display()))?;
    }
    fs::create_dir_all(to).or_build(|| format!("cannot make `{}`", to.display()))?;
    let archive = to.with_extension("tar");
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(to);
    site.finish("old-archive", git().arg("archive").arg("--output").arg(&archive).arg(COMMIT))?;
    site.finish("old-export", &mut tar)?;
    fs::remove_file(&archive).or_build(|| format!("cannot remove `{}`", archive.display()))
}

/// Compiles the program with the toolchain of this checkout, once for each user: it depends on
/// nothing else but the commit.
fn compile(site: &Site, checkout: &Path) -> Result<PathBuf> {
    let root = site.tools().join(COMMIT);
    let program = root.join("bin/osbuild");
    if !program.exists() {
        let mut cargo = site.cargo_in(checkout)?;
        cargo.args([
            "install",
            "--quiet",
            "--locked",
            "--debug",
            "--path",
            "builder",
            "--no-track",
        ]);
        // In the target folder that the environment may name, it would replace today's program.
        cargo.arg("--target-dir").arg(checkout.join("target")).arg("--root").arg(&root);
        site.finish("old-cargo", &mut cargo)?;
    }
    Ok(program)
}
