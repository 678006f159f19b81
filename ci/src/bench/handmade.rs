//! A hand-made node with the same programs, measured in the same run for comparison: the root is
//! one compressed cpio archive, PID 1 is a shell script, and there is no firmware, disk or network.

use crate::child::tied;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::engine::stop;
use osbuild::error::{Context, Error, Result};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// PID 1.
const INIT: &str = include_str!("handmade/init.sh");

/// The line that PID 1 prints when a pod has written its first line.
const FIRST_LINE: &str = "handmade: a pod has written a line";
/// How long the node may take to print it.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How often the user's wish to stop is looked for.
const INTERVAL: Duration = Duration::from_millis(100);

/// Makes `root.cpio.zst` and `kernel` from the products of the last build.
const ASSEMBLE: &str = "\
cpio --extract --make-directories --quiet --file \"$1/initramfs.cpio\" 'layers/*'
for layer in layers/*; do fsck.erofs --extract=root --overwrite \"$layer\" >/dev/null; done
cp /bin/busybox root/busybox
cp init.sh root/init
chmod 755 root/init
(cd root && find . | cpio --create --format=newc --quiet) | zstd -q -10 -T0 -o root.cpio.zst
objcopy --dump-section .linux=kernel \"$1/node.efi\" copy.efi";

/// The time from power-on until a pod has written its first line.
pub fn first_pod(site: &Site) -> Result<Duration> {
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    fs::write(folder.path().join("init.sh"), INIT).or_build(|| "cannot write PID 1".to_owned())?;
    let out = site.project().join("out").join(RECIPE);
    let mut assemble = Command::new("sh");
    assemble.args(["-euc", ASSEMBLE, "sh"]).arg(out).current_dir(folder.path());
    site.finish("bench-handmade", &mut assemble)?;
    boot(folder.path())
}

fn boot(folder: &Path) -> Result<Duration> {
    let mut qemu = tied("qemu-system-x86_64");
    qemu.args([
        "-machine",
        "q35",
        "-cpu",
        "max",
        "-accel",
        "tcg,thread=multi",
        "-smp",
        "2",
        "-m",
        "2048",
        "-nographic",
    ]);
    qemu.args(["-no-reboot", "-nic", "none", "-kernel", "kernel", "-initrd", "root.cpio.zst"]);
    qemu.args(["-append", "console=ttyS0 rootfstype=ramfs loglevel=5 no_timer_check"]);
    let started = Instant::now();
    let mut machine = qemu
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .or_build(|| "cannot start QEMU".to_owned())?;
    let console = BufReader::new(machine.stdout.take().expect("stdout is piped"));
    let (sender, lines) = channel();
    thread::spawn(move || {
        let mut lines = console.lines().map_while(|line| line.ok());
        // The receiver goes when the time is over.
        let _ = sender.send(lines.any(|line| line.contains(FIRST_LINE)));
    });
    let printed = loop {
        match lines.recv_timeout(INTERVAL) {
            Err(RecvTimeoutError::Timeout)
                if started.elapsed() < TIMEOUT && stop::check().is_ok() => {}
            printed => break printed == Ok(true),
        }
    };
    let time = started.elapsed();
    // It may have ended already.
    let _ = machine.kill();
    machine.wait().or_build(|| "cannot wait for QEMU".to_owned())?;
    stop::check()?;
    match printed {
        true => Ok(time),
        false if time >= TIMEOUT => {
            Err(Error::build(format!("no pod of the hand-made node wrote a line in {TIMEOUT:?}")))
        }
        false => Err(Error::build("the hand-made node ended before a pod wrote a line")),
    }
}
