//! Debian 12 for arm64: its packages, unpacked and not configured.

use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::{Architecture, DebianPackage, DebianRelease};
use osbuild::produce::fetch::debian::{Archive, Part};
use osbuild::report::Outcome;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs of the host: those of `osbuild doctor` that run a build's steps, and a shell that
/// calls `osbuild`.
const PROGRAMS: [&str; 6] =
    ["bubblewrap", "busybox-static", "coreutils", "dash", "mount", "qemu-user-static"];

/// The package whose newest version depends on that of the kernel.
const KERNEL: &str = "linux-image-arm64";

/// The start of the name of the kernel's own package.
const KERNEL_PREFIX: &str = "linux-image-6";

/// The host's root folder and kernel.
pub struct Debian {
    /// Its files. They include those of the kernel's package.
    pub root: PathBuf,
    /// The kernel.
    pub kernel: PathBuf,
    /// The folder of the kernel's modules.
    pub modules: PathBuf,
}

impl Debian {
    /// Downloads the packages, and unpacks them in `folder`.
    ///
    /// # Errors
    /// The archive cannot be reached, or a package is not as expected.
    pub fn unpack(site: &Site, folder: &Path) -> Result<Self> {
        let root = folder.join("root");
        for folder in ["dev", "proc", "run", "srv", "sys", "tmp"] {
            make_folder(&root.join(folder))?;
        }
        for package in download(site, &folder.join("packages"))? {
            let mut extract = Command::new("dpkg-deb");
            site.finish("unpack", extract.arg("--extract").args([&package, &root]))?;
        }
        let modules = only_entry(&root.join("lib/modules"), "")?;
        Ok(Debian { kernel: only_entry(&root.join("boot"), "vmlinuz-")?, modules, root })
    }
}

fn download(site: &Site, folder: &Path) -> Result<Vec<PathBuf>> {
    let step = site.report.step("Debian for arm64");
    let part = Part { release: DebianRelease::Bookworm, architecture: Architecture::Arm64 };
    let archive = Archive::open(&site.store()?, part, &step)?;
    archive.update(&step)?;
    let closure = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let scratch = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        archive.closure(&names, std::iter::empty(), scratch.path())
    };
    let mut packages = closure(&PROGRAMS)?;
    let with_kernel = closure(&[KERNEL])?;
    let is_kernel = |package: &DebianPackage| package.package.starts_with(KERNEL_PREFIX);
    packages.extend(with_kernel.into_iter().filter(is_kernel));
    make_folder(folder)?;
    let packages: Vec<&DebianPackage> = packages.iter().collect();
    let files = archive.download(&packages, folder, &step)?;
    step.done(&format!("{} packages", files.len()), None, Outcome::Ran);
    Ok(files)
}

fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).or_build(|| format!("cannot make `{}`", folder.display()))
}

/// The entry of a folder whose name starts with `prefix`.
fn only_entry(folder: &Path, prefix: &str) -> Result<PathBuf> {
    let entries =
        fs::read_dir(folder).or_build(|| format!("cannot read `{}`", folder.display()))?;
    let mut names = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(prefix)));
    let entry = names.next().map(|entry| entry.path());
    entry.ok_or_else(|| Error::build(format!("`{}` lacks `{prefix}*`", folder.display())))
}
