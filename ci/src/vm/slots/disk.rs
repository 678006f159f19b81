//! A disk that a machine boots from, time after time, and that is changed in between: by `cgpt` where its table is meant to stay sound.

use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::{Architecture, Qemu};
use osbuild::produce::digest::Digest;
use osbuild::produce::sign::{EfiProgram, Signed};
use osbuild::ship::keys::{DEV, Keys, Role};
use osbuild::ship::machine::{Bus, Download};
use osbuild::ship::node::Node;
use osbuild::ship::run::{RunOptions, Until, start};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_formats::uki::{self, Parts};
use osbuild_slots::{Header, State};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// The stub of the UKIs that are made here.
const STUB: &str = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";

/// A slot, by the number of its partition.
#[derive(Clone, Copy)]
pub struct Slot(&'static str);

/// The first slot.
pub const A: Slot = Slot("2");
/// The other one.
pub const B: Slot = Slot("3");

/// The disk of all claims.
pub struct Disk<'a> {
    site: &'a Site<'a>,
    folder: TempDir,
}

impl<'a> Disk<'a> {
    /// A disk that the first machine gets as the image is.
    pub fn new(site: &'a Site<'a>) -> Result<Self> {
        Ok(Disk { site, folder: tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())? })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("disk.raw")
    }

    /// What the build left.
    fn out(&self, name: &str) -> PathBuf {
        self.site.project().join("out").join(RECIPE).join(name)
    }

    /// The keys that signed the image.
    fn keys(&self) -> Result<Keys> {
        Keys::named(&self.site.project(), DEV)
    }

    /// Powers on a machine with the disk, whose firmware starts only what is signed like the image.
    pub fn boot(&self) -> Result<Node<'_>> {
        let qemu = Qemu { machine: "q35".into(), cpu: "max".into(), memory_mib: 2048, cpus: 2 };
        let options = RunOptions {
            image: self.out("image.raw"),
            architecture: Architecture::Amd64,
            qemu,
            bus: Bus::VirtioBlk,
            sector_size: 512,
            firmware: None,
            download: Download::Refused,
            disk_size_mib: None,
            keep: Some(self.path()),
            record: None,
            forwards: Vec::new(),
            trust: Some(self.keys()?.trust()?),
            arguments: Vec::new(),
            until: Until::PowerOff,
            timeout: None,
            show_console: false,
            log: self.site.log("slots"),
            cache: self.site.machine.clone(),
        };
        start(self.site.report, &options)
    }

    /// Fills a slot with the UKI of the image, whose command line gets more words, signed again.
    pub fn fill(&self, slot: Slot, words: &str) -> Result<()> {
        let cannot = || "cannot make a UKI".to_owned();
        let (stub, built) = (fs::read(STUB).or_build(cannot)?, fs::read(self.out("node.efi")).or_build(cannot)?);
        let parts = uki::read(&built).or_build(cannot)?;
        let line = format!("{} {words}", parts.command_line);
        let made = uki::build(&stub, &Parts { command_line: line.trim_end(), ..parts }).or_build(cannot)?;
        let made = Signed::by(&self.keys()?.signer(Role::Db)?, EfiProgram(made))?.into_inner().0;
        let header = Header { length: made.len() as u64, sha256: *Digest::of(&made).hash(), version: "0.0.1".to_owned() };
        let start = self.start(slot)?;
        self.write(start, &header.encode().or_build(cannot)?)?;
        self.write(start + HEADER_SIZE, &made)
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
        let shown = self.tool(Command::new("cgpt").args(["show", "-i", slot.0]).arg(self.path()))?;
        let State { priority, tries, successful } = state;
        let bits = format!("priority={priority} tries={tries} successful={}", u8::from(successful));
        if shown.contains(&bits) { Ok(()) } else { Err(Error::build(format!("`cgpt` does not show `{bits}`")).cause(shown)) }
    }

    /// `sgdisk` has to find both copies of the partition table sound and equal.
    pub fn is_sound(&self) -> Result<()> {
        let verified = self.tool(Command::new("sgdisk").arg("-v").arg(self.path()))?;
        match verified.contains("No problems found") {
            true => Ok(()),
            false => Err(Error::build("`sgdisk` finds fault with the partition table").cause(verified)),
        }
    }

    /// Where a slot starts, in bytes.
    pub fn start(&self, slot: Slot) -> Result<u64> {
        let sector = self.tool(Command::new("cgpt").args(["show", "-b", "-i", slot.0]).arg(self.path()))?;
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
        self.open()?.read_exact_at(&mut bytes, offset).or_build(|| "cannot read the disk".to_owned())?;
        Ok(bytes)
    }

    /// Writes over the bytes from `offset`.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.open()?.write_all_at(bytes, offset).or_build(|| "cannot write the disk".to_owned())
    }

    fn open(&self) -> Result<File> {
        File::options().read(true).write(true).open(self.path()).or_build(|| "cannot open the disk".to_owned())
    }

    fn tool(&self, command: &mut Command) -> Result<String> {
        Ok(self.site.finish("slots-tool", command)?.said)
    }
}
