//! Files and folders that somebody else made to harm whoever looks at them: a disk that claims to
//! be huge, a store that is not ours.

use crate::builds::done;
use crate::keys::tool;
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::open;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

const TIB: u64 = 1 << 40;

/// Runs the program with at most 1 GiB of address space.
fn with_little_memory(scratch: &Scratch, args: &[&str]) -> Ran {
    Ran::of(&mut scratch.command(&["prlimit", "--as=1073741824"], args))
}

/// What `inspect`, `verify` and `diff` all say of a file, each in little memory.
#[track_caller]
fn refused(scratch: &Scratch, file: &Path, expected: &str) {
    let file = file.to_str().unwrap();
    for args in [&["inspect", file][..], &["verify", file, "--unsigned"], &["diff", file, file]] {
        let ran = with_little_memory(scratch, args);
        assert!(
            ran.code == Some(4) && ran.stderr.contains(expected),
            "{args:?}: {:?} {}{}",
            ran.code,
            ran.stderr,
            ran.stdout
        );
    }
}

/// A copy of a file of `out/`, grown to this size without taking room.
fn grown(scratch: &Scratch, name: &str, size: u64) -> PathBuf {
    let path = scratch.path(name);
    fs::copy(scratch.project().join("out").join(RECIPE).join(name), &path).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
    path
}

#[test]
fn a_uki_or_initramfs_of_a_tebibyte_is_refused_in_little_memory() {
    let scratch = open();
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    let uki = grown(&scratch, "node.efi", TIB);
    refused(&scratch, &uki, "node.efi` has 1099.5 GB, and its PE header speaks of ");
    // Without a header that says how long it is, the size of the largest slot counts.
    File::options().write(true).open(&uki).unwrap().write_all_at(b"XX", 0x40).unwrap();
    refused(&scratch, &uki, "node.efi` has 1099.5 GB, and on a node of ours at most 2.1 GB");
    refused(
        &scratch,
        &grown(&scratch, "initramfs.cpio", TIB),
        "initramfs.cpio` has 1099.5 GB, and on a node of ours at most 2.1 GB",
    );
}

#[test]
fn an_esp_or_slot_of_a_tebibyte_is_refused_in_little_memory() {
    let scratch = open();
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    let disk = grown(&scratch, "image.raw", 3 * TIB);
    let sgdisk = |words: &[&str]| {
        tool(&scratch.project(), "gdisk", &[&["sgdisk"], words, &[disk.to_str().unwrap()]].concat())
    };
    sgdisk(&["--move-second-header"]);
    let described = sgdisk(&["--info=2"]);
    let first = described
        .lines()
        .find_map(|line| line.strip_prefix("First sector: "))
        .unwrap()
        .split(' ')
        .next()
        .unwrap()
        .to_owned();
    // The first slot becomes the last partition, and as large as the disk; its header says that the
    // UKI is as large as the slot.
    sgdisk(&[
        "--delete=3",
        "--delete=4",
        "--delete=2",
        &format!("--new=2:{first}:+1T"),
        "--change-name=2:SLOT-A",
    ]);
    sgdisk(&["--typecode=2:FE3A2A5D-4F32-41A7-B725-ACCC3285A309", "--attributes=2:set:48"]);
    let (file, start) = (
        File::options().read(true).write(true).open(&disk).unwrap(),
        first.parse::<u64>().unwrap() * 512,
    );
    let mut header = [0; 4096];
    file.read_exact_at(&mut header, start).unwrap();
    let mut parsed = osbuild_slots::Header::parse(&header).unwrap();
    parsed.length = TIB - 4096;
    file.write_all_at(&parsed.encode().unwrap(), start).unwrap();
    refused(&scratch, &disk, "its UKI has 1099.5 GB, and its PE header speaks of ");
    sgdisk(&["--delete=1", "--new=1:0:+1T", "--typecode=1:ef00", "--change-name=1:ESP"]);
    refused(
        &scratch,
        &disk,
        "the EFI system partition has 1099.5 GB, and on a node of ours at most 1.1 GB",
    );
}

#[test]
fn a_signature_of_a_tebibyte_is_none() {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine"]));
    let out = scratch.project().join("out").join(RECIPE);
    File::options().write(true).open(out.join("initramfs.cpio.sig")).unwrap().set_len(TIB).unwrap();
    let ran = with_little_memory(
        &scratch,
        &["verify", out.join("initramfs.cpio").to_str().unwrap(), "--key", "mine"],
    );
    assert!(
        ran.code == Some(4) && ran.stdout.contains("more bytes than a signature has"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn a_store_that_others_own_or_may_write_to_is_refused() {
    let scratch = open();
    let store = scratch.path("cache/osbuild");
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap()
    };
    done(&scratch.osbuild(&["build", RECIPE]));
    for (folder, bits, expected) in [
        (store.clone(), 0o775, "error: others may write to the store `"),
        (store.clone(), 0o757, "error: others may write to the store `"),
        (scratch.path("cache"), 0o777, "error: others may replace the store `"),
    ] {
        mode(&folder, bits);
        let ran = scratch.osbuild(&["build", RECIPE]);
        assert!(
            ran.code == Some(1) && ran.stderr.contains(expected) && ran.stderr.contains("hint: "),
            "{bits:o}: {}",
            ran.stderr
        );
        mode(&folder, 0o755);
        done(&scratch.osbuild(&["build", RECIPE]));
    }
    // As in /tmp, where the owner of a folder alone may replace it.
    mode(&scratch.path("cache"), 0o1777);
    done(&scratch.osbuild(&["build", RECIPE]));
    // A user who is not root looks at what is root's, and root at what is that user's.
    std::os::unix::fs::chown(&store, Some(65534), None).unwrap();
    let ran = scratch.osbuild(&["build", RECIPE]);
    assert!(
        ran.code == Some(1)
            && ran
                .stderr
                .contains("belongs to another user\n  caused by: its owner has the user ID 65534"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_new_store_is_private_whatever_the_umask() {
    let mut scratch = open();
    scratch.set("XDG_CACHE_HOME", scratch.path("fresh").display().to_string());
    let store = scratch.path("fresh/osbuild");
    // `cargo ci` makes the folder before there is a store, with the user's umask.
    for made_before in [false, true] {
        if made_before {
            fs::remove_dir_all(&store).unwrap();
            fs::create_dir_all(store.join("clients/ci-target")).unwrap();
            fs::set_permissions(&store, fs::Permissions::from_mode(0o775)).unwrap();
        }
        done(&Ran::of(
            &mut scratch.command(&["sh", "-c", "umask 0; exec \"$@\"", "sh"], &["clean"]),
        ));
        assert_eq!(fs::metadata(&store).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
