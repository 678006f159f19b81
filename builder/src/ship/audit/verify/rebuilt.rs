//! Whether a file is what its recipe gives: compared with what a build of the recipe has left,
//! which nobody signed.

use super::Check;
use crate::engine::executor::Steps;
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Result, in_words};
use crate::produce::image::system_volume;
use crate::report::bytes;
use crate::ship::audit::inspect::{Disk, Kind, Opened, Partition, open};
use osbuild_abi::disk::ESP;
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_formats::fat;
use osbuild_formats::pe::{self, Image};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Bytes of the entries of a partition table: 128 of 128 bytes, behind the sectors of the MBR and
/// of its header.
const ENTRIES: u64 = 128 * 128;

/// What a difference may come from.
const RAN: &str = "; of a node that has run, `--has-run` sets aside what it writes";

/// How much is compared at once.
const CHUNK: u64 = 1 << 20;

/// What a build has left.
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
    /// How its steps came to their results.
    pub steps: Steps,
    /// Whether what is compared with it is the disk of a node that has run.
    pub has_run: bool,
}

impl Rebuilt {
    /// Compares the file at `path`, which was opened, byte for byte. Signatures are set aside.
    ///
    /// # Errors
    /// One of both cannot be read.
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

    /// What was made for this comparison. Of a step that the store had, the comparison says what an
    /// earlier build gave, maybe the very one that made the file.
    fn steps(&self) -> Check {
        let Steps { ran, stored } = &self.steps;
        let names = in_words(stored.iter().map(String::as_str));
        let again = "where an earlier build left them; `--rebuild` runs every step again";
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
                format!("without its signatures, it is what `{recipe}` gives, byte for byte"),
            ),
            Some(parts) => Check::fails(
                name,
                format!("it is not what `{recipe}` gives: {} differ", parts.join(", ")),
            ),
        }
    }

    /// All of a disk but what firmware verifies on it, which was compared already. What a disk has
    /// of its own is set aside, by name.
    fn compare_disk(
        &self,
        path: &Path,
        opened: &Opened,
        disk: &Disk,
        other: &Opened,
    ) -> Result<Check> {
        let Some(given) = &other.disk else { return Ok(self.differs("it gives no disk")) };
        let aside = match set_aside(disk, given, self.has_run) {
            Ok(aside) => aside,
            Err(why) => return Ok(self.differs(&why)),
        };
        // An update may have put the same release into the other slot.
        if opened.version() != other.version() {
            return Ok(self.differs("the header of the slot that is booted has another version"));
        }
        if !self.has_run
            && let Some(why) = self.difference(path, opened, disk, given)?
        {
            return Ok(self.differs(&format!("{why}{RAN}")));
        }
        let recipe = &self.recipe;
        let what = if self.has_run {
            "the partitions are those"
        } else {
            "the table, the ESP, the slots and DATA are those"
        };
        Ok(Check::holds(
            "disk",
            match aside[..] {
                [] => format!("{what} that `{recipe}` gives, byte for byte"),
                _ => format!(
                    "{what} that `{recipe}` gives; set aside, as a disk has its own: {}",
                    aside.join(", ")
                ),
            },
        ))
    }

    fn differs(&self, why: &str) -> Check {
        Check::fails("disk", format!("it is not what `{}` gives: {why}", self.recipe))
    }

    /// Where the bytes of a disk that no node has run are others than those of the rebuilt image;
    /// none if nowhere.
    fn difference(
        &self,
        path: &Path,
        opened: &Opened,
        disk: &Disk,
        given: &Disk,
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

    /// The system partition that the recipe gives, with this program for the firmware to start.
    fn system_with(&self, given: &Disk, boot: &[u8]) -> Result<Vec<u8>> {
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

/// What is another on a disk than in the image that was written to it, without being wrong:
/// identifiers, and a size that fits the disk. Of a node that has run, what it writes, too.
fn set_aside(disk: &Disk, given: &Disk, has_run: bool) -> std::result::Result<Vec<String>, String> {
    if disk.sector_size != given.sector_size
        || !disk.partitions.iter().map(place).eq(given.partitions.iter().map(place))
    {
        return Err("it has other partitions, or at other places".to_owned());
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
            false => return Err(format!("{name} is in another state{RAN}")),
        }
        match own.purpose == "data" {
            _ if own.size == given.size => {}
            true if own.size > given.size => {
                aside.push(format!("the size of {name}, {}", bytes(own.size)))
            }
            _ => return Err(format!("{name} has another size")),
        }
    }
    if has_run {
        aside.push(
            "what is free on ESP, what is in DATA, what is in a slot behind its UKI or not \
             booted, and what is in no partition"
                .to_owned(),
        );
    } else if !aside.is_empty() {
        aside.push("what is behind the partitions of the image".to_owned());
    }
    Ok(aside)
}

/// The bytes of the system partition.
fn system(path: &Path, disk: &Disk) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(esp) = disk.partitions.iter().find(|partition| partition.purpose == "esp") {
        from(path, esp.start)?.take(esp.size).read_to_end(&mut bytes).at("read", path)?;
    }
    Ok(bytes)
}

/// A partition as the builder writes it, which no node changes.
fn place(partition: &Partition) -> (u32, &str, &str, u64) {
    (partition.number, &partition.name, &partition.purpose, partition.start)
}

/// A disk without its EFI system partition, and without header and UKI of `length` bytes in the
/// slot `name`. Where the disk has identifiers or a size of its own, without both copies of its
/// partition table, too, which were judged by themselves, and without what is behind what was
/// given.
fn to_compare(disk: &Disk, given: &Disk, name: &str, length: u64) -> Vec<Range<u64>> {
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

/// The parts of two PE images that are not the same, once the signatures are removed; none if all
/// are.
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

/// Where two files first differ in a range of bytes, of which one may end before the range does.
fn first_difference(one: &Path, other: &Path, range: Range<u64>) -> Result<Option<u64>> {
    let mut at = range.start;
    let [mut first, mut second] = [from(one, at)?, from(other, at)?];
    while at < range.end {
        let most = CHUNK.min(range.end - at);
        let [mut left, mut right] = [Vec::new(), Vec::new()];
        first.by_ref().take(most).read_to_end(&mut left).at("read", one)?;
        second.by_ref().take(most).read_to_end(&mut right).at("read", other)?;
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
