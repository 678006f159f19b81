//! The node boots.

use crate::check::Verdict;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::{Error, Result};

/// Under UEFI the image boots until the kubelet is healthy and every declared pod runs; the DHCP pod has got the node its address.
pub fn boots_to_ready_with_an_address(site: &Site) -> Result<Verdict> {
    let ran =
        site.run("boots-to-ready", site.osbuild()?.args(["run", RECIPE, "--until", "ready", "--timeout", "300", "--yes"]))?;
    if ran.code != Some(0) {
        return Err(ran.failure("the node did not get ready"));
    }
    let summary = ran.said.lines().find(|line| line.starts_with("ready after "));
    let Some(summary) = summary else { return Err(ran.failure("`osbuild run` has no summary")) };
    // QEMU's user network gives the first machine this address.
    if !summary.contains("10.0.2.15/24") {
        return Err(Error::build("the node has no address from the DHCP pod").cause(summary));
    }
    Ok(Verdict::holds(summary))
}
