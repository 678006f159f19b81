//! The disk that a node leaves.

use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild::ship::inspect::{Partition, inspect};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where ext4 counts how often it was mounted, in bytes: in the first sector of its superblock.
const MOUNTS: u64 = 1024 + 0x34;

/// A disk that `osbuild run --keep` has left, with the firmware's variables beside it. It goes when nobody needs it.
pub struct Kept(PathBuf);

impl Kept {
    /// That of `recipe`. What an earlier check has left of it goes.
    pub fn of(site: &Site, recipe: &str) -> Self {
        let kept = Kept(site.project().join("out").join(recipe).join("disk.raw"));
        kept.remove();
        kept
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What `sfdisk` finds: the GUIDs of the disk and of its partitions.
    pub fn identifiers(&self, site: &Site) -> Result<BTreeSet<String>> {
        identifiers_of_table(site, &self.0)
    }

    /// The same of the image, and that of the file system on its DATA.
    pub fn identifiers_of_image(&self, site: &Site) -> Result<BTreeSet<String>> {
        let image = self.0.with_file_name("image.raw");
        let mut found = identifiers_of_table(site, &image)?;
        found.insert(identifier_of_data(site, &image, data(&image)?.start)?);
        Ok(found)
    }

    /// Copies DATA out of the disk.
    pub fn copy_data(&self, site: &Site, to: &Path) -> Result<()> {
        copy_data(site, &self.0, to)
    }

    /// Puts DATA back into the disk.
    pub fn replace_data(&self, site: &Site, from: &Path) -> Result<()> {
        let mut dd = dd(from, &self.0);
        dd.arg("conv=notrunc").arg(format!("seek={}", data(&self.0)?.start >> 20));
        site.finish("data-in", &mut dd).map(drop)
    }

    /// Makes of the superblock of DATA what a power cut leaves when the disk has written the first one of its sectors: the mounts that it
    /// counts are new, its checksum is old.
    pub fn tear_superblock(&self) -> Result<()> {
        let cannot = || format!("cannot change `{}`", self.0.display());
        let disk = File::options().read(true).write(true).open(&self.0).or_build(cannot)?;
        let (place, mut mounts) = (data(&self.0)?.start + MOUNTS, [0; 2]);
        disk.read_exact_at(&mut mounts, place).or_build(cannot)?;
        let mounts = u16::from_le_bytes(mounts).wrapping_add(1);
        disk.write_all_at(&mounts.to_le_bytes(), place).or_build(cannot)
    }

    fn remove(&self) {
        for path in [self.0.clone(), self.0.with_extension("variables")] {
            // It may not be there.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.remove();
    }
}

fn data(disk: &Path) -> Result<Partition> {
    let found = inspect(disk)?.disk;
    let data = found.into_iter().flat_map(|disk| disk.partitions).find(|partition| partition.purpose == "data");
    data.ok_or_else(|| Error::build("the disk has no DATA").cause(disk.display()))
}

/// Copies DATA out of a disk: e2fsck replays a journal only in a file of its own.
pub fn copy_data(site: &Site, disk: &Path, to: &Path) -> Result<()> {
    let data = data(disk)?;
    let mut dd = dd(disk, to);
    dd.arg("conv=sparse").args([format!("skip={}", data.start >> 20), format!("count={}", data.size >> 20)]);
    site.finish("data-out", &mut dd).map(drop)
}

/// Replays the journal of a copy of DATA, without which debugfs sees old folders or opens nothing at all, and checks all.
pub fn check_data(site: &Site, data: &Path) -> Result<()> {
    let checked = site.run("e2fsck-of-data", Command::new("e2fsck").args(["-f", "-p"]).arg(data))?;
    // 1: what `-p` may do by itself was done.
    if matches!(checked.code, Some(0 | 1)) { Ok(()) } else { Err(checked.failure("DATA is damaged")) }
}

/// What `debugfs` finds in a file of a copy of DATA that was checked.
pub fn read_data(site: &Site, data: &Path, path: &str) -> Result<String> {
    Ok(site.finish("file-of-data", Command::new("debugfs").args(["-R", &format!("cat {path}")]).arg(data))?.said)
}

/// What `blkid` finds: the UUID of a file system, so many bytes into a file.
pub fn identifier_of_data(site: &Site, path: &Path, offset: u64) -> Result<String> {
    let mut blkid = Command::new("blkid");
    blkid.args(["--probe", "--match-tag", "UUID", "--output", "value", "--offset", &offset.to_string()]).arg(path);
    Ok(site.finish("blkid-of-data", &mut blkid)?.said.trim().to_owned())
}

fn identifiers_of_table(site: &Site, disk: &Path) -> Result<BTreeSet<String>> {
    let said = site.finish("sfdisk-of-disk", Command::new("sfdisk").arg("--dump").arg(disk))?.said;
    let words = said.lines().flat_map(|line| line.split([',', ' ']));
    let found: BTreeSet<String> = words
        .filter_map(|word| word.strip_prefix("uuid="))
        .chain(said.lines().filter_map(|line| line.strip_prefix("label-id: ")))
        .map(str::to_lowercase)
        .collect();
    if found.len() == 5 { Ok(found) } else { Err(Error::build("`sfdisk` does not find four partitions").cause(said)) }
}

/// Partitions start and end on whole MiB.
fn dd(from: &Path, to: &Path) -> Command {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", from.display())).arg(format!("of={}", to.display())).args(["bs=1M", "status=none"]);
    dd
}
