//! Whether a file is what its recipe gives: compared with what a build of the recipe has left, which nobody signed.

use super::Check;
use crate::error::Result;
use crate::produce::disk::OnDisk;
use crate::ship::inspect::{Disk, Kind, Opened, open};
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
        let differs = match opened.kind {
            Kind::Initramfs => (opened.bytes != read(&self.initramfs)?).then(|| vec!["the initramfs".to_owned()]),
            Kind::Image | Kind::Uki => parts_that_differ(&opened.bytes, &read(&self.uki)?),
        };
        let recipe = &self.recipe;
        let mut checks = vec![match differs {
            None => Check::holds("rebuild", format!("without its signatures, it is what `{recipe}` gives, byte for byte")),
            Some(parts) => Check::fails("rebuild", format!("it is not what `{recipe}` gives: {} differ", parts.join(", "))),
        }];
        if let Some(disk) = &opened.disk {
            checks.push(self.compare_disk(path, disk)?);
        }
        Ok(checks)
    }

    /// All of a disk but its EFI system partition, of which what firmware starts was compared already.
    fn compare_disk(&self, path: &Path, disk: &Disk) -> Result<Check> {
        let (recipe, other) = (&self.recipe, open(&self.image)?);
        if other.disk.as_ref().is_none_or(|other| other.disk_guid != disk.disk_guid) {
            let aside = "set aside: the disk has identifiers of its own, so table and DATA belong to its node";
            return Ok(Check::holds("disk", aside.to_owned()));
        }
        let esp = disk.partitions.iter().find(|partition| partition.purpose == "esp");
        let (start, end) = esp.map_or((0, 0), |esp| (esp.start, esp.start + esp.size));
        for range in [0..start, end..u64::MAX] {
            if let Some(at) = first_difference(path, &self.image, range)? {
                let inside = disk.partitions.iter().find(|one| (one.start..one.start + one.size).contains(&at));
                let place = inside.map_or("the partition table", |partition| &partition.name);
                return Ok(Check::fails("disk", format!("it is not what `{recipe}` gives: {place} differs at byte {at}")));
            }
        }
        Ok(Check::holds("disk", format!("table, slots and DATA are what `{recipe}` gives, byte for byte")))
    }
}

/// The parts of two UKIs that are not the same, once the signatures are removed; none if all are.
fn parts_that_differ(signed: &[u8], rebuilt: &[u8]) -> Option<Vec<String>> {
    let mut plain = signed.to_vec();
    let detached = pe::detach(&mut plain);
    if detached.is_ok() && plain == rebuilt {
        return None;
    }
    let (Ok(one), Ok(other)) = (Image::parse(&plain), Image::parse(rebuilt)) else { return Some(vec!["the headers".to_owned()]) };
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
