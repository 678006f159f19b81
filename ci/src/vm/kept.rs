//! The disk that a node leaves.

use crate::site::Site;
use osbuild::error::{Error, Result};
use osbuild::ship::inspect::{Partition, inspect};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A disk that `osbuild run --keep` has left, with the firmware's variables beside it. It goes when nobody needs it.
pub struct Kept(PathBuf);

impl Kept {
    /// That of `recipe`. What an earlier check has left of it goes.
    pub fn of(site: &Site, recipe: &str) -> Self {
        let kept = Kept(site.project().join("out").join(recipe).join("disk.raw"));
        kept.remove();
        kept
    }

    /// Copies DATA out of the disk: e2fsck replays a journal only in a file of its own.
    pub fn copy_data(&self, site: &Site, to: &Path) -> Result<()> {
        let data = self.data()?;
        let mut dd = dd(&self.0, to);
        dd.arg("conv=sparse").args([format!("skip={}", data.start >> 20), format!("count={}", data.size >> 20)]);
        site.finish("data-out", &mut dd).map(drop)
    }

    /// Puts DATA back into the disk.
    pub fn replace_data(&self, site: &Site, from: &Path) -> Result<()> {
        let mut dd = dd(from, &self.0);
        dd.arg("conv=notrunc").arg(format!("seek={}", self.data()?.start >> 20));
        site.finish("data-in", &mut dd).map(drop)
    }

    fn data(&self) -> Result<Partition> {
        let found = inspect(&self.0)?.disk;
        let data = found.into_iter().flat_map(|disk| disk.partitions).find(|partition| partition.purpose == "data");
        data.ok_or_else(|| Error::build("the kept disk has no DATA"))
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

/// Partitions start and end on whole MiB.
fn dd(from: &Path, to: &Path) -> Command {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", from.display())).arg(format!("of={}", to.display())).args(["bs=1M", "status=none"]);
    dd
}
