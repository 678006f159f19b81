//! What cannot boot says why.

use crate::check::Verdict;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::{Architecture, Qemu};
use osbuild::ship::machine::{Bus, Download};
use osbuild::ship::run::{RunOptions, Until, run};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// A disk with nothing to boot is told from a node that is slow: at once, with the firmware's own words.
pub fn an_empty_disk_is_an_error_that_says_why(site: &Site) -> Result<Verdict> {
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let image = folder.path().join("empty.raw");
    File::create(&image).and_then(|file| file.set_len(64 << 20)).or_build(|| "cannot make an empty disk".to_owned())?;
    let error = match run(site.report, &options(&image, folder.path(), &site.machine)) {
        Ok(_) => return Err(Error::build("an empty disk became a node")),
        Err(error) => error,
    };
    let log = error.problems[0].log.as_ref().is_some_and(|log| log.lines.iter().any(|line| line.contains("BdsDxe")));
    if log && error.to_string().contains("the firmware could start nothing on the disk") {
        return Ok(Verdict::holds(""));
    }
    Err(Error::build("the error does not say that there is nothing to boot").cause(error))
}

fn options(image: &Path, folder: &Path, cache: &Path) -> RunOptions {
    RunOptions {
        image: image.to_owned(),
        architecture: Architecture::Amd64,
        qemu: Qemu { machine: "q35".into(), cpu: "max".into(), memory_mib: 256, cpus: 1 },
        bus: Bus::VirtioBlk,
        sector_size: 512,
        firmware: None,
        download: Download::Refused,
        disk_size_mib: None,
        keep: None,
        forwards: Vec::new(),
        until: Until::Ready,
        timeout: Some(Duration::from_secs(120)),
        show_console: false,
        log: folder.join("console.log"),
        cache: cache.to_owned(),
    }
}
