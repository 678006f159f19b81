//! The time of an update, compared with `dd` of the same bytes on the same node over the same
//! network, and of boots from the old slot and from the new one.

use super::Row;
use crate::site::Site;
use crate::vm::probe::{self, free_port};
use crate::vm::slots::disk::{A, B, Slot, SlotDisk};
use crate::vm::update::lab::{Lab, Releases};
use crate::vm::update::server::Server;
use crate::vm::update::{DISK_MIB, NEW, NEXT, OLD, OPENED, TIMEOUT};
use osbuild::error::{Error, Result};
use osbuild_abi::console::{SLOT_GOOD, SLOTBOOT_STARTS};
use osbuild_slots::State;
use std::io::Write;
use std::time::{Duration, Instant};

/// Rounds of each copy. The fastest counts: in the first one the host allocates the disk.
const ROUNDS: usize = 3;

/// The aim for the updater, in tenths of `dd`'s time.
const TENTHS: u32 = 12;

/// A good slot, of this priority.
const fn good(priority: u8) -> State {
    State { priority, tries: 0, successful: true }
}

pub fn rows(site: &Site) -> Result<Vec<Row>> {
    let lab = Lab::new(site, "bench-update")?;
    let server = Server::start(site, &lab, 0)?;
    lab.write_recipe(OLD, Releases::Web(server.port()))?;
    lab.build()?;
    lab.keep_old()?;
    let disk = SlotDisk::of(site, lab.old(), lab.keys()?, "bench-update")?;
    let mut rows = update(&lab, &server, &disk)?;
    rows.extend(native(site)?);
    for (name, slot, first) in [("old", A, 3), ("new", B, 1)] {
        disk.set(A, good(first))?;
        disk.set(B, good(2))?;
        rows.push(Row::time(format!("power-on to the gate, {name} slot"), boot(&disk, slot)?));
    }
    Ok(rows)
}

/// The node finds the release, installs it, boots the other slot, and marks it as good.
fn update(lab: &Lab, server: &Server, disk: &SlotDisk) -> Result<Vec<Row>> {
    let port = free_port()?;
    let machine = disk.machine()?.disk_size(DISK_MIB).forward(port, probe::COPY);
    let mut node = machine.timeout(TIMEOUT).start()?;
    node.wait_for_line(SLOT_GOOD, &["SLOT-A"])?;
    lab.write_recipe(NEW, Releases::Web(server.port()))?;
    lab.build()?;
    let uki = lab.uki()?;
    let copies =
        (0..ROUNDS).map(|_| plain_copy(port, "SLOT-B", &uki)).collect::<Result<Vec<_>>>()?;
    let plain = copies.into_iter().min().unwrap_or_default();
    lab.release()?;
    node.wait_for(OPENED)?;
    let opened = Instant::now();
    node.wait_for(NEXT)?;
    let installed = opened.elapsed();
    node.wait_for_line(SLOTBOOT_STARTS, &["SLOT-B", NEW])?;
    let rebooted = opened.elapsed() - installed;
    node.wait_for_line(SLOT_GOOD, &["SLOT-B"])?;
    let became_good = opened.elapsed() - installed;
    node.power_off()?;
    Ok(vec![
        Row::size("update: the UKI", uki.len() as u64),
        Row::time("update: `dd` of the UKI from the network to the slot", plain),
        Row::time("update: fetched, verified, written", installed).below(plain * TENTHS / 10),
        Row::time("update: from then to the new slot's start", rebooted),
        Row::time("update: from then until that slot is good", became_good),
    ])
}

/// The times of the updater alone, and of `curl` into `dd`, on this machine's own processor.
fn native(site: &Site) -> Result<Vec<Row>> {
    let mut test = site.cargo()?;
    test.args([
        "test",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "pod-updater",
        "--test",
        "large",
        "--",
        "--nocapture",
    ]);
    let output = site.finish("bench-updater", &mut test)?.output;
    let time = |what: &str| {
        let seconds = output.lines().find_map(|line| line.split_once(what)?.1.parse().ok());
        seconds.map(Duration::from_secs_f64).ok_or_else(|| {
            Error::build("the updater's test does not print its duration").cause(&output)
        })
    };
    let mut rows = Vec::new();
    for line in ["the loopback", "1 Gbit/s"] {
        let (updated, copied) =
            (time(&format!("update by {line}: "))?, time(&format!("copy by {line}: "))?);
        rows.push(Row::time(
            format!("update: `curl` into `dd`, not emulated, over {line}"),
            copied,
        ));
        rows.push(
            Row::time(
                format!("update: fetched, verified, written, not emulated, over {line}"),
                updated,
            )
            .below(copied * TENTHS / 10),
        );
    }
    Ok(rows)
}

/// The time that the probe takes to write the bytes to a partition.
fn plain_copy(port: u16, partition: &str, bytes: &[u8]) -> Result<Duration> {
    let answer = probe::request(port, |stream| {
        writeln!(stream, "{partition}")?;
        stream.write_all(bytes)
    })?;
    let seconds =
        answer.parse().map_err(|_| Error::build("the probe cannot write a slot").cause(answer))?;
    Ok(Duration::from_secs_f64(seconds))
}

/// The time from power-on until the kubelet is healthy and the declared pods run.
fn boot(disk: &SlotDisk, slot: Slot) -> Result<Duration> {
    let mut node = disk.machine()?.timeout(TIMEOUT).start()?;
    node.wait_for_line(SLOTBOOT_STARTS, &[slot.name()])?;
    node.ready()?;
    let ready = node.progress().ready.unwrap_or_default();
    node.power_off()?;
    Ok(ready)
}
