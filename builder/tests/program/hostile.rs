//! Untrusted files and folders: a disk that claims to be huge, a store that belongs to another
//! user.

use crate::builds::done;
use crate::keys::{keys, tool};
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::{open, open_with_layers};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

const TIB: u64 = 1 << 40;

/// Runs the program with at most 1 GiB of address space.
fn with_little_memory(scratch: &Scratch, args: &[&str]) -> Ran {
    Ran::of(&mut scratch.command(&["prlimit", "--as=1073741824"], args))
}

/// Asserts that `inspect`, `verify` and `diff` refuse a file with this error, in little memory.
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

/// A sparse copy of a file in `out/`, extended to this size.
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
    refused(&scratch, &uki, "node.efi` has 1099.5 GB, but its PE header describes only ");
    // Without a header that has its length, the size of the largest slot is the limit.
    File::options().write(true).open(&uki).unwrap().write_all_at(b"XX", 0x40).unwrap();
    refused(&scratch, &uki, "node.efi` has 1099.5 GB, but at most 2.1 GB are allowed");
    refused(
        &scratch,
        &grown(&scratch, "initramfs.cpio", TIB),
        "initramfs.cpio` has 1099.5 GB, but at most 2.1 GB are allowed",
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
    // The first slot becomes the last partition and 1 TiB large. The UKI in its header is as large
    // as the slot.
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
    refused(&scratch, &disk, "its UKI has 1099.5 GB, but its PE header describes only ");
    sgdisk(&["--delete=1", "--new=1:0:+1T", "--typecode=1:ef00", "--change-name=1:ESP"]);
    refused(
        &scratch,
        &disk,
        "the EFI system partition has 1099.5 GB, but at most 1.1 GB are allowed",
    );
}

#[test]
fn a_signature_of_a_tebibyte_is_invalid() {
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
        ran.code == Some(4) && ran.stdout.contains("the file is too large for a signature"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn a_store_that_other_users_own_or_can_write_to_is_refused() {
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
        (store.join("cas"), 0o777, "cas` in the store\n"),
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
    std::os::unix::fs::chown(store.join("ac"), Some(65534), None).unwrap();
    let ran = scratch.osbuild(&["build", RECIPE]);
    assert!(ran.stderr.contains("ac` in the store belongs to another user\n"), "{}", ran.stderr);
    std::os::unix::fs::chown(store.join("ac"), Some(0), None).unwrap();
    // With the sticky bit, as in /tmp, only its owner can replace a folder.
    mode(&scratch.path("cache"), 0o1777);
    done(&scratch.osbuild(&["build", RECIPE]));
    // Root must refuse the store of another user.
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
    // `cargo ci` makes the folder before the store exists, with the user's umask.
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

#[test]
fn names_in_a_file_do_not_control_the_terminal() {
    let scratch = open_with_layers();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    let signer = "/CN=mine\rok     forged\u{1b}[2J\u{202e}\nok     forged";
    let words = ["-newkey", "rsa:2048", "-nodes", "-keyout", "db.key", "-out", "db.crt", "-utf8"];
    let words = [&["openssl", "req", "-x509"], &words[..], &["-subj", signer]].concat();
    tool(&keys(&scratch, "mine"), "openssl", &words);
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine"]));
    let uki = scratch.project().join("out").join(RECIPE).join("node.efi");
    let signed = scratch.path("signed.efi").display().to_string();
    fs::copy(&uki, &signed).unwrap();
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    let certificate = keys(&scratch, "mine").join("db.crt").display().to_string();
    let revoked = scratch.path("revoked.crt").display().to_string();
    fs::copy(&certificate, &revoked).unwrap();
    done(&scratch.osbuild(&["keys", "rotate", "mine"]));
    done(&scratch.osbuild(&["keys", "revoke", "mine", "--certificate", &revoked]));
    for (words, code) in [
        (&["verify", &signed, "--cert", &revoked][..], 0),
        (&["verify", &signed, "--key", "mine"], 4),
        (&["inspect", &signed], 0),
        (&["diff", &signed, uki.to_str().unwrap()], 1),
    ] {
        let ran = scratch.osbuild(words);
        assert_eq!(ran.code, Some(code), "{words:?}: {}", ran.stderr);
        let shown = format!("{}{}", ran.stdout, ran.stderr);
        let is_obeyed = |c: char| c == '\u{202e}' || c.is_control() && c != '\n';
        assert!(!shown.contains(is_obeyed), "{words:?}: {shown:?}");
        let escaped = r"mine\rok     forged\u{1b}[2J\u{202e}\nok     forged";
        assert!(shown.contains(escaped), "{words:?}: {shown}");
        assert!(!shown.lines().any(|line| line.starts_with("ok     forged")), "{shown}");
    }
    let json = scratch.osbuild(&["inspect", &signed, "--json"]).stdout;
    assert!(json.contains(r"mine\rok     forged\u001b[2J"), "{json}");
}
