//! The disk that a node leaves.

use crate::site::Site;
use osbuild::error::{Error, Result};
use osbuild::ship::inspect::inspect;
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
        let found = inspect(&self.0)?.disk;
        let data = found.iter().flat_map(|disk| &disk.partitions).find(|partition| partition.purpose == "data");
        let data = data.ok_or_else(|| Error::build("the kept disk has no DATA"))?;
        let mut dd = Command::new("dd");
        dd.arg(format!("if={}", self.0.display())).arg(format!("of={}", to.display()));
        dd.args(["bs=1M", "conv=sparse", "status=none"]);
        dd.args([format!("skip={}", data.start >> 20), format!("count={}", data.size >> 20)]);
        site.finish("data-after-power-cuts", &mut dd).map(drop)
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
