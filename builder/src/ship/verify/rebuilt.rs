//! Whether a file is what its recipe gives: compared with what a build of the recipe has left, which nobody signed.

use super::Check;
use crate::error::Result;
use crate::produce::disk::OnDisk;
use crate::report::bytes;
use crate::ship::inspect::{Disk, Kind, Opened, Partition, open};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_formats::pe::{self, Image};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

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
}

impl Rebuilt {
    /// Compares the file at `path`, which was opened, byte for byte. Signatures are set aside.
    ///
    /// # Errors
    /// One of both cannot be read.
    pub(super) fn compare(&self, path: &Path, opened: &Opened) -> Result<Vec<Check>> {
        let read = |path: &Path| std::fs::read(path).at("read", path);
        Ok(match (opened.kind, &opened.disk, &opened.boot) {
            (Kind::Image, Some(disk), Some(boot)) => {
                let other = open(&self.image)?;
                let boot = parts_that_differ(boot, other.boot.as_deref().unwrap_or_default());
                let uki = parts_that_differ(&opened.bytes, &other.bytes);
                vec![self.check("boot rebuild", boot), self.check("rebuild", uki), self.compare_disk(path, opened, disk, &other)?]
            }
            (Kind::Initramfs, ..) => {
                let differs = opened.bytes != read(&self.initramfs)?;
                vec![self.check("rebuild", differs.then(|| vec!["the initramfs".to_owned()]))]
            }
            _ => vec![self.check("rebuild", parts_that_differ(&opened.bytes, &read(&self.uki)?))],
        })
    }

    fn check(&self, name: &'static str, differs: Option<Vec<String>>) -> Check {
        let recipe = &self.recipe;
        match differs {
            None => Check::holds(name, format!("without its signatures, it is what `{recipe}` gives, byte for byte")),
            Some(parts) => Check::fails(name, format!("it is not what `{recipe}` gives: {} differ", parts.join(", "))),
        }
    }

    /// Compares a disk that a node has made its own: with identifiers and a size of its own, its slots' state, and what it has written to DATA.
    fn set_aside(&self, disk: &Disk, other: &Disk) -> Check {
        let recipe = &self.recipe;
        if disk.sector_size != other.sector_size || !disk.partitions.iter().map(place).eq(other.partitions.iter().map(place)) {
            return Check::fails("disk", format!("it is not what `{recipe}` gives: it has other partitions, or at other places"));
        }
        let mut aside = vec![format!("the GUID of the disk, {}", disk.disk_guid)];
        for (own, given) in disk.partitions.iter().zip(&other.partitions) {
            let name = &own.name;
            if own.guid != given.guid {
                aside.push(format!("the GUID of {name}"));
            }
            if own.attributes != given.attributes {
                aside.push(format!("the state of {name}"));
            }
            if own.size != given.size && own.purpose == "data" {
                aside.push(format!("the size of {name}, {}", bytes(own.size)));
            } else if own.size != given.size {
                return Check::fails("disk", format!("it is not what `{recipe}` gives: {name} has another size"));
            }
        }
        aside.push("what is in DATA and in no slot that is booted".to_owned());
        Check::holds(
            "disk",
            format!("the partitions are those that `{recipe}` gives; set aside, as a node has its own: {}", aside.join(", ")),
        )
    }

    /// All of a disk but its EFI system partition and the UKI in its slot, of which what firmware verifies was compared already.
    fn compare_disk(&self, path: &Path, opened: &Opened, disk: &Disk, other: &Opened) -> Result<Check> {
        let recipe = &self.recipe;
        let Some(other) = &other.disk else { return Ok(Check::fails("disk", format!("`{recipe}` gives no disk"))) };
        if other.disk_guid != disk.disk_guid {
            return Ok(self.set_aside(disk, other));
        }
        let name = opened.slot.as_deref().unwrap_or_default();
        let version = |disk: &Disk| disk.slots.iter().find(|slot| slot.name == name).and_then(|slot| slot.version.clone());
        if version(disk) != version(other) {
            return Ok(Check::fails(
                "disk",
                format!("it is not what `{recipe}` gives: the header of {name} has another version"),
            ));
        }
        for range in to_compare(disk, name, opened.bytes.len() as u64) {
            if let Some(at) = first_difference(path, &self.image, range)? {
                let inside = disk.partitions.iter().find(|one| (one.start..one.start + one.size).contains(&at));
                let place = inside.map_or("the partition table", |partition| &partition.name);
                return Ok(Check::fails("disk", format!("it is not what `{recipe}` gives: {place} differs at byte {at}")));
            }
        }
        Ok(Check::holds("disk", format!("table, slots and DATA are what `{recipe}` gives, byte for byte")))
    }
}

/// A partition as the builder writes it, which no node changes.
fn place(partition: &Partition) -> (u32, &str, &str, u64) {
    (partition.number, &partition.name, &partition.purpose, partition.start)
}

/// A disk without its EFI system partition and without a UKI of `length` bytes in the slot `name`, whose header has the UKI's digest.
fn to_compare(disk: &Disk, name: &str, length: u64) -> Vec<Range<u64>> {
    let mut aside: Vec<Range<u64>> = Vec::new();
    for partition in &disk.partitions {
        let size = match () {
            () if partition.purpose == "esp" => partition.size,
            () if partition.name == name => HEADER_SIZE + length,
            () => continue,
        };
        aside.push(partition.start..partition.start + size);
    }
    aside.sort_by_key(|range| range.start);
    let starts = [0].into_iter().chain(aside.iter().map(|range| range.end));
    let ends = aside.iter().map(|range| range.start).chain([u64::MAX]);
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

/// The parts of two PE images that are not the same, once the signatures are removed; none if all are.
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
        .filter(|name| one.section(name).map(|section| section.data()) != other.section(name).map(|section| section.data()))
        .collect();
    names.sort_unstable();
    names.dedup();
    Some(if names.is_empty() { vec!["the headers".to_owned()] } else { names.iter().map(|name| format!("`{name}`")).collect() })
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
