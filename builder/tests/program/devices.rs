//! `osbuild verify` on disks: read-only loop devices. The layers of this image are not real file
//! systems; `ci/src/image.rs` verifies a disk with a real image.

use crate::builds::done;
use crate::keys::keys;
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::open;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A project with an image that is signed with the keys `mine`.
fn signed() -> (Scratch, PathBuf) {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine"]));
    let image = scratch.project().join("out").join(RECIPE).join("image.raw");
    (scratch, image)
}

fn tool(name: &str, arguments: &[&str]) -> String {
    let ran = Ran::of(Command::new(name).args(arguments));
    assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
    ran.stdout
}

/// A read-only loop device.
struct ReadOnlyLoop(String);

impl ReadOnlyLoop {
    fn of(file: &Path) -> ReadOnlyLoop {
        ReadOnlyLoop(
            tool("losetup", &["--find", "--show", "--read-only", file.to_str().unwrap()])
                .trim()
                .to_owned(),
        )
    }
}

impl Drop for ReadOnlyLoop {
    fn drop(&mut self) {
        tool("losetup", &["--detach", &self.0]);
    }
}

#[test]
fn a_disk_verifies_like_the_image_that_was_written_to_it() {
    let (scratch, image) = signed();
    let disk = ReadOnlyLoop::of(&image);
    let cert = keys(&scratch, "mine").join("db.crt").display().to_string();
    let output =
        |file: &str| scratch.osbuild(&["verify", file, "--cert", &cert, "--against", RECIPE]);
    let (of_disk, of_image) = (output(&disk.0), output(image.to_str().unwrap()));
    assert!(
        of_disk.stdout.contains("ok     signature ") && of_disk.stdout.contains("ok     disk "),
        "{}",
        of_disk.stdout
    );
    assert_eq!((of_disk.stdout, of_disk.code), (of_image.stdout, of_image.code));
}

#[test]
fn a_flipped_bit_on_a_disk_exits_4() {
    let (scratch, image) = signed();
    let (mut bytes, uki) =
        (fs::read(&image).unwrap(), fs::read(image.with_file_name("node.efi")).unwrap());
    let slot = memchr::memmem::find(&bytes, &uki).unwrap();
    bytes[slot + uki.len() / 2] ^= 1;
    fs::write(&image, bytes).unwrap();
    let disk = ReadOnlyLoop::of(&image);
    let ran = scratch.osbuild(&["verify", &disk.0, "--key", "mine"]);
    let wrong = format!("error: `{}`: it is not what was signed\n", disk.0);
    assert!(ran.code == Some(4) && ran.stderr.contains(&wrong), "{}", ran.stderr);
}

#[test]
fn a_disk_smaller_than_its_image_exits_4_with_that_reason() {
    let (scratch, image) = signed();
    let file = File::options().write(true).open(&image).unwrap();
    file.set_len(file.metadata().unwrap().len() / 2).unwrap();
    let disk = ReadOnlyLoop::of(&image);
    let ran = scratch.osbuild(&["verify", &disk.0, "--key", "mine"]);
    assert!(
        ran.code == Some(4)
            && ran.stderr.contains(", but its partition table is for a larger one\n"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr
            .ends_with("hint: write the image to a disk that is at least as large as the image\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_disk_that_is_not_a_nodes_is_refused_with_a_reason() {
    let (scratch, image) = signed();
    File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let disk = ReadOnlyLoop::of(&image);
    let ran = scratch.osbuild(&["verify", &disk.0, "--key", "mine"]);
    let empty = format!("error: `{}` is a disk of 67.1 MB without a partition table\n", disk.0);
    assert!(ran.code == Some(2) && ran.stderr.starts_with(&empty), "{}", ran.stderr);
    drop(disk);
    tool("sgdisk", &["--new", "1:2048:0", image.to_str().unwrap()]);
    let disk = ReadOnlyLoop::of(&image);
    let ran = scratch.osbuild(&["verify", &disk.0, "--key", "mine"]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(4), "error: the disk has no EFI system partition\n")
    );
    let ran = scratch.osbuild(&["verify", "/dev/no-such-disk", "--key", "mine"]);
    assert!(
        ran.code == Some(2) && ran.stderr.starts_with("error: cannot open `/dev/no-such-disk`\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_image_copied_to_a_larger_disk_lacks_only_the_backup_table() {
    let (scratch, image) = signed();
    let file = File::options().write(true).open(&image).unwrap();
    file.set_len(file.metadata().unwrap().len() + (8 << 20)).unwrap();
    let disk = ReadOnlyLoop::of(&image);
    let ran = scratch.osbuild(&["verify", &disk.0, "--key", "mine"]);
    let wrong: Vec<_> = ran
        .stdout
        .lines()
        .filter(|line| line.starts_with("WRONG") && !line.contains(" contents "))
        .collect();
    assert!(wrong.len() == 1 && wrong[0].ends_with("larger than its image"), "{}", ran.stdout);
}
