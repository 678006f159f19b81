//! Where UKIs are tampered with and started: the one that the VMs boot, keys of its own, and
//! firmware that trusts what it is told.

use super::disk;
use crate::image::RECIPE;
use crate::site::Site;
use crate::vm::machine;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::{Bus, Date, Qemu};
use osbuild::produce::out::{IMAGE, UKI};
use osbuild::produce::sign::{EfiProgram, Signed};
use osbuild::ship::audit::inspect::inspect;
use osbuild::ship::keys::{Keys, Role, Terms, Trust, make};
use osbuild::ship::vm::machine::SecureBoot;
use osbuild::ship::vm::node::Node;
use osbuild::ship::vm::run::{RunOptions, Until, start};
use osbuild_formats::fat::{self, File};
use osbuild_formats::pe::{self, Image};
use std::fmt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// How long a machine may take to refuse or to start something.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// What the kernel says as the first thing, when the firmware verified it.
const KERNEL: &str = "UEFI Secure Boot is enabled";

/// What `osbuild run` makes of a refusal.
pub const NOT_TRUSTED: &str = "Secure Boot: the image has no signature that the firmware trusts";

/// The headers and the table of signatures, as parts in which a bit is flipped.
const HEADERS: &str = "headers";
const SIGNATURE: &str = "signature";

/// What the firmware did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did not start it, and said that it is not trusted.
    Refused,
    /// It started it, with Secure Boot on.
    Started,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Refused => "refused",
            Outcome::Started => "started",
        })
    }
}

/// The UKI, and a folder for keys and disks.
pub struct Lab<'a> {
    site: &'a Site<'a>,
    folder: TempDir,
    /// The UKI that the VMs boot, without its signature.
    pub unsigned: Vec<u8>,
}

impl<'a> Lab<'a> {
    /// Takes the UKI that is built already.
    pub fn open(site: &'a Site<'a>) -> Result<Self> {
        let path = site.project().join("out").join(RECIPE).join(UKI);
        let mut unsigned =
            std::fs::read(&path).or_build(|| format!("cannot read `{}`", path.display()))?;
        pe::detach(&mut unsigned)
            .or_build(|| "cannot remove the signature of the UKI".to_owned())?;
        let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        Ok(Lab { site, folder, unsigned })
    }

    /// The keys of this name, made when they are first asked for.
    pub fn keys(&self, name: &str, terms: Terms) -> Result<Keys> {
        let keys = Keys::named(self.folder.path(), name)?;
        if !keys.exist() {
            make(&keys, terms, None)?;
        }
        Ok(keys)
    }

    /// Terms of certificates that are valid today.
    pub fn terms(&self) -> Terms {
        Terms { since: Date { year: 2026, month: 1, day: 1 }, years: 30 }
    }

    /// The boot program of the image, with its signature.
    pub fn slotboot(&self) -> Result<Vec<u8>> {
        let image = self.site.project().join("out").join(RECIPE).join(IMAGE);
        let cannot = || format!("cannot read `{}`", image.display());
        let partition = inspect(&image)?.disk.map(|disk| disk.partitions[0].clone());
        let partition = partition.ok_or_else(|| Error::build("the image is no disk"))?;
        let mut bytes = vec![0; partition.size as usize];
        std::fs::File::open(&image)
            .and_then(|file| file.read_exact_at(&mut bytes, partition.start))
            .or_build(cannot)?;
        let program = fat::read(&bytes).or_build(cannot)?.pop();
        Ok(program.ok_or_else(|| Error::build("the image has no boot program"))?.bytes)
    }

    /// The parts of the signed UKI: its headers, its sections, its signature.
    pub fn parts(&self) -> Result<Vec<String>> {
        let image = Image::parse(&self.unsigned).or_build(|| "cannot read the UKI".to_owned())?;
        let sections = image.sections.iter().filter(|section| !section.data().is_empty());
        let sections = sections.map(|section| section.name.clone());
        Ok([HEADERS.to_owned()].into_iter().chain(sections).chain([SIGNATURE.to_owned()]).collect())
    }

    /// The UKI with a good signature, and one bit flipped in a part of it.
    pub fn flipped(&self, part: &str) -> Result<(Vec<u8>, Trust)> {
        let keys = self.keys("ours", self.terms())?;
        let mut uki = signed(&self.unsigned, &keys)?;
        let image = Image::parse(&uki).or_build(|| "cannot read the UKI".to_owned())?;
        let at = match part {
            // The image's time, which nothing but a digest looks at.
            HEADERS => {
                u32::from_le_bytes(uki[60..64].try_into().expect("these are 4 bytes")) as usize + 8
            }
            SIGNATURE => uki.len() - 200,
            name => {
                let section = image
                    .section(name)
                    .ok_or_else(|| Error::build(format!("the UKI has no section `{name}`")))?;
                section.offset as usize + section.data().len() / 2
            }
        };
        uki[at] ^= 0x10;
        Ok((uki, keys.trust()?))
    }

    /// Powers on a machine with such a disk. More arguments go to QEMU.
    pub fn start(
        &self,
        name: &str,
        files: &[File<Vec<u8>>],
        uki: Option<&[u8]>,
        secure_boot: SecureBoot,
        arguments: &[&str],
    ) -> Result<Node<'_>> {
        let image = self.folder.path().join("disk.raw");
        disk::write(&image, files, uki)?;
        let options = RunOptions {
            qemu: Qemu {
                machine: "q35".into(),
                cpu: "max".into(),
                memory_mib: 1024,
                cpus: 1,
                bus: Bus::VirtioBlk,
            },
            secure_boot,
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            until: Until::Ready,
            timeout: Some(PATIENCE),
            log: self.log(name),
            ..machine::options(self.site, image, name)
        };
        start(self.site.report, &options)
    }

    /// All that was said on the console of a machine.
    pub fn said(&self, name: &str) -> Result<String> {
        let log = self.log(name);
        std::fs::read_to_string(&log).or_build(|| format!("cannot read `{}`", log.display()))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.site.log(&format!("secure-{name}"))
    }

    /// Boots a machine from a disk with this UKI as what firmware starts, whose firmware trusts
    /// `trust` alone.
    pub fn boot(&self, name: &str, uki: &[u8], trust: Trust) -> Result<Outcome> {
        // A node without DATA never gets ready: what it was that stopped it is the question.
        let error = match self
            .start(name, &[disk::started(uki)], None, SecureBoot::enforced(trust), &[])?
            .ready(Some(PATIENCE))
        {
            Ok(()) => return Err(Error::build("a node without DATA got ready")),
            Err(error) => error,
        };
        let said = self.said(name)?;
        match (
            said.contains(KERNEL),
            error.problems[0].causes.iter().any(|cause| cause == NOT_TRUSTED),
        ) {
            (true, false) => Ok(Outcome::Started),
            (false, true) => Ok(Outcome::Refused),
            _ => Err(error),
        }
    }
}

/// The UKI with one more signature, by the key of db.
pub fn signed(uki: &[u8], keys: &Keys) -> Result<Vec<u8>> {
    Ok(Signed::by(&keys.signer(Role::Db)?, EfiProgram(uki.to_vec()))?.into_inner().0)
}
