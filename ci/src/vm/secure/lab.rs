//! The UKI that the VMs boot is changed, signed with new keys, and started on firmware that trusts
//! the given keys.

use crate::image::RECIPE;
use crate::site::Site;
use crate::vm::boot_disk;
use crate::vm::machine::{Machine, SECURE_BOOT_ON};
use crate::vm::node::NodeUnderTest;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::Date;
use osbuild::produce::out::{IMAGE, UKI};
use osbuild::produce::sign::{EfiProgram, Signed};
use osbuild::ship::audit::inspect::inspect;
use osbuild::ship::keys::{Keys, Role, Terms, Trust, make};
use osbuild::ship::vm::machine::SecureBoot;
use osbuild_formats::fat::{self, File};
use osbuild_formats::pe::{self, Image};
use std::fmt;
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

/// The cause that `osbuild run` gives when the firmware refuses the image.
pub const NOT_TRUSTED: &str = "Secure Boot: the image has no signature that the firmware trusts";

/// Names of parts other than sections: the headers and the signature.
const HEADERS: &str = "headers";
const SIGNATURE: &str = "signature";

/// The firmware's response to a UKI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// Not started: not trusted.
    Refused,
    /// Started, with Secure Boot on.
    Started,
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Response::Refused => "refused",
            Response::Started => "started",
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
    /// Reads the UKI of the last build.
    pub fn open(site: &'a Site<'a>) -> Result<Self> {
        let path = site.project().join("out").join(RECIPE).join(UKI);
        let mut unsigned =
            std::fs::read(&path).or_build(|| format!("cannot read `{}`", path.display()))?;
        pe::detach(&mut unsigned)
            .or_build(|| "cannot remove the signature of the UKI".to_owned())?;
        let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        Ok(Lab { site, folder, unsigned })
    }

    /// The keys of this name. The first call makes them.
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

    /// slotboot of the image, with its signature.
    pub fn slotboot(&self) -> Result<Vec<u8>> {
        let image = self.site.project().join("out").join(RECIPE).join(IMAGE);
        let cannot = || format!("cannot read `{}`", image.display());
        let partition = inspect(&image)?.disk.map(|disk| disk.partitions[0].clone());
        let partition = partition.ok_or_else(|| Error::build("the image is not a disk"))?;
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

    /// The signed UKI with one bit flipped in a part of it.
    pub fn flipped(&self, part: &str) -> Result<(Vec<u8>, Trust)> {
        let keys = self.keys("ours", self.terms())?;
        let mut uki = signed(&self.unsigned, &keys)?;
        let image = Image::parse(&uki).or_build(|| "cannot read the UKI".to_owned())?;
        let at = match part {
            // The image's time stamp, which only a digest covers.
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

    /// Powers on a machine whose disk has these files on its system partition, and a slot with
    /// `uki` if there is one.
    pub fn start(
        &self,
        name: &str,
        files: &[File<Vec<u8>>],
        uki: Option<&[u8]>,
        secure_boot: SecureBoot,
        arguments: &[&str],
    ) -> Result<NodeUnderTest<'a>> {
        let image = self.folder.path().join("disk.raw");
        boot_disk::write(&image, files, uki)?;
        Machine::new(self.site, image, &log_name(name))
            .memory(1024)
            .secure_boot(secure_boot)
            .arguments(arguments.iter().copied())
            .without_reboot()
            .start()
    }

    /// The console of a machine that has ended.
    pub fn console(&self, name: &str) -> Result<String> {
        let log = self.site.log(&log_name(name));
        std::fs::read_to_string(&log).or_build(|| format!("cannot read `{}`", log.display()))
    }

    /// Boots a machine whose firmware trusts only `trust`, from a disk with this UKI as the program
    /// that firmware starts.
    pub fn boot(&self, name: &str, uki: &[u8], trust: Trust) -> Result<Response> {
        // A node without DATA never becomes ready; the cause shows what stopped it.
        let error = match self
            .start(name, &[boot_disk::started(uki)], None, SecureBoot::enforced(trust), &[])?
            .ready()
        {
            Ok(()) => return Err(Error::build("a node without DATA became ready")),
            Err(error) => error,
        };
        let console = self.console(name)?;
        match (
            console.contains(SECURE_BOOT_ON),
            error.problems[0].causes.iter().any(|cause| cause == NOT_TRUSTED),
        ) {
            (true, false) => Ok(Response::Started),
            (false, true) => Ok(Response::Refused),
            _ => Err(error),
        }
    }
}

fn log_name(name: &str) -> String {
    format!("secure-{name}")
}

/// Adds a signature with the key of db.
pub fn signed(uki: &[u8], keys: &Keys) -> Result<Vec<u8>> {
    Ok(Signed::by(&keys.signer(Role::Db)?, EfiProgram(uki.to_vec()))?.into_inner().0)
}
