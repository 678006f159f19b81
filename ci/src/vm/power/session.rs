//! The node whose writes were recorded, and the machines that boot from what a power cut left of
//! its disk.

use crate::site::Site;
use crate::vm::machine;
use crate::vm::update::{DISK_MIB, NEW, Played};
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Error, Result};
use osbuild::ship::vm::machine::SecureBoot;
use osbuild::ship::vm::node::Node;
use osbuild::ship::vm::run::{RunOptions, start};
use osbuild_abi::console::{SLOT, SLOT_GOOD};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long a node may take to get ready, and then to update itself.
const PATIENCE: Duration = Duration::from_secs(600);

/// The recorded node, and a folder.
pub struct Session<'a> {
    site: &'a Site<'a>,
    played: Played<'a>,
    folder: PathBuf,
}

impl<'a> Session<'a> {
    /// A session with so many cuts: one that was interrupted goes on.
    pub fn new(site: &'a Site<'a>, played: Played<'a>, cuts: usize) -> Result<Self> {
        let folder = played.lab.file(&format!("power-{cuts}"));
        fs::create_dir_all(&folder).or_build(|| format!("cannot make `{}`", folder.display()))?;
        Ok(Session { site, played, folder })
    }

    /// What the machine wrote.
    pub fn recording(&self) -> PathBuf {
        self.played.recording()
    }

    /// The numbers of the cuts that were found good.
    pub fn done(&self) -> PathBuf {
        self.folder.join("done")
    }

    /// Where a copy of the disk of a cut lies until it was booted from.
    pub fn disk(&self, cut: usize) -> PathBuf {
        self.folder.join(format!("cut-{cut}.raw"))
    }

    /// The folder for all that is large.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Size of the disk before it was made larger, in bytes.
    pub fn size(&self) -> Result<u64> {
        let image = self.image();
        Ok(fs::metadata(&image).or_build(|| format!("cannot read `{}`", image.display()))?.len())
    }

    /// The boot programs that may be on the disk: that of the image, and that of the release.
    pub fn programs(&self) -> Result<Vec<Digest>> {
        let lab = &self.played.lab;
        [self.image(), lab.image()]
            .iter()
            .map(|image| Ok(Digest::of(&lab.boot_program(image)?)))
            .collect()
    }

    /// The disk as it was before the first boot.
    pub fn before(&self) -> Result<PathBuf> {
        let to = self.folder.join("disk.raw");
        let mut copy = Command::new("cp");
        copy.arg("--sparse=always").arg(self.image()).arg(&to);
        self.site.finish("power-copy", &mut copy)?;
        let grow =
            File::options().write(true).open(&to).and_then(|file| file.set_len(DISK_MIB << 20));
        grow.or_build(|| format!("cannot grow `{}`", to.display()))?;
        Ok(to)
    }

    /// Boots from the disk, which stays as it is: the node has to get ready, and to end up with the
    /// release as a good node.
    pub fn boot(&self, disk: &Path, cut: usize) -> Result<()> {
        let options = RunOptions {
            secure_boot: SecureBoot::enforced(self.played.lab.keys()?.trust()?),
            timeout: Some(PATIENCE),
            watchdog: true,
            ..machine::options(self.site, disk.to_owned(), &format!("power-booted-{cut}"))
        };
        let mut node = start(self.site.report, &options)?;
        node.ready(options.timeout)?;
        let said = fs::read_to_string(&options.log)
            .or_build(|| format!("cannot read `{}`", options.log.display()))?;
        let runs = said.lines().find(|line| line.contains(SLOT)).unwrap_or_default();
        if !(runs.contains(NEW) && runs.ends_with(": good")) {
            is_updated(&mut node)?;
        }
        node.power_off()
    }

    /// Removes all of it but the recording.
    pub fn end(&self) -> Result<()> {
        fs::remove_dir_all(&self.folder)
            .or_build(|| format!("cannot remove `{}`", self.folder.display()))
    }

    fn image(&self) -> PathBuf {
        self.played.lab.old().join("image.raw")
    }
}

/// Waits until the slot with the release is a good one, which may take another boot.
fn is_updated(node: &mut Node) -> Result<()> {
    for _ in 0..2 {
        if node.hear(SLOT_GOOD, PATIENCE)?.contains("SLOT-B") {
            return Ok(());
        }
    }
    Err(Error::build("the node has not updated itself after the power cut"))
}
