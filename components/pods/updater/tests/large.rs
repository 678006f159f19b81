//! A release as large as a node's. How long this program takes to install it on this machine is
//! printed, and how long `curl` and `dd` take to put the same bytes there from the same server. On
//! a node in QEMU the emulated processor takes the time, for what real ones have instructions.

mod world;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use world::{Certified, Release, Web, World, uki};

/// Bytes of the root in the UKI, which make it as large as a node's.
const ROOT: usize = 64 << 20;

/// Bytes of the slot.
const ROOM: u64 = 128 << 20;

/// Bytes a second of a line of 1 Gbit/s, which is also what AWS gives a gp3 volume by default.
const GIGABIT: u64 = 125_000_000;

/// How often each is measured; the fastest counts, as whatever else the machine does only makes it
/// slower.
const ROUNDS: u32 = 3;

#[test]
fn a_release_as_large_as_a_nodes_is_installed() {
    let key = Certified::new(2020..2100);
    let root: Vec<u8> = (0..ROOT).map(|at| ((at * at) >> 9) as u8).collect();
    let node = key.signed(&uki(2, &root));
    for (rate, line) in [(None, "the loopback"), (Some(GIGABIT), "1 Gbit/s")] {
        let times: Vec<[f64; 2]> = (0..ROUNDS).map(|_| times(&key, &node, rate)).collect();
        let [updated, copied] =
            [0, 1].map(|at| times.iter().map(|times| times[at]).fold(f64::INFINITY, f64::min));
        println!("seconds to update by {line}: {updated:.3}");
        println!("seconds to copy by {line}: {copied:.3}");
    }
}

/// From the program's start until it says that the release is installed: fetched by HTTPS,
/// verified, written. And what `curl` and `dd` take.
fn times(key: &Certified, node: &[u8], rate: Option<u64>) -> [f64; 2] {
    let world = World::with_room(ROOM);
    key.enrolled(&world.firmware(), &[]);
    let release = Release::new(2);
    let boot = key.signed(&release.boot);
    let folder = world.publish(&Release { node: node.to_vec(), boot, ..release });
    let web = Web::start_with_rate(&folder, world.folder("web"), "127.0.0.1", rate);
    let slot = world.folder("slot");
    on_the_medium(&slot);
    let started = Instant::now();
    let said = world.run(&web.url(), web.authority().parent().unwrap());
    let updated = started.elapsed().as_secs_f64();
    assert_eq!(said, "2 is installed: the node reboots into it");
    let name = target(&folder);
    on_the_medium(&slot);
    let started = Instant::now();
    copy(&web, &format!("{}/targets/{name}", web.url()), &slot);
    let copied = started.elapsed().as_secs_f64();
    assert!(
        fs::read(&slot).unwrap().starts_with(node),
        "`curl` and `dd` have written something else"
    );
    [updated, copied]
}

/// What the file with the UKI is called in the repository.
fn target(repository: &Path) -> String {
    let names = fs::read_dir(repository.join("targets"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.into_iter().find(|name| name.ends_with("node.efi")).unwrap()
}

/// From the server to a slot that is a file, until it is on the medium.
fn copy(web: &Web, url: &str, slot: &Path) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--cacert"]).arg(web.authority()).arg(url);
    let mut curl = curl.stdout(Stdio::piped()).spawn().unwrap();
    let mut dd = Command::new("dd");
    dd.arg(format!("of={}", slot.display())).args([
        "bs=1M",
        "iflag=fullblock",
        "conv=fsync,notrunc",
        "status=none",
    ]);
    assert!(dd.stdin(curl.stdout.take().unwrap()).status().unwrap().success());
    assert!(curl.wait().unwrap().success());
}

/// Has nothing of this file left to be written, which the first flush of what is measured would
/// wait for.
fn on_the_medium(path: &Path) {
    fs::File::open(path).unwrap().sync_all().unwrap();
}
