//! Installs a release as large as a node's. Prints how long the updater takes on this machine, and
//! how long `curl` and `dd` take to copy the same bytes from the same server. On a node in QEMU the
//! emulation of cryptographic instructions would dominate.

mod world;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use world::{Certified, Release, Web, World, uki};

/// Bytes of the root in the UKI, as many as a node's.
const ROOT: usize = 64 << 20;

/// Bytes of the slot.
const SLOT_SIZE: u64 = 128 << 20;

/// Bytes per second of 1 Gbit/s, which is also the default throughput of an AWS gp3 volume.
const GIGABIT: u64 = 125_000_000;

/// How often each is measured. The fastest counts: other work on the machine only adds time.
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
        println!("seconds to update over {line}: {updated:.3}");
        println!("seconds to copy over {line}: {copied:.3}");
    }
}

/// Seconds from the program's start until it prints that the release is installed (fetched over
/// HTTPS, verified, written), and seconds that `curl` and `dd` take.
fn times(key: &Certified, node: &[u8], rate: Option<u64>) -> [f64; 2] {
    let world = World::with_slot_size(SLOT_SIZE);
    key.enrolled(&world.firmware(), &[]);
    let release = Release::new(2);
    let boot = key.signed(&release.boot);
    let folder = world.publish(&Release { node: node.to_vec(), boot, ..release });
    let web = Web::start_with_rate(&folder, world.folder("web"), "127.0.0.1", rate);
    let slot = world.folder("slot");
    flush(&slot);
    let started = Instant::now();
    let line = world.run(&web.url(), web.authority().parent().unwrap());
    let updated = started.elapsed().as_secs_f64();
    assert_eq!(line, "2 is installed: the node reboots into it");
    let name = target(&folder);
    flush(&slot);
    let started = Instant::now();
    copy(&web, &format!("{}/targets/{name}", web.url()), &slot);
    let copied = started.elapsed().as_secs_f64();
    assert!(fs::read(&slot).unwrap().starts_with(node), "`curl` and `dd` wrote other bytes");
    [updated, copied]
}

/// The name of the UKI's file in the repository.
fn target(repository: &Path) -> String {
    let names = fs::read_dir(repository.join("targets"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.into_iter().find(|name| name.ends_with("node.efi")).unwrap()
}

/// Copies from the server to the slot's file, until the bytes are on the medium.
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

/// Flushes the file, so that the first flush of a measurement does not wait for earlier writes.
fn flush(path: &Path) {
    fs::File::open(path).unwrap().sync_all().unwrap();
}
