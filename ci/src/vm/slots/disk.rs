//! A disk from which machines boot one after another. Checks change it in between; `cgpt` keeps the
//! partition table sound.

use super::change::Change;
use crate::image::{ARM64, image};
use crate::site::Site;
use crate::vm::data::Data;
use crate::vm::machine::Machine;
use crate::vm::node::NodeUnderTest;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::Architecture;
use osbuild::produce::image::removable_path;
use osbuild::ship::keys::{DEV, Keys};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_slots::State;
use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A slot, identified by the number of its partition.
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

    /// The other slot of the disk.
    pub fn other(self) -> Self {
        if self.0 == A.0 { B } else { A }
    }
}

/// A disk with an image and its two slots.
pub struct SlotDisk<'a> {
    site: &'a Site<'a>,
    /// The folder of the build.
    out: PathBuf,
    /// The keys that signed the image.
    keys: Keys,
    /// The processor of the machines.
    architecture: Architecture,
    /// Start of the names of the consoles' logs; the number of the boot follows.
    log: &'static str,
    boots: Cell<u32>,
    folder: TempDir,
}

impl<'a> SlotDisk<'a> {
    /// Builds a recipe, and returns a disk with its image, which the keys `dev` signed.
    pub fn of_recipe(site: &'a Site<'a>, recipe: &str, log: &'static str) -> Result<Self> {
        let project = site.project();
        let image = image(site, recipe)?;
        let out = image.parent().expect("the image is in a folder").to_owned();
        SlotDisk::of(site, out, Keys::named(&project, DEV)?, log)
    }

    /// A disk that the first boot copies from the image in the folder `out`, which `keys` signed.
    /// The consoles are written to the logs `log-1` and so on.
    pub fn of(site: &'a Site<'a>, out: PathBuf, keys: Keys, log: &'static str) -> Result<Self> {
        let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        Ok(SlotDisk {
            site,
            out,
            keys,
            architecture: Architecture::Amd64,
            log,
            boots: Cell::new(0),
            folder,
        })
    }

    /// Changes the processor of the machines.
    pub fn with(self, architecture: Architecture) -> Self {
        SlotDisk { architecture, ..self }
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("disk.raw")
    }

    /// A file of the build.
    pub fn out(&self, name: &str) -> PathBuf {
        self.out.join(name)
    }

    /// The keys that signed the image.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// A machine with the disk and a watchdog, whose firmware starts only what the image's keys
    /// have signed.
    pub fn machine(&self) -> Result<Machine<'a>> {
        self.boots.set(self.boots.get() + 1);
        let log = format!("{}-{}", self.log, self.boots.get());
        let image = self.out("image.raw");
        let machine = match self.architecture {
            Architecture::Amd64 => Machine::new(self.site, image, &log),
            Architecture::Arm64 => Machine::of_board(self.site, ARM64, image, &log)?,
        };
        Ok(machine.keep(self.path()).trusting(self.keys.trust()?).watchdog())
    }

    /// Powers on [`Self::machine`].
    pub fn start(&self) -> Result<NodeUnderTest<'a>> {
        self.machine()?.start()
    }

    /// Writes the UKI of the image to a slot, changed and signed again.
    pub fn fill(&self, slot: Slot, change: &Change) -> Result<()> {
        let (header, uki) = change.make(self.site, &self.keys)?;
        let offset = self.offset(slot)?;
        self.write(offset, &header)?;
        self.write(offset + HEADER_SIZE, &uki)
    }

    /// A copy of its DATA.
    pub fn data(&self) -> Result<Data<'a>> {
        Data::of(self.site, &self.path())
    }

    /// Replaces slotboot with another program.
    pub fn replace_slotboot(&self, program: &[u8]) -> Result<()> {
        let file = self.folder.path().join("program.efi");
        fs::write(&file, program).or_build(|| format!("cannot write `{}`", file.display()))?;
        let (disk, to) = (
            format!("{}@@1M", self.path().display()),
            format!("::/{}", removable_path(self.architecture)),
        );
        self.tool(Command::new("mcopy").args(["-o", "-i", &disk]).arg(&file).arg(to)).map(drop)
    }

    /// Sets the state of a slot with `cgpt`.
    pub fn set(&self, slot: Slot, state: State) -> Result<()> {
        let [priority, tries, successful] =
            [state.priority, state.tries, state.successful.into()].map(|number| number.to_string());
        let bits = ["add", "-i", slot.0, "-P", &priority, "-T", &tries, "-S", &successful];
        self.tool(Command::new("cgpt").args(bits).arg(self.path())).map(drop)
    }

    /// Checks the state of a slot with `cgpt`.
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

    /// Checks with `sgdisk` that both copies of the partition table are sound and equal.
    pub fn is_sound(&self) -> Result<()> {
        let verified = self.tool(Command::new("sgdisk").arg("-v").arg(self.path()))?;
        match verified.contains("No problems found") {
            true => Ok(()),
            false => {
                Err(Error::build("`sgdisk` finds fault with the partition table").cause(verified))
            }
        }
    }

    /// Offset of a slot in bytes.
    pub fn offset(&self, slot: Slot) -> Result<u64> {
        let sector =
            self.tool(Command::new("cgpt").args(["show", "-b", "-i", slot.0]).arg(self.path()))?;
        Ok(sector.trim().parse::<u64>().or_build(|| format!("`cgpt` prints `{sector}`"))? * 512)
    }

    /// Size of the disk in bytes.
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
        Ok(self.site.finish("slots-tool", command)?.output)
    }
}
