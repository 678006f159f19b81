//! The disk that a machine keeps from boot to boot.

use super::data::{identifier, place};
use crate::image::image_of;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Offset of `s_mnt_count` on an ext4 file system: the number of mounts, in the first sector of the
/// superblock.
const MOUNT_COUNT: u64 = 1024 + 0x34;

/// A disk that a machine keeps, with the firmware's variables beside it. It is in `out/ci`: the
/// disk in `out/RECIPE` is the one that `osbuild run --keep` keeps for a user. Dropping it removes
/// its files.
pub struct KeptDisk {
    path: PathBuf,
    image: PathBuf,
}

impl KeptDisk {
    /// The disk of a recipe's machine. What an earlier check left is removed.
    ///
    /// # Errors
    /// Its folder cannot be made.
    pub fn of(site: &Site, recipe: &str) -> Result<Self> {
        Self::in_project(&site.project(), recipe)
    }

    /// Like [`KeptDisk::of`], in another copy of the checkout.
    ///
    /// # Errors
    /// As of [`KeptDisk::of`].
    pub fn in_project(project: &Path, recipe: &str) -> Result<Self> {
        let folder = project.join("out/ci");
        fs::create_dir_all(&folder).or_build(|| format!("cannot make `{}`", folder.display()))?;
        let path = folder.join(format!("kept-{recipe}.raw"));
        let kept = KeptDisk { path, image: image_of(project, recipe) };
        kept.remove();
        Ok(kept)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The GUIDs of the disk and of its partitions, as `sfdisk` reads them.
    pub fn identifiers(&self, site: &Site) -> Result<BTreeSet<String>> {
        identifiers_of_table(site, &self.path)
    }

    /// The GUIDs of the image and of its partitions, and the UUID of the file system on its DATA.
    pub fn identifiers_of_image(&self, site: &Site) -> Result<BTreeSet<String>> {
        let mut found = identifiers_of_table(site, &self.image)?;
        found.insert(identifier(site, &self.image, place(&self.image)?.start)?);
        Ok(found)
    }

    /// Tears the superblock of DATA as a power cut does between its two sectors: the number of
    /// mounts is new, the checksum is old.
    pub fn tear_superblock(&self) -> Result<()> {
        let cannot = || format!("cannot change `{}`", self.path.display());
        let disk = File::options().read(true).write(true).open(&self.path).or_build(cannot)?;
        let (offset, mut mounts) = (place(&self.path)?.start + MOUNT_COUNT, [0; 2]);
        disk.read_exact_at(&mut mounts, offset).or_build(cannot)?;
        let mounts = u16::from_le_bytes(mounts).wrapping_add(1);
        disk.write_all_at(&mounts.to_le_bytes(), offset).or_build(cannot)
    }

    fn remove(&self) {
        for extension in ["raw", "variables", "origin"] {
            // It may not exist.
            let _ = fs::remove_file(self.path.with_extension(extension));
        }
    }
}

impl Drop for KeptDisk {
    fn drop(&mut self) {
        self.remove();
    }
}

fn identifiers_of_table(site: &Site, disk: &Path) -> Result<BTreeSet<String>> {
    let mut sfdisk = Command::new("sfdisk");
    let output = site.finish("sfdisk-of-disk", sfdisk.arg("--dump").arg(disk))?.output;
    let words = output.lines().flat_map(|line| line.split([',', ' ']));
    let found: BTreeSet<String> = words
        .filter_map(|word| word.strip_prefix("uuid="))
        .chain(output.lines().filter_map(|line| line.strip_prefix("label-id: ")))
        .map(str::to_lowercase)
        .collect();
    if found.len() == 5 {
        Ok(found)
    } else {
        Err(Error::build("`sfdisk` does not find four partitions").cause(output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::RECIPE;

    #[test]
    fn a_disk_that_a_user_keeps_stays() {
        let project = tempfile::tempdir().unwrap();
        let out = project.path().join("out").join(RECIPE);
        fs::create_dir_all(&out).unwrap();
        let of_user = ["raw", "variables", "origin"].map(|kind| out.join(format!("disk.{kind}")));
        of_user.iter().for_each(|file| fs::write(file, "of a user").unwrap());
        let kept = KeptDisk::in_project(project.path(), RECIPE).unwrap();
        let path = kept.path().to_owned();
        fs::write(&path, "of a check").unwrap();
        drop(kept);
        assert!(!path.exists());
        for file in of_user {
            assert_eq!(fs::read_to_string(file).unwrap(), "of a user");
        }
    }
}
