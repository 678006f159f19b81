//! The node whose writes were recorded, and machines that boot from its disk after a power cut.

use crate::disk_file;
use crate::site::Site;
use crate::vm::machine::Machine;
use crate::vm::node::NodeUnderTest;
use crate::vm::update::{DISK_MIB, NEW, RecordedUpdate};
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Error, Result};
use osbuild_abi::console::{SLOT, SLOT_GOOD};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a node may take to become ready, and then to update itself.
const TIMEOUT: Duration = Duration::from_secs(600);

/// The recorded node, and a folder.
pub struct Session<'a> {
    site: &'a Site<'a>,
    recorded: RecordedUpdate<'a>,
    folder: PathBuf,
}

impl<'a> Session<'a> {
    /// A session with this number of cuts. An interrupted session resumes.
    pub fn new(site: &'a Site<'a>, recorded: RecordedUpdate<'a>, cuts: usize) -> Result<Self> {
        let folder = recorded.lab.file(&format!("power-{cuts}"));
        fs::create_dir_all(&folder).or_build(|| format!("cannot make `{}`", folder.display()))?;
        Ok(Session { site, recorded, folder })
    }

    /// The file of the recording.
    pub fn recording(&self) -> PathBuf {
        self.recorded.recording()
    }

    /// The file with the numbers of the cuts that this program has found good. Another one may look
    /// for more.
    pub fn done(&self) -> Result<PathBuf> {
        let program = std::env::current_exe().or_build(|| "cannot find this program".to_owned())?;
        let digest = Digest::of_file(&program)?.hex();
        Ok(self.folder.join(format!("done-by-{}", &digest[..16])))
    }

    /// The copy of a cut's disk, which is removed after the boot.
    pub fn disk(&self, cut: usize) -> PathBuf {
        self.folder.join(format!("cut-{cut}.raw"))
    }

    /// The folder for large files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Size of the disk before it was made larger, in bytes.
    pub fn size(&self) -> Result<u64> {
        let image = self.image();
        Ok(fs::metadata(&image).or_build(|| format!("cannot read `{}`", image.display()))?.len())
    }

    /// The boot programs that may be on the disk: the image's, and the release's.
    pub fn programs(&self) -> Result<Vec<Digest>> {
        let lab = &self.recorded.lab;
        [self.image(), lab.image()]
            .iter()
            .map(|image| Ok(Digest::of(&lab.boot_program(image)?)))
            .collect()
    }

    /// Makes the disk as it was before the first boot.
    pub fn before(&self) -> Result<PathBuf> {
        let to = self.folder.join("disk.raw");
        disk_file::copy(self.site, &self.image(), &to)?;
        let grow =
            File::options().write(true).open(&to).and_then(|file| file.set_len(DISK_MIB << 20));
        grow.or_build(|| format!("cannot grow `{}`", to.display()))?;
        Ok(to)
    }

    /// Boots from the disk without changing it: the node must become ready, and finally good with
    /// the release.
    pub fn boot(&self, disk: &Path, cut: usize) -> Result<()> {
        let mut node = Machine::new(self.site, disk, &format!("power-booted-{cut}"))
            .trusting(self.recorded.lab.keys()?.trust()?)
            .timeout(TIMEOUT)
            .watchdog()
            .start()?;
        node.ready()?;
        let console = node.console()?;
        let runs = console.lines().find(|line| line.contains(SLOT)).unwrap_or_default();
        if !(runs.contains(NEW) && runs.ends_with(": good")) {
            is_updated(&mut node)?;
        }
        node.power_off()
    }

    /// Removes everything but the recording.
    pub fn end(&self) -> Result<()> {
        fs::remove_dir_all(&self.folder)
            .or_build(|| format!("cannot remove `{}`", self.folder.display()))
    }

    fn image(&self) -> PathBuf {
        self.recorded.lab.old().join("image.raw")
    }
}

/// Waits until the slot with the release is good, which may take another boot.
fn is_updated(node: &mut NodeUnderTest) -> Result<()> {
    for _ in 0..2 {
        if node.wait_for(SLOT_GOOD)?.contains("SLOT-B") {
            return Ok(());
        }
    }
    Err(Error::build("the node has not updated itself after the power cut"))
}
