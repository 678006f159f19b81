//! Compares a file with the unsigned products of a new build of its recipe.

use super::Check;
use crate::engine::executor::Steps;
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Result, in_words};
use crate::produce::image::system_volume;
use crate::report::bytes;
use crate::ship::audit::inspect::{DiskLayout, Kind, Opened, Partition, open};
use osbuild_abi::disk::ESP;
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_formats::fat;
use osbuild_formats::pe::{self, Image};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Size of the entries of a partition table in bytes: 128 of 128 bytes, after the sectors of the
/// MBR and of the header.
const ENTRIES: u64 = 128 * 128;

/// Explains a difference that a node may have made.
const RAN: &str = "; if a node has run from the disk, `--has-run` ignores what it writes";

/// How many bytes are compared at a time.
const CHUNK: u64 = 1 << 20;

/// The products of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// The recipe.
    pub recipe: String,
    /// The image.
    pub image: PathBuf,
    /// The UKI.
    pub uki: PathBuf,
    /// The initramfs.
    pub initramfs: PathBuf,
    /// Its steps: run or cached.
    pub steps: Steps,
    /// Whether a node has run from the disk that is compared.
    pub has_run: bool,
}

impl Rebuilt {
    /// Compares the opened file at `path` byte for byte, without its signatures.
    ///
    /// # Errors
    /// One of the files cannot be read.
    pub(super) fn compare(&self, path: &Path, opened: &Opened) -> Result<Vec<Check>> {
        let read = |path: &Path| std::fs::read(path).at("read", path);
        let mut checks = match (opened.kind, &opened.disk, &opened.boot) {
            (Kind::Image, Some(disk), Some(boot)) => {
                let other = open(&self.image)?;
                let boot = parts_that_differ(boot, other.boot.as_deref().unwrap_or_default());
                let uki = parts_that_differ(&opened.bytes, &other.bytes);
                vec![
                    self.check("boot rebuild", boot),
                    self.check("rebuild", uki),
                    self.compare_disk(path, opened, disk, &other)?,
                ]
            }
            (Kind::Initramfs, ..) => {
                let differs = opened.bytes != read(&self.initramfs)?;
                vec![self.check("rebuild", differs.then(|| vec!["the initramfs".to_owned()]))]
            }
            _ => vec![self.check("rebuild", parts_that_differ(&opened.bytes, &read(&self.uki)?))],
        };
        checks.push(self.steps());
        Ok(checks)
    }

    /// Reports which steps ran for this comparison. The result of a cached step is that of an
    /// earlier build, possibly the one that made the file.
    fn steps(&self) -> Check {
        // A cache is never asked for a comparison.
        let Steps { ran, stored, .. } = &self.steps;
        let names = in_words(stored.iter().map(String::as_str));
        let again = "where an earlier build stored them; `--rebuild` runs every step again";
        Check::holds(
            "steps",
            match (ran.len(), stored.len()) {
                (ran, 0) => format!("all {ran} ran for this comparison"),
                (0, stored) => format!("none ran: all {stored} came from the store, {again}"),
                (ran, stored) => {
                    format!("{ran} ran, and {stored} came from the store, {again}: {names}")
                }
            },
        )
    }

    fn check(&self, name: &'static str, differs: Option<Vec<String>>) -> Check {
        let recipe = &self.recipe;
        match differs {
            None => Check::holds(
                name,
                format!("without its signatures, it equals the build of `{recipe}` byte for byte"),
            ),
            Some(parts) => Check::fails(
                name,
                format!("it differs from the build of `{recipe}`: {}", parts.join(", ")),
            ),
        }
    }

    /// Compares a disk without the programs that firmware verifies, which were compared before.
    /// Differences that every disk may have are ignored, and listed.
    fn compare_disk(
        &self,
        path: &Path,
        opened: &Opened,
        disk: &DiskLayout,
        other: &Opened,
    ) -> Result<Check> {
        let Some(given) = &other.disk else { return Ok(self.differs("the build has no disk")) };
        let aside = match set_aside(disk, given, self.has_run) {
            Ok(aside) => aside,
            Err(why) => return Ok(self.differs(&why)),
        };
        // An update may have put the same release into the other slot.
        if opened.version() != other.version() {
            return Ok(self.differs("the header of the booted slot has a different version"));
        }
        if !self.has_run
            && let Some(why) = self.difference(path, opened, disk, given)?
        {
            return Ok(self.differs(&format!("{why}{RAN}")));
        }
        let recipe = &self.recipe;
        let what = if self.has_run {
            "the partitions equal"
        } else {
            "the table, the ESP, the slots and DATA equal"
        };
        Ok(Check::holds(
            "disk",
            match aside[..] {
                [] => format!("{what} those of the build of `{recipe}` byte for byte"),
                _ => format!(
                    "{what} those of the build of `{recipe}`, ignoring what is specific to a \
                    disk: {}",
                    aside.join(", ")
                ),
            },
        ))
    }

    fn differs(&self, why: &str) -> Check {
        Check::fails("disk", format!("it differs from the build of `{}`: {why}", self.recipe))
    }

    /// Finds the first difference between a disk from which no node has run and the rebuilt image.
    fn difference(
        &self,
        path: &Path,
        opened: &Opened,
        disk: &DiskLayout,
        given: &DiskLayout,
    ) -> Result<Option<String>> {
        let name = opened.slot.as_deref().unwrap_or_default();
        let boot = opened.boot.as_deref().unwrap_or_default();
        let (esp, wanted) = (system(path, disk)?, self.system_with(given, boot)?);
        if let Some(at) = esp.iter().zip(&wanted).position(|(one, other)| one != other) {
            return Ok(Some(format!("{ESP} differs at byte {at} of it")));
        }
        for range in to_compare(disk, given, name, opened.bytes.len() as u64) {
            if let Some(at) = first_difference(path, &self.image, range)? {
                let inside = disk
                    .partitions
                    .iter()
                    .find(|one| (one.start..one.start + one.size).contains(&at));
                let place = inside.map_or("the partition table", |partition| &partition.name);
                return Ok(Some(format!("{place} differs at byte {at}")));
            }
        }
        Ok(None)
    }

    /// The EFI system partition of the build, with `boot` as the program that the firmware starts.
    fn system_with(&self, given: &DiskLayout, boot: &[u8]) -> Result<Vec<u8>> {
        let volume = system(&self.image, given)?;
        let files = fat::read(&volume)
            .or_build(|| format!("cannot read the ESP of `{}`", self.image.display()))?;
        let own = |file: fat::File<Vec<u8>>| match file.path == given.boot.path {
            true => fat::File { bytes: boot.to_vec(), ..file },
            false => file,
        };
        system_volume(
            given.sector_size,
            volume.len() as u64,
            &files.into_iter().map(own).collect::<Vec<_>>(),
        )
    }
}

/// Lists the allowed differences between a disk and the image that was written to it: identifiers,
/// and the size of DATA. If a node has run, also what it writes.
fn set_aside(
    disk: &DiskLayout,
    given: &DiskLayout,
    has_run: bool,
) -> std::result::Result<Vec<String>, String> {
    if disk.sector_size != given.sector_size
        || !disk.partitions.iter().map(place).eq(given.partitions.iter().map(place))
    {
        return Err("it has different partitions, or at different offsets".to_owned());
    }
    let mut aside = Vec::new();
    if disk.disk_guid != given.disk_guid {
        aside.push(format!("the GUID of the disk, {}", disk.disk_guid));
    }
    for (own, given) in disk.partitions.iter().zip(&given.partitions) {
        let name = &own.name;
        if own.guid != given.guid {
            aside.push(format!("the GUID of {name}"));
        }
        match own.attributes == given.attributes {
            true => {}
            false if has_run => aside.push(format!("the state of {name}")),
            false => return Err(format!("{name} is in a different state{RAN}")),
        }
        match own.purpose == "data" {
            _ if own.size == given.size => {}
            true if own.size > given.size => {
                aside.push(format!("the size of {name}, {}", bytes(own.size)))
            }
            _ => return Err(format!("{name} has a different size")),
        }
    }
    if has_run {
        aside.push(
            "free space on ESP, the contents of DATA and of unbooted slots, the space behind a \
             UKI and outside partitions"
                .to_owned(),
        );
    } else if !aside.is_empty() {
        aside.push("the space behind the image's partitions".to_owned());
    }
    Ok(aside)
}

/// The bytes of the system partition.
fn system(path: &Path, disk: &DiskLayout) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(esp) = disk.partitions.iter().find(|partition| partition.purpose == "esp") {
        from(path, esp.start)?.take(esp.size).read_to_end(&mut bytes).at("read", path)?;
    }
    Ok(bytes)
}

/// The properties of a partition that no node changes.
fn place(partition: &Partition) -> (u32, &str, &str, u64) {
    (partition.number, &partition.name, &partition.purpose, partition.start)
}

/// The ranges of a disk to compare: all but the EFI system partition, and the header and UKI of
/// `length` bytes in the slot `name`. If the disk has its own identifiers or size, also without
/// both copies of its partition table, which have a check of their own, and without the space
/// behind the image.
fn to_compare(disk: &DiskLayout, given: &DiskLayout, name: &str, length: u64) -> Vec<Range<u64>> {
    let partitions = disk.partitions.iter().zip(&given.partitions);
    let mut aside: Vec<Range<u64>> = partitions
        .filter_map(|(partition, given)| match () {
            () if partition.purpose == "esp" => Some(partition.start..partition.start + given.size),
            () if partition.name == name => {
                Some(partition.start..partition.start + HEADER_SIZE + length)
            }
            () => None,
        })
        .collect();
    if disk.disk_guid != given.disk_guid || disk.partitions != given.partitions {
        let ends = given.partitions.iter().map(|partition| partition.start + partition.size);
        aside.push(0..2 * disk.sector_size + ENTRIES);
        aside.push(ends.max().unwrap_or(0)..u64::MAX);
    }
    aside.sort_by_key(|range| range.start);
    let starts = [0].into_iter().chain(aside.iter().map(|range| range.end));
    let ends = aside.iter().map(|range| range.start).chain([u64::MAX]);
    starts.zip(ends).map(|(start, end)| start..end).filter(|range| !range.is_empty()).collect()
}

/// The parts that differ between two PE images without their signatures; `None` if they are equal.
fn parts_that_differ(signed: &[u8], rebuilt: &[u8]) -> Option<Vec<String>> {
    let [mut plain, mut rebuilt] = [signed, rebuilt].map(<[u8]>::to_vec);
    let detached = pe::detach(&mut plain).and_then(|()| pe::detach(&mut rebuilt));
    if detached.is_ok() && plain == rebuilt {
        return None;
    }
    let (Ok(one), Ok(other)) = (Image::parse(&plain), Image::parse(&rebuilt)) else {
        return Some(vec!["the headers".to_owned()]);
    };
    let names = one.sections.iter().chain(&other.sections).map(|section| section.name.as_str());
    let mut names: Vec<&str> = names
        .filter(|name| {
            one.section(name).map(|section| section.data())
                != other.section(name).map(|section| section.data())
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    Some(if names.is_empty() {
        vec!["the headers".to_owned()]
    } else {
        names.iter().map(|name| format!("`{name}`")).collect()
    })
}

/// The offset of the first difference between two files in a range. Either file may be shorter.
fn first_difference(one: &Path, other: &Path, range: Range<u64>) -> Result<Option<u64>> {
    let mut at = range.start;
    let [mut first, mut second] = [from(one, at)?, from(other, at)?];
    while at < range.end {
        let length = CHUNK.min(range.end - at);
        let [mut left, mut right] = [Vec::new(), Vec::new()];
        first.by_ref().take(length).read_to_end(&mut left).at("read", one)?;
        second.by_ref().take(length).read_to_end(&mut right).at("read", other)?;
        if left != right {
            let same = left.iter().zip(&right).take_while(|(left, right)| left == right).count();
            return Ok(Some(at + same as u64));
        }
        if left.is_empty() {
            break;
        }
        at += left.len() as u64;
    }
    Ok(None)
}

fn from(path: &Path, at: u64) -> Result<File> {
    let mut file = File::open(path).at("read", path)?;
    file.seek(SeekFrom::Start(at)).at("read", path)?;
    Ok(file)
}
