//! The disk that a node leaves.

use super::data::{identifier, place};
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where ext4 counts how often it was mounted, in bytes: in the first sector of its superblock.
const MOUNTS: u64 = 1024 + 0x34;

/// A disk that `osbuild run --keep` has left, with the firmware's variables beside it. It goes when
/// nobody needs it.
pub struct Kept(PathBuf);

impl Kept {
    /// That of `recipe`. What an earlier check has left of it goes.
    pub fn of(site: &Site, recipe: &str) -> Self {
        Self::in_project(&site.project(), recipe)
    }

    /// The same of a recipe in another copy of the checkout.
    pub fn in_project(project: &Path, recipe: &str) -> Self {
        let kept = Kept(project.join("out").join(recipe).join("disk.raw"));
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
        found.insert(identifier(site, &image, place(&image)?.start)?);
        Ok(found)
    }

    /// Makes of the superblock of DATA what a power cut leaves when the disk has written the first
    /// one of its sectors: the mounts that it counts are new, its checksum is old.
    pub fn tear_superblock(&self) -> Result<()> {
        let cannot = || format!("cannot change `{}`", self.0.display());
        let disk = File::options().read(true).write(true).open(&self.0).or_build(cannot)?;
        let (place, mut mounts) = (place(&self.0)?.start + MOUNTS, [0; 2]);
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

fn identifiers_of_table(site: &Site, disk: &Path) -> Result<BTreeSet<String>> {
    let said = site.finish("sfdisk-of-disk", Command::new("sfdisk").arg("--dump").arg(disk))?.said;
    let words = said.lines().flat_map(|line| line.split([',', ' ']));
    let found: BTreeSet<String> = words
        .filter_map(|word| word.strip_prefix("uuid="))
        .chain(said.lines().filter_map(|line| line.strip_prefix("label-id: ")))
        .map(str::to_lowercase)
        .collect();
    if found.len() == 5 {
        Ok(found)
    } else {
        Err(Error::build("`sfdisk` does not find four partitions").cause(said))
    }
}
