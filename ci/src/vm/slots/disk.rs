//! A disk that a machine boots from, time after time, and that is changed in between: by `cgpt`
//! where its table is meant to stay sound.

use super::change::Change;
use crate::site::Site;
use crate::vm::data::Data;
use crate::vm::machine;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::Architecture;
use osbuild::produce::image::removable_path;
use osbuild::ship::keys::{Keys, Trust};
use osbuild::ship::vm::machine::{Forward, SecureBoot};
use osbuild::ship::vm::node::Node;
use osbuild::ship::vm::run::{RunOptions, start};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_slots::State;
use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A slot, by the number of its partition.
#[derive(Clone, Copy)]
pub struct Slot(&'static str);

/// The first slot.
pub const A: Slot = Slot("2");
/// The other one.
pub const B: Slot = Slot("3");

impl Slot {
    /// The name of its partition.
    pub fn name(self) -> &'static str {
        if self.0 == A.0 { "SLOT-A" } else { "SLOT-B" }
    }
}

/// A disk that is a copy of what a build left.
pub struct Disk<'a> {
    site: &'a Site<'a>,
    /// Where the build left it.
    out: PathBuf,
    /// The keys that signed it.
    keys: Keys,
    /// The processor of the machines.
    architecture: Architecture,
    /// How the names of the consoles' logs begin: each boot has its own, by its number.
    log: &'static str,
    boots: Cell<u32>,
    folder: TempDir,
}

impl<'a> Disk<'a> {
    /// A disk that the first machine gets as the image in the folder `out` is then, which these
    /// keys signed. The consoles go to the logs `log-1` and so on.
    pub fn of(site: &'a Site<'a>, out: PathBuf, keys: Keys, log: &'static str) -> Result<Self> {
        let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        Ok(Disk {
            site,
            out,
            keys,
            architecture: Architecture::Amd64,
            log,
            boots: Cell::new(0),
            folder,
        })
    }

    /// The same for machines with this processor.
    pub fn with(self, architecture: Architecture) -> Self {
        Disk { architecture, ..self }
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("disk.raw")
    }

    /// What the build left.
    pub fn out(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// The keys that signed the image.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Powers on a machine with the disk, whose firmware starts only what is signed like the image.
    pub fn boot(&self) -> Result<Node<'_>> {
        self.boot_with(|options| options)
    }

    /// The same on firmware that trusts somebody else.
    pub fn boot_trusting(&self, trust: Trust) -> Result<Node<'_>> {
        self.boot_with(|options| RunOptions { secure_boot: SecureBoot::enforced(trust), ..options })
    }

    /// The same with a port that leads to the node.
    pub fn boot_forwarding(&self, forward: Forward) -> Result<Node<'_>> {
        self.boot_with(|options| RunOptions { forwards: vec![forward], ..options })
    }

    /// The same with whatever else is wanted of the machine.
    pub fn boot_with(&self, change: impl FnOnce(RunOptions) -> RunOptions) -> Result<Node<'_>> {
        self.boots.set(self.boots.get() + 1);
        let log = format!("{}-{}", self.log, self.boots.get());
        let options = RunOptions {
            keep: Some(self.path()),
            secure_boot: SecureBoot::enforced(self.keys.trust()?),
            watchdog: true,
            ..machine::options_for(self.site, self.architecture, self.out("image.raw"), &log)?
        };
        start(self.site.report, &change(options))
    }

    /// Fills a slot with the UKI of the image, changed and signed again.
    pub fn fill(&self, slot: Slot, change: &Change) -> Result<()> {
        let (header, uki) = change.make(self.site, &self.keys)?;
        let start = self.start(slot)?;
        self.write(start, &header)?;
        self.write(start + HEADER_SIZE, &uki)
    }

    /// Its DATA, in a file of its own.
    pub fn data(&self) -> Result<Data<'a>> {
        Data::of(self.site, &self.path())
    }

    /// Puts another program into slotboot's place.
    pub fn replace_slotboot(&self, program: &[u8]) -> Result<()> {
        let file = self.folder.path().join("program.efi");
        fs::write(&file, program).or_build(|| format!("cannot write `{}`", file.display()))?;
        let (disk, to) = (
            format!("{}@@1M", self.path().display()),
            format!("::/{}", removable_path(self.architecture)),
        );
        self.tool(Command::new("mcopy").args(["-o", "-i", &disk]).arg(&file).arg(to)).map(drop)
    }

    /// Has `cgpt` set the state of a slot.
    pub fn set(&self, slot: Slot, state: State) -> Result<()> {
        let [priority, tries, successful] =
            [state.priority, state.tries, state.successful.into()].map(|number| number.to_string());
        let bits = ["add", "-i", slot.0, "-P", &priority, "-T", &tries, "-S", &successful];
        self.tool(Command::new("cgpt").args(bits).arg(self.path())).map(drop)
    }

    /// `cgpt` has to find a slot in this state.
    pub fn is(&self, slot: Slot, state: State) -> Result<()> {
        let shown =
            self.tool(Command::new("cgpt").args(["show", "-i", slot.0]).arg(self.path()))?;
        let State { priority, tries, successful } = state;
        let bits = format!("priority={priority} tries={tries} successful={}", u8::from(successful));
        if shown.contains(&bits) {
            Ok(())
        } else {
            Err(Error::build(format!("`cgpt` does not show `{bits}`")).cause(shown))
        }
    }

    /// `sgdisk` has to find both copies of the partition table sound and equal.
    pub fn is_sound(&self) -> Result<()> {
        let verified = self.tool(Command::new("sgdisk").arg("-v").arg(self.path()))?;
        match verified.contains("No problems found") {
            true => Ok(()),
            false => {
                Err(Error::build("`sgdisk` finds fault with the partition table").cause(verified))
            }
        }
    }

    /// Where a slot starts, in bytes.
    pub fn start(&self, slot: Slot) -> Result<u64> {
        let sector =
            self.tool(Command::new("cgpt").args(["show", "-b", "-i", slot.0]).arg(self.path()))?;
        Ok(sector.trim().parse::<u64>().or_build(|| format!("`cgpt` says `{sector}`"))? * 512)
    }

    /// Its size in bytes.
    pub fn size(&self) -> Result<u64> {
        Ok(self.open()?.metadata().or_build(|| "cannot read the disk".to_owned())?.len())
    }

    /// Flips a bit of the byte at `offset`.
    pub fn flip(&self, offset: u64) -> Result<()> {
        let byte = self.read(offset, 1)?[0];
        self.write(offset, &[byte ^ 1])
    }

    /// The bytes from `offset`.
    pub fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        self.open()?
            .read_exact_at(&mut bytes, offset)
            .or_build(|| "cannot read the disk".to_owned())?;
        Ok(bytes)
    }

    /// Writes over the bytes from `offset`.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.open()?.write_all_at(bytes, offset).or_build(|| "cannot write the disk".to_owned())
    }

    fn open(&self) -> Result<File> {
        File::options()
            .read(true)
            .write(true)
            .open(self.path())
            .or_build(|| "cannot open the disk".to_owned())
    }

    fn tool(&self, command: &mut Command) -> Result<String> {
        Ok(self.site.finish("slots-tool", command)?.said)
    }
}
