//! A release as large as a node's. How long this program takes to install it on this machine is printed, and how long `dd` takes to put the same
//! bytes there. On a node in QEMU the emulated processor takes the time, for what real ones have instructions.

mod world;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use world::{Certified, Release, Web, World, uki};

/// Bytes of the root in the UKI, which make it as large as a node's.
const ROOT: usize = 64 << 20;

/// Bytes of the slot.
const ROOM: u64 = 128 << 20;

/// How often each is measured; the fastest counts, as whatever else the machine does only makes it slower.
const ROUNDS: u32 = 3;

#[test]
fn a_release_as_large_as_a_nodes_is_installed() {
    let key = Certified::new(2020..2100);
    let root: Vec<u8> = (0..ROOT).map(|at| ((at * at) >> 9) as u8).collect();
    let node = key.signed(&uki(2, &root));
    let seconds = |measure: &dyn Fn() -> f64| (0..ROUNDS).map(|_| measure()).fold(f64::INFINITY, f64::min);
    println!("seconds to update: {:.3}", seconds(&|| update(&key, &node)));
    println!("seconds to copy: {:.3}", seconds(&|| copy(&node)));
}

/// From the program's start until it says that the release is installed: fetched by HTTPS, verified, written.
fn update(key: &Certified, node: &[u8]) -> f64 {
    let world = World::with_room(ROOM);
    key.enrolled(&world.firmware(), &[]);
    let release = Release::new(2);
    let boot = key.signed(&release.boot);
    let folder = world.publish(&Release { node: node.to_vec(), boot, ..release });
    let web = Web::start(&folder, world.folder("web"), "127.0.0.1");
    on_the_medium(&world.folder("slot"));
    let started = Instant::now();
    let said = world.run(&web.url(), web.authority().parent().unwrap());
    assert_eq!(said, "2 is installed: the node reboots into it");
    started.elapsed().as_secs_f64()
}

/// From a file to a slot that is a file, until it is on the medium.
fn copy(node: &[u8]) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    fs::write(&from, node).unwrap();
    fs::write(&to, vec![0; ROOM as usize]).unwrap();
    on_the_medium(&to);
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", from.display())).arg(format!("of={}", to.display()));
    let started = Instant::now();
    assert!(dd.args(["bs=1M", "conv=fsync,notrunc", "status=none"]).status().unwrap().success());
    started.elapsed().as_secs_f64()
}

/// Has nothing of this file left to be written, which the first flush of what is measured would wait for.
fn on_the_medium(path: &Path) {
    fs::File::open(path).unwrap().sync_all().unwrap();
}
