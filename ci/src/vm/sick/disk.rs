//! DATA that is full, and a CNI configuration that containerd cannot read. What another program has
//! written there is beyond `osctl`, but for a reset.

use super::desk::Desk;
use super::memory;
use crate::vm::node::NodeUnderTest;
use crate::vm::probe;
use crate::vm::settings::Lab;
use crate::vm::settings::remote::is_known_by_its_fingerprint;
use osbuild::error::{Error, Result};
use serde_json::Value;
use std::io::Write;

/// The file that uses the space up.
const FILE: &str = "var/lib/kubelet/filler";
/// The share of DATA in percent that it leaves.
const LEFT: u64 = 3;
/// A configuration that is cut off.
const CNI: (&str, &str) = ("etc/cni/net.d/00-broken.conflist", "{\"cniVersion\": \"1.0.0\", ");

const RESET: &str = "init: reset: ";
const SERVES: &str = "serves the node API as";
const PROBLEM: &str = "DATA: ";

pub fn is_filled(lab: &Lab) -> Result<()> {
    let (path, text) = CNI;
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(text.len() as u64);
    let packed = archive.append_data(&mut header, path, text.as_bytes());
    let archive = packed.and_then(|()| archive.into_inner());
    let archive = archive.map_err(|error| Error::build(format!("cannot pack {path}: {error}")))?;
    probe::command(lab.node.places, |stream| stream.write_all(&archive))?;
    let usage: Value = serde_json::from_str(&lab.osctl.finish(&["top", "-o", "json"])?)
        .map_err(|_| Error::build("osctl has printed no JSON"))?;
    let bytes = |name: &str| {
        let value = &usage["usage"]["data"][name];
        value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default()
    };
    let size = bytes("freeBytes").saturating_sub(bytes("bytes") / 100 * LEFT);
    memory::fill(lab, FILE, size >> 20 << 20)
}

pub fn is_found(desk: &mut Desk, when: &str) -> Result<()> {
    desk.finds(&format!("full disk {when}"), &["status"], &[PROBLEM])?;
    desk.run(&["top", "--rows", "3"])?;
    let log = ["logs", "containerd"];
    desk.finds(&format!("CNI broken {when}"), &log, &["cni", "00-broken.conflist"])
}

/// The node keeps nothing, and is a new one.
pub fn is_emptied(lab: &Lab, running: &mut NodeUnderTest, desk: &mut Desk) -> Result<()> {
    desk.run(&["reset", "--yes"])?;
    // Until then, the console has the line of the boot before.
    running.wait_for_line(RESET, &["emptied DATA"])?;
    running.wait_for(SERVES)?;
    lab.osctl.finish(&["node", "remove", "vm"])?;
    is_known_by_its_fingerprint(&lab.osctl, running, &mut desk.outcome)?;
    desk.misses("full disk", &["status"], &[PROBLEM, "no address", "gateway"])?;
    desk.misses("CNI broken", &["logs", "containerd"], &["00-broken.conflist"])
}
