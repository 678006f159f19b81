//! `osbuild flash` on loop devices. None of these tests names a disk that it has not made.

use crate::builds::done;
use crate::loops::{Loop, MIB, is_littered, litter, part, run, tool};
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::terminal::on_a_terminal;
use crate::workshop::open_with;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Makes DATA with non-zero bytes at distant offsets.
const DATA: &str = r#"data() {
    truncate -s "${SIZE_MIB}M" data.ext4
    for at in 0 1 2 3 50 51 100 158; do
        dd if=/usr/bin/busybox of=data.ext4 bs=64k count=16 \
            seek=$((at * 16)) conv=notrunc 2>/dev/null
    done
}"#;

/// Makes DATA that takes some time to write.
const MUCH_DATA: &str = r#"data() {
    truncate -s "${SIZE_MIB}M" data.ext4
    at=0
    while [ $at -lt 150 ]; do
        dd if=/usr/bin/busybox of=data.ext4 bs=64k count=16 \
            seek=$((at * 16)) conv=notrunc 2>/dev/null
        at=$((at + 1))
    done
}"#;

/// A project whose image has this sector size in bytes.
fn project(sector_size: u32, data: &str) -> Scratch {
    let scratch = open_with(&format!("{data}\n"));
    if sector_size == 4096 {
        scratch.edit("boards/bench.toml", "sector-size = 512", "sector-size = 4096");
        scratch.edit("boards/bench.toml", "esp-size-mib = 34", "esp-size-mib = 260");
        scratch.relock();
    }
    scratch
}

/// A project, and a disk for its image.
fn with_disk(data: &str) -> (Scratch, Loop) {
    (project(512, data), Loop::new(400 * MIB, 512))
}

fn image(scratch: &Scratch) -> PathBuf {
    scratch.project().join("out").join(RECIPE).join("image.raw")
}

/// Flashes a fixed disk, which must be named twice.
fn flash(scratch: &Scratch, device: &str) -> Ran {
    scratch.osbuild(&["flash", RECIPE, "--device", device, "--device", device])
}

/// The GUIDs of the disk and of each partition from sgdisk, which must accept the table.
fn identifiers(device: &str) -> Vec<String> {
    let verified = run(tool("sgdisk").args(["--verify", device]));
    assert!(verified.contains("No problems found") && !verified.contains("Caution"), "{verified}");
    let guid = |listing: &str, key: &str| {
        let line = listing
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap_or_else(|| panic!("no {key} in {listing}"));
        line.trim().to_owned()
    };
    let disk = guid(&run(tool("sgdisk").args(["--print", device])), "Disk identifier (GUID):");
    let partition = |number| {
        guid(
            &run(tool("sgdisk").args([&format!("--info={number}"), device])),
            "Partition unique GUID:",
        )
    };
    [disk].into_iter().chain((1..=4).map(partition)).collect()
}

/// The first byte and the end of each partition from sfdisk.
fn places(device: &str, sector_size: u64) -> Vec<(u64, u64)> {
    let dump = run(tool("sfdisk").args(["--dump", device]));
    let number = |line: &str, key: &str| -> Option<u64> {
        line.split(key).nth(1)?.split(',').next()?.trim().parse().ok()
    };
    let place = |line: &str| {
        let start = number(line, "start=")? * sector_size;
        Some((start, start + number(line, "size=")? * sector_size))
    };
    dump.lines().filter_map(place).collect()
}

/// Asserts that everything between the two copies of the table equals the image.
#[track_caller]
fn holds_image(disk: &Loop, scratch: &Scratch) {
    let size = image(scratch).metadata().unwrap().len();
    for start in (MIB..size - MIB).step_by(MIB as usize) {
        assert!(
            disk.read(start, MIB) == part(&image(scratch), start, MIB),
            "{} differs after byte {start}",
            disk.device
        );
    }
}

#[test]
fn a_flashed_disk_has_the_image_and_a_table_with_its_own_identifiers() {
    for sector_size in [512, 4096] {
        let scratch = project(sector_size, DATA);
        // Its size is not a multiple of the alignment.
        let disk = Loop::new(1000 * MIB + 12 * 4096, sector_size);
        let ran = flash(&scratch, &disk.device);
        done(&ran);
        assert_eq!(ran.stdout, format!("{}\n", disk.device));
        holds_image(&disk, &scratch);
        let own = identifiers(&disk.device);
        let of_image = Loop::of(image(&scratch), sector_size);
        let given = identifiers(&of_image.device);
        assert!(own.iter().zip(&given).all(|(own, given)| own != given), "{own:?} {given:?}");
        let (ours, theirs) = (
            places(&disk.device, sector_size.into()),
            places(&of_image.device, sector_size.into()),
        );
        assert_eq!(ours[..3], theirs[..3]);
        assert_eq!(
            (ours[3].0, ours[3].1),
            (theirs[3].0, 1000 * MIB),
            "DATA ends where the disk does"
        );
        // No bytes of the earlier owner are left beside the table.
        let end = disk.read(999 * MIB + 12 * 4096, MIB);
        assert!(!is_littered(&end) && !is_littered(&disk.read(0, MIB)));
        done(&flash(&scratch, &disk.device));
        let again = identifiers(&disk.device);
        assert!(
            again.iter().zip(&own).all(|(again, own)| again != own),
            "two disks from one image have the same identifiers"
        );
    }
}

#[test]
fn zeros_are_written_to_a_disk_without_write_zeroes() {
    let scratch = project(512, DATA);
    let folder = tempfile::tempdir().unwrap();
    // A file on ramfs cannot have holes, so its device supports only reads and writes. The mount is
    // private, and lives as long as the device.
    let script = "mount -t ramfs none \"$1\" && truncate -s 400M \"$1/disk\" && losetup --find \
                  --show \"$1/disk\"";
    let device =
        run(tool("unshare").args(["--mount", "sh", "-c", script, "sh"]).arg(folder.path()))
            .trim()
            .to_owned();
    let disk = Loop::adopted(device);
    let most = format!(
        "/sys/block/{}/queue/write_zeroes_max_bytes",
        disk.device.trim_start_matches("/dev/")
    );
    assert_eq!(fs::read_to_string(most).unwrap().trim(), "0");
    let file = File::options().write(true).open(&disk.device).unwrap();
    litter(&file, 400 * MIB);
    file.sync_all().unwrap();
    drop(file);
    done(&flash(&scratch, &disk.device));
    holds_image(&disk, &scratch);
    identifiers(&disk.device);
}

#[test]
fn a_fixed_disk_is_refused_with_its_contents_unless_named_twice() {
    let (scratch, disk) = with_disk(DATA);
    run(tool("mke2fs").args(["-q", "-F", "-t", "ext4", "-L", "photos", &disk.device]));
    let before = disk.read(0, 400 * MIB);
    let ran = scratch.osbuild(&["flash", RECIPE, "--device", &disk.device]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    let device = &disk.device;
    let expected = format!(
        "error: `{device}` is a fixed disk\n  caused by: its contents: ext4 `photos`\nhint: \
         to erase it, name it twice: `--device {device} --device {device}`\n"
    );
    assert_eq!(ran.stderr, expected);
    assert!(!image(&scratch).exists(), "it is refused before the image is built");
    assert!(disk.read(0, 400 * MIB) == before);
}

#[test]
fn a_mounted_disk_and_the_systems_disk_are_refused() {
    let (scratch, disk) = with_disk(DATA);
    run(tool("mke2fs").args(["-q", "-F", "-t", "ext4", &disk.device]));
    let before = disk.read(0, 400 * MIB);
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display().to_string();
    for (place, expected) in [
        (place.as_str(), format!("is mounted: `{place}`")),
        ("/boot", "has this machine's own system: `/boot`".into()),
    ] {
        // Only the program sees the mount.
        let script = "mount -o ro,noload \"$1\" \"$2\" && shift 2 && exec \"$@\"";
        let before = ["unshare", "--mount", "sh", "-c", script, "sh", &disk.device, place];
        let ran =
            Ran::of(&mut scratch.command(&before, &["flash", RECIPE, "--device", &disk.device]));
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("`{}` {expected}", disk.device)), "{}", ran.stderr);
    }
    assert!(disk.read(0, 400 * MIB) == before);
}

#[test]
fn a_disk_in_exclusive_use_is_refused_even_if_named_twice() {
    let (scratch, disk) = with_disk(DATA);
    let before = disk.read(0, 400 * MIB);
    let held = rustix::fs::open(
        &*disk.device,
        rustix::fs::OFlags::EXCL | rustix::fs::OFlags::RDONLY,
        rustix::fs::Mode::empty(),
    );
    let ran = flash(&scratch, &disk.device);
    drop(held.unwrap());
    assert!(
        ran.code == Some(2)
            && ran.stderr.contains(&format!("error: `{}` is in use\n", disk.device)),
        "{}",
        ran.stderr
    );
    assert!(disk.read(0, 400 * MIB) == before);
}

#[test]
fn naming_a_disk_twice_does_not_override_its_size_or_sector_size() {
    let scratch = project(512, DATA);
    let small = Loop::new(227 * MIB, 512);
    let ran = flash(&scratch, &small.device);
    assert_eq!(ran.code, Some(2));
    let expected = format!(
        "error: `{}` is too small for the image of `small`\n  caused by: it has 238.0 MB, the \
         image needs 239.1 MB\n",
        small.device
    );
    assert_eq!(ran.stderr, expected);
    let large = Loop::new(400 * MIB, 4096);
    let ran = flash(&scratch, &large.device);
    assert_eq!(ran.code, Some(2));
    let expected = format!(
        "error: `{}` has sectors of 4096 bytes, but the image of `small` is made for 512\nhint: \
         set `sector-size = 4096` in \
         `boards/bench.toml`, or in a board that inherits it, with `esp-size-mib` of 257 or more\n",
        large.device
    );
    assert_eq!(ran.stderr, expected);
}

#[test]
fn a_device_that_is_not_one_whole_disk_is_refused() {
    let scratch = project(512, DATA);
    let [one, other] = [512, 512].map(|sector_size| Loop::new(400 * MIB, sector_size));
    run(tool("sgdisk").args(["--clear", "--new=1:0:0", &one.device]));
    run(tool("partx").args(["--add", &one.device]));
    let partition = format!("{}p1", one.device);
    let refused = |devices: &[&str]| {
        let named: Vec<&str> = devices.iter().flat_map(|device| ["--device", device]).collect();
        let ran = scratch.osbuild(&[&["flash", RECIPE], &named[..]].concat());
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        ran.stderr
    };
    let output = refused(&[&partition, &partition]);
    run(tool("partx").args(["--delete", &one.device]));
    assert!(
        output.contains("is a partition") && output.contains(&format!("`--device {}`", one.device)),
        "{output}"
    );
    assert!(refused(&["/dev/null"]).starts_with("error: `/dev/null` is not a disk\n"));
    assert!(refused(&[&one.device, &other.device]).contains("are two disks"));
}

#[test]
fn without_a_device_only_the_disks_that_fit_are_listed() {
    let (scratch, disk) = with_disk(DATA);
    let ran = scratch.osbuild(&["flash", RECIPE]);
    done(&ran);
    assert!(!ran.stdout.contains(&disk.device), "a fixed disk is not offered: {}", ran.stdout);
    assert!(
        ran.stderr.contains(&format!("not offered: `{}` is a fixed disk (", disk.device)),
        "{}",
        ran.stderr
    );
    let json = scratch.osbuild(&["flash", RECIPE, "--json"]);
    let disks: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert!(disks.as_array().unwrap().iter().all(|disk| disk["is-removable"] == true), "{disks}");
}

#[test]
fn after_a_power_cut_a_disk_has_no_table_and_can_be_flashed_again() {
    let (scratch, disk) = with_disk(MUCH_DATA);
    done(&scratch.osbuild(&["build", RECIPE]));
    run(tool("sgdisk").args(["--new=1:0:0", &disk.device]));
    let mut cut_short = 0;
    for delay in [0, 10, 30, 60, 90] {
        let mut command = scratch
            .command(&[], &["flash", RECIPE, "--device", &disk.device, "--device", &disk.device]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The first write removes the table.
        while disk.read(512, 8) == *b"EFI PART" && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
        if run(tool("sfdisk").args(["--list", &disk.device])).contains("Disklabel type: gpt") {
            // The flash finished before the kill. The next round needs a table to remove.
            identifiers(&disk.device);
        } else {
            cut_short += 1;
            run(tool("wipefs").args(["--all", "--quiet", &disk.device]));
            run(tool("sgdisk").args(["--new=1:0:0", &disk.device]));
        }
    }
    assert!(cut_short > 0, "no cut interrupted a write");
    done(&flash(&scratch, &disk.device));
    holds_image(&disk, &scratch);
    identifiers(&disk.device);
}

#[test]
fn a_progress_bar_shows_the_rate_and_the_time_left() {
    let (scratch, disk) = with_disk(MUCH_DATA);
    let shown =
        on_a_terminal(&scratch, &format!("flash {RECIPE} --device {0} --device {0}", disk.device));
    // On a fast machine a step may end before its bar is drawn twice.
    for step in ["write", "read back"] {
        let mut bars =
            shown.split(['\r', '\n']).filter(|line| line.contains(&format!(" {step:28} ")));
        assert!(
            bars.any(|bar| bar.contains(" MB ") && bar.contains("B/s ") && bar.contains(" left ")),
            "{step}: {shown:?}"
        );
    }
}

/// Makes DATA after enough time to replace the disk.
const SLOW_DATA: &str = r#"data() { sleep 8; truncate -s "${SIZE_MIB}M" data.ext4; }"#;

#[test]
fn a_disk_replaced_during_the_build_is_not_written() {
    let (scratch, disk) = (project(512, SLOW_DATA), Loop::replaceable(400 * MIB));
    let other = disk.file.with_file_name("other");
    let file = File::create(&other).unwrap();
    file.set_len(400 * MIB).unwrap();
    litter(&file, 400 * MIB);
    let before = part(&other, 0, 400 * MIB);
    let flashing = scratch
        .command(&[], &["flash", RECIPE, "--device", &disk.device, "--device", &disk.device]);
    let mut flashing = flashing;
    let child = flashing.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The disk is checked before the build.
    let logs = scratch.project().join("out").join(RECIPE).join("logs");
    while !logs.is_dir() {
        std::thread::sleep(Duration::from_millis(5));
    }
    disk.replace(&other);
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{}", ran.stderr);
    assert!(
        ran.stderr.contains(&format!(
            "error: `{}` is not the disk that was named\n  caused by: named: 419.4 MB, sequence \
            number ",
            disk.device
        )),
        "{}",
        ran.stderr
    );
    assert!(image(&scratch).exists(), "there was no time to replace the disk");
    assert!(part(&other, 0, 400 * MIB) == before);
    done(&flash(&scratch, &disk.device));
}

#[test]
fn a_disk_smaller_than_it_claims_is_left_without_a_table() {
    let (mut scratch, disk) = with_disk(DATA);
    done(&scratch.osbuild(&["build", RECIPE]));
    let library = scratch.path("small_stick.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/small_stick.c");
    run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl"));
    scratch.set("LD_PRELOAD", library.display().to_string());
    // The image fits the real capacity. Writes past it wrap around to a non-zero part of DATA,
    // which only the backup table overwrites: the last MiB of the disk reads back correctly.
    let (start, end) = ((67 + 50) * MIB, (67 + 50) * MIB + 8192);
    scratch.set("CAPACITY", (400 * MIB - end).to_string());
    let ran = flash(&scratch, &disk.device);
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    let at: u64 = ran
        .stderr
        .split("it differs at byte ")
        .nth(1)
        .and_then(|rest| rest.lines().next()?.parse().ok())
        .unwrap();
    assert!((start..end).contains(&at), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("has no partition table now, and can be flashed again"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        ran.stderr.matches("read back").count(),
        1,
        "the first comparison succeeded: {}",
        ran.stderr
    );
    assert!(!run(tool("sfdisk").args(["--list", &disk.device])).contains("Disklabel type"));
}

#[test]
fn a_disk_that_loses_writes_is_detected() {
    let (scratch, disk) = with_disk(DATA);
    let (is_over, place) = (AtomicBool::new(false), (67 + 50) * MIB + 4096);
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::options().write(true).open(&disk.file).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                file.write_all_at(
                    b"bytes of another offset on a disk that claims to be larger",
                    place,
                )
                .unwrap();
            }
        });
        let ran = flash(&scratch, &disk.device);
        is_over.store(true, Ordering::Relaxed);
        ran
    });
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(ran.stderr.contains(&format!("it differs at byte {place}\n")), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("has no partition table now, and can be flashed again"),
        "{}",
        ran.stderr
    );
    assert!(!run(tool("sfdisk").args(["--list", &disk.device])).contains("Disklabel type"));
}
