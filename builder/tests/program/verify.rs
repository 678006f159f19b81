//! `osbuild verify` of signed files and of changed ones. The layers of these images cannot be read;
//! `ci/src/image.rs` verifies a real image.

use crate::builds::done;
use crate::keys::keys;
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::open;
use osbuild::engine::digest::Digest;
use osbuild::engine::store::Store;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A project with an image signed by the keys `mine`.
fn signed() -> Scratch {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine"]));
    scratch
}

fn out(scratch: &Scratch, name: &str) -> PathBuf {
    scratch.project().join("out").join(RECIPE).join(name)
}

/// Whether a check of one of the files of `out/` holds, and what it found.
fn check(scratch: &Scratch, name: &str, flags: &[&str], about: &str) -> (bool, String) {
    let all = checks(scratch, name, flags);
    all.into_iter()
        .find(|check| check.0 == about)
        .map(|(_, holds, found)| (holds, found))
        .unwrap_or_else(|| panic!("{about}"))
}

/// Each check of one of the files of `out/`: its name, whether it holds, and what it found.
fn checks(scratch: &Scratch, name: &str, flags: &[&str]) -> Vec<(String, bool, String)> {
    let file = out(scratch, name).display().to_string();
    let ran = scratch.osbuild(&[&["verify", "--json", &file], flags].concat());
    let json: serde_json::Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.stderr));
    let text = |check: &serde_json::Value, key: &str| check[key].as_str().unwrap().to_owned();
    let all = json["checks"].as_array().unwrap().iter();
    let all: Vec<_> = all
        .map(|one| (text(one, "name"), one["holds"].as_bool().unwrap(), text(one, "found")))
        .collect();
    assert_eq!(
        ran.code,
        Some(if all.iter().all(|(_, holds, _)| *holds) { 0 } else { 4 }),
        "{json}"
    );
    all
}

/// The names of the failed checks, except that of the contents, which always fails as these layers
/// cannot be read.
fn wrong(scratch: &Scratch, name: &str, flags: &[&str]) -> Vec<String> {
    let all = checks(scratch, name, flags).into_iter();
    all.filter(|(name, holds, _)| !holds && name != "contents").map(|(name, ..)| name).collect()
}

const RAN: &str = "; if a node has run from the disk, `--has-run` ignores what it writes";

const ALL: [&str; 3] = ["image.raw", "node.efi", "initramfs.cpio"];

#[test]
fn verify_needs_only_the_certificate_not_the_project() {
    let scratch = signed();
    let cert = keys(&scratch, "mine").join("db.crt").display().to_string();
    for name in ALL {
        let file = out(&scratch, name).display().to_string();
        let mut command = scratch.command(&[], &["verify", &file, "--cert", &cert]);
        let output = command.current_dir("/").output().unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        let mut about = output.lines().filter(|line| !line.contains(" contents "));
        assert!(
            about.all(|line| line.starts_with("ok "))
                && output.contains("by mine db, certificate sha256:"),
            "{output}"
        );
    }
}

#[test]
fn a_changed_unsigned_or_foreign_file_exits_4() {
    let scratch = signed();
    done(&scratch.osbuild(&["keys", "new", "other"]));
    for name in ALL {
        let (holds, found) = check(&scratch, name, &["--key", "other"], "signature");
        assert_eq!(
            (holds, found.as_str()),
            (false, "it is signed by `mine db`, which is not trusted"),
            "{name}"
        );
    }
    for name in ["node.efi", "initramfs.cpio"] {
        let mut bytes = fs::read(out(&scratch, name)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(out(&scratch, name), bytes).unwrap();
        let (holds, found) = check(&scratch, name, &["--key", "mine"], "signature");
        assert_eq!((holds, found.as_str()), (false, "it is not what was signed"), "{name}");
    }
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    for name in ALL {
        let (holds, found) = check(&scratch, name, &["--key", "mine"], "signature");
        assert_eq!((holds, found.as_str()), (false, "it is not signed"), "{name}");
    }
    let (holds, found) = check(&scratch, "image.raw", &["--key", "mine"], "boot signature");
    assert_eq!((holds, found.as_str()), (false, "it is not signed"));
}

#[test]
fn a_flipped_bit_in_slotboot_or_in_a_slot_is_found() {
    let scratch = signed();
    let (image, uki) = (
        fs::read(out(&scratch, "image.raw")).unwrap(),
        fs::read(out(&scratch, "node.efi")).unwrap(),
    );
    // The first program on the disk is slotboot, as the slots follow the system partition.
    let slotboot =
        (0..image.len()).step_by(512).find(|at| image[*at..].starts_with(b"MZ")).unwrap();
    let slot = memchr::memmem::find(&image, &uki).unwrap();
    assert!(slotboot < slot);
    for (byte, wrong, good) in [
        (slotboot + 0x1000, &["boot signature"][..], &["signature", "slots"][..]),
        (slot + uki.len() / 2, &["signature", "slots"], &["boot signature"]),
    ] {
        let mut changed = image.clone();
        changed[byte] ^= 1;
        fs::write(out(&scratch, "image.raw"), changed).unwrap();
        for (names, is_good) in [(wrong, false), (good, true)] {
            for name in names {
                let (holds, found) = check(&scratch, "image.raw", &["--key", "mine"], name);
                assert_eq!(holds, is_good, "{name}: {found}");
            }
        }
    }
}

#[test]
fn an_expired_certificate_is_refused_although_firmware_accepts_it() {
    let scratch = signed();
    let (holds, found) =
        check(&scratch, "node.efi", &["--key", "mine", "--as-of", "2999-01-01"], "dates");
    assert!(!holds && found.starts_with("the certificate expired on "), "{found}");
    let (holds, found) =
        check(&scratch, "node.efi", &["--key", "mine", "--as-of", "2001-01-01"], "dates");
    assert!(!holds && found.ends_with("but today is 2001-01-01"), "{found}");
}

#[test]
fn a_revoked_certificate_and_a_revoked_image_are_refused() {
    let scratch = signed();
    let uki = out(&scratch, "node.efi").display().to_string();
    done(&scratch.osbuild(&["keys", "rotate", "mine"]));
    assert!(check(&scratch, "node.efi", &["--key", "mine"], "revocation").0);
    let old = keys(&scratch, "mine").join("db-1.crt").display().to_string();
    done(&scratch.osbuild(&["keys", "revoke", "mine", "--certificate", &old]));
    let (holds, found) = check(&scratch, "node.efi", &["--key", "mine"], "revocation");
    assert_eq!(
        (holds, found.as_str()),
        (false, "it has a signature by `mine db`, which is revoked")
    );
    done(&scratch.osbuild(&["keys", "revoke", "mine", "--uki", &uki]));
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine"]));
    let (holds, found) = check(&scratch, "image.raw", &["--key", "mine"], "revocation");
    assert_eq!((holds, found.as_str()), (false, "the image is revoked"));
}

#[test]
fn the_error_names_the_file_and_the_failed_check() {
    let scratch = signed();
    let uki = out(&scratch, "node.efi").display().to_string();
    let ran = scratch.osbuild(&["verify", &uki]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    let ran = scratch.osbuild(&["verify", &uki, "--key", "mine"]);
    assert!(
        ran.stderr.starts_with(&format!("error: `{uki}`: it is not signed\n")),
        "{}",
        ran.stderr
    );
    assert!(ran.stdout.starts_with("WRONG  signature "), "{}", ran.stdout);
}

#[test]
fn unsigned_verifies_files_but_never_releases() {
    let scratch = signed();
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    for name in ALL {
        let ran = scratch.osbuild(&[
            "verify",
            &out(&scratch, name).display().to_string(),
            "--unsigned",
            "--against",
            RECIPE,
        ]);
        let wrong: Vec<&str> =
            ran.stdout.lines().filter(|line| line.starts_with("WRONG")).collect();
        assert!(wrong.iter().all(|line| line.contains("layer")), "{name}: {wrong:?}");
        assert!(
            ran.stderr.contains("note: `--unsigned`: signatures are not checked"),
            "{name}: {}",
            ran.stderr
        );
        assert!(
            !ran.stdout.contains("signature ") && ran.stdout.contains("rebuild"),
            "{name}: {}",
            ran.stdout
        );
    }
    let folder =
        scratch.osbuild(&["verify", &out(&scratch, "").display().to_string(), "--unsigned"]);
    assert_eq!(folder.code, Some(2), "{}", folder.stderr);
    assert!(folder.stderr.contains("a release is always signed"), "{}", folder.stderr);
}

#[test]
fn against_accepts_only_the_recipe_of_the_image() {
    let scratch = signed();
    let before: Vec<_> = ALL.map(|name| fs::read(out(&scratch, name)).unwrap()).into();
    let against = ["--key", "mine", "--against", RECIPE];
    for name in ALL {
        let (holds, found) = check(&scratch, name, &against, "rebuild");
        assert!(holds, "{name}: {found}");
    }
    for about in ["boot rebuild", "disk"] {
        let (holds, found) = check(&scratch, "image.raw", &against, about);
        assert!(holds, "{about}: {found}");
    }
    assert!(
        ALL.map(|name| fs::read(out(&scratch, name)).unwrap()).to_vec() == before,
        "the verified files were replaced by a build"
    );
    let mut disk = before[0].clone();
    let planted = disk.len() - (2 << 20);
    disk[planted] ^= 1;
    fs::write(out(&scratch, "image.raw"), disk).unwrap();
    let (holds, found) = check(&scratch, "image.raw", &against, "disk");
    assert_eq!(
        (holds, found),
        (
            false,
            format!("it differs from the build of `small`: DATA differs at byte {planted}{RAN}")
        )
    );
    scratch.edit("recipes/base.toml", "panic=10", "panic=11");
    let (holds, found) = check(&scratch, "node.efi", &against, "rebuild");
    assert_eq!(
        (holds, found.as_str()),
        (false, "it differs from the build of `small`: `.cmdline`")
    );
}

/// Runs an independent tool on an image.
fn tool(name: &str, arguments: &[&str]) -> String {
    let ran = Ran::of(Command::new(name).args(arguments));
    assert_eq!(ran.code, Some(0), "{name}: {}", ran.stderr);
    ran.stdout
}

#[test]
fn a_second_file_on_the_esp_is_found() {
    let scratch = signed();
    assert!(check(&scratch, "image.raw", &["--key", "mine"], "ESP").0);
    let image = out(&scratch, "image.raw");
    let start: u64 =
        tool("cgpt", &["show", "-i", "1", "-b", image.to_str().unwrap()]).trim().parse().unwrap();
    let planted = scratch.path("planted");
    fs::write(&planted, "a credential").unwrap();
    let volume = format!("{}@@{}", image.display(), start * 512);
    tool("mcopy", &["-i", &volume, planted.to_str().unwrap(), "::/EFI/BOOT/extra.cred"]);
    let (holds, found) = check(&scratch, "image.raw", &["--key", "mine"], "ESP");
    assert!(!holds && found.ends_with(": `/EFI/BOOT/extra.cred`"), "{found}");
    assert_eq!(wrong(&scratch, "image.raw", &["--key", "mine"]), ["ESP"]);
}

#[test]
fn the_other_slots_uki_is_checked_once_it_is_bootable() {
    let scratch = signed();
    let image = out(&scratch, "image.raw");
    let signed = fs::read(&image).unwrap();
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    let starts = ["2", "3"].map(|slot| {
        let start = tool("cgpt", &["show", "-i", slot, "-b", image.to_str().unwrap()]);
        512 * start.trim().parse::<usize>().unwrap()
    });
    let unsigned = fs::read(&image).unwrap()[starts[0]..starts[1]].to_vec();
    fs::write(
        &image,
        [&signed[..starts[1]], &unsigned, &signed[starts[1] + unsigned.len()..]].concat(),
    )
    .unwrap();
    let (holds, found) = check(&scratch, "image.raw", &["--key", "mine"], "slots");
    assert!(holds && found.ends_with("; not bootable: SLOT-B"), "{found}");
    tool("cgpt", &["add", "-i", "3", "-P", "1", "-T", "1", image.to_str().unwrap()]);
    let (holds, found) = check(&scratch, "image.raw", &["--key", "mine"], "other signature");
    assert_eq!((holds, found.as_str()), (false, "SLOT-B: it is not signed"));
    assert!(check(&scratch, "image.raw", &["--key", "mine"], "signature").0);
}

#[test]
fn against_names_steps_from_the_store_and_rebuild_runs_every_step() {
    let scratch = signed();
    let uki = out(&scratch, "node.efi").display().to_string();
    let steps = |flags: &[&str]| {
        let flags = [&["--key", "mine", "--against", RECIPE], flags].concat();
        let (holds, found) = check(&scratch, "node.efi", &flags, "steps");
        assert!(holds, "{found}");
        found
    };
    let found = steps(&[]);
    assert!(
        found.starts_with("none ran: all ") && found.contains("`--rebuild` runs every step again"),
        "{found}"
    );
    let found = steps(&["--rebuild"]);
    assert!(found.starts_with("all ") && found.ends_with(" ran for this comparison"), "{found}");
    let alone = scratch.osbuild(&["verify", &uki, "--key", "mine", "--rebuild"]);
    assert!(alone.code == Some(2) && alone.stderr.contains("--against"), "{}", alone.stderr);
}

#[test]
fn only_a_full_rebuild_detects_a_tampered_local_store() {
    let scratch = signed();
    // Replaces the result of a step in the store by another one with matching sizes and hashes.
    let store = Store::open(scratch.path("cache/osbuild")).unwrap();
    let mut planted = 0;
    for entry in fs::read_dir(scratch.path("cache/osbuild/ac")).unwrap() {
        let key = entry.unwrap().file_name().into_string().unwrap();
        let key = Digest::parse(&key, 0).unwrap();
        let mut result = store.recall(&key).unwrap();
        let Some(data) = result.outputs.get_mut("data.ext4") else { continue };
        let bytes = [b"planted".as_slice(), &vec![0; data.digest.size() as usize - 7]].concat();
        data.digest = store.put_bytes(&bytes).unwrap();
        store.remember(&key, &result).unwrap();
        planted += 1;
    }
    assert_eq!(planted, 1);
    drop(store);
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine"]));
    let against = ["--key", "mine", "--against", RECIPE];
    assert_eq!(wrong(&scratch, "image.raw", &against), [""; 0], "the store is consistent");
    let image = out(&scratch, "image.raw").display().to_string();
    let ran = scratch.osbuild(&[&["verify", &image, "--rebuild"], &against[..]].concat());
    assert!(
        ran.code == Some(4)
            && ran.stderr.contains("error: `data` gave other bytes than the last time"),
        "{}",
        ran.stderr
    );
}

#[test]
fn against_sets_aside_the_identifiers_that_flash_gives_a_disk() {
    let scratch = signed();
    let image = out(&scratch, "image.raw");
    let against = ["--key", "mine", "--against", RECIPE];
    let path = image.to_str().unwrap();
    let guid = "6F8B1C7A-3C1E-4B57-9D0E-2F6D2F3E4A5B";
    tool("sgdisk", &["--disk-guid", guid, "--partition-guid", &format!("4:{guid}"), path]);
    let (holds, found) = check(&scratch, "image.raw", &against, "disk");
    let aside = format!(
        "the GUID of the disk, {guid}, the GUID of DATA, the space behind the image's partitions"
    );
    assert!(holds && found.to_lowercase().ends_with(&aside.to_lowercase()), "{found}");
    tool("sgdisk", &["--change-name", "4:OTHER", path]);
    let (holds, found) = check(&scratch, "image.raw", &against, "disk");
    assert!(!holds, "{found}");
}

#[test]
fn without_has_run_any_other_changed_byte_of_a_disk_is_found() {
    let scratch = signed();
    let image = out(&scratch, "image.raw");
    let path = image.to_str().unwrap();
    let against = ["--key", "mine", "--against", RECIPE];
    let ran = [&against[..], &["--has-run"]].concat();
    tool("sgdisk", &["--disk-guid", "6F8B1C7A-3C1E-4B57-9D0E-2F6D2F3E4A5B", path]);
    let fresh = fs::read(&image).unwrap();
    let start = |number: &str| {
        512 * tool("cgpt", &["show", "-i", number, "-b", path]).trim().parse::<usize>().unwrap()
    };
    let [esp, slot_b, data] = ["1", "3", "4"].map(start);
    // The last cluster of the system partition, the slot that is not booted, and a file system that
    // the kubelet reads.
    for (name, byte) in
        [("ESP", slot_b - (1 << 20)), ("SLOT-B", slot_b + 8192), ("DATA", data + (2 << 20))]
    {
        let byte = if name == "ESP" { start("2") - 4096 } else { byte };
        assert!(esp < byte);
        let mut changed = fresh.clone();
        changed[byte] ^= 1;
        fs::write(&image, changed).unwrap();
        let (holds, found) = check(&scratch, "image.raw", &against, "disk");
        assert!(
            !holds && found.contains(&format!(": {name} differs at byte ")) && found.ends_with(RAN),
            "{found}"
        );
        assert_eq!(wrong(&scratch, "image.raw", &against), ["disk"]);
        let (holds, found) = check(&scratch, "image.raw", &ran, "disk");
        assert!(holds && found.contains("the contents of DATA"), "{found}");
    }
    fs::write(&image, &fresh).unwrap();
    tool("cgpt", &["add", "-i", "2", "-S", "1", path]);
    let (holds, found) = check(&scratch, "image.raw", &against, "disk");
    assert_eq!(
        (holds, found),
        (
            false,
            format!("it differs from the build of `small`: SLOT-A is in a different state{RAN}")
        )
    );
    let (holds, found) = check(&scratch, "image.raw", &ran, "disk");
    assert!(holds && found.contains("the state of SLOT-A, "), "{found}");
}

#[test]
fn mbr_partitions_that_firmware_would_boot_are_found_on_every_disk() {
    let scratch = signed();
    let image = out(&scratch, "image.raw");
    let against = ["--key", "mine", "--against", RECIPE];
    let ran = [&against[..], &["--has-run"]].concat();
    tool(
        "sgdisk",
        &["--disk-guid", "6F8B1C7A-3C1E-4B57-9D0E-2F6D2F3E4A5B", image.to_str().unwrap()],
    );
    assert_eq!(wrong(&scratch, "image.raw", &ran), [""; 0]);
    let mut bytes = fs::read(&image).unwrap();
    // The only record of the MBR, which protects the GPT, becomes a system partition at the end of
    // the disk.
    bytes[446 + 4] = 0xEF;
    let start = (bytes.len() as u32 / 512 - 4096).to_le_bytes();
    bytes[446 + 8..446 + 12].copy_from_slice(&start);
    fs::write(&image, bytes).unwrap();
    for flags in [&["--key", "mine"][..], &against, &ran] {
        assert_eq!(wrong(&scratch, "image.raw", flags), ["partition table"], "{flags:?}");
    }
}

#[test]
fn an_extra_partition_is_found() {
    let scratch = signed();
    assert!(check(&scratch, "image.raw", &["--key", "mine"], "partitions").0);
    let image = out(&scratch, "image.raw");
    let file = fs::File::options().write(true).open(&image).unwrap();
    file.set_len(file.metadata().unwrap().len() + (8 << 20)).unwrap();
    tool(
        "sgdisk",
        &[
            "--move-second-header",
            "--new",
            "5:0:0",
            "--typecode",
            "5:ef00",
            image.to_str().unwrap(),
        ],
    );
    let (holds, found) = check(&scratch, "image.raw", &["--key", "mine"], "partitions");
    assert!(!holds && found.starts_with("they are not those of a node: `ESP` (esp), "), "{found}");
    assert_eq!(wrong(&scratch, "image.raw", &["--key", "mine"]), ["partitions"]);
}

/// Changes the header of the first slot of the image.
fn edit_header(image: &Path, edit: impl FnOnce(&mut [u8])) {
    let mut bytes = fs::read(image).unwrap();
    let header = memchr::memmem::find(&bytes, b"OSBSLOT\0").unwrap();
    edit(&mut bytes[header..header + 4092]);
    let mut checksum = flate2::Crc::new();
    checksum.update(&bytes[header..header + 4092]);
    bytes[header + 4092..][..4].copy_from_slice(&checksum.sum().to_le_bytes());
    fs::write(image, bytes).unwrap();
}

#[test]
fn another_version_in_the_header_of_the_slot_that_runs_is_found() {
    let scratch = signed();
    edit_header(&out(&scratch, "image.raw"), |header| {
        let version = memchr::memmem::find(header, b"1.35.8").unwrap();
        header[version] = b'9';
    });
    let (holds, found) = check(&scratch, "image.raw", &["--key", "mine"], "version");
    assert_eq!(
        (holds, found.as_str()),
        (false, "the slot's header has version 9.35.8, its UKI has version 1.35.8")
    );
    for flags in [
        &["--key", "mine", "--against", RECIPE][..],
        &["--key", "mine", "--against", RECIPE, "--has-run"],
    ] {
        assert_eq!(wrong(&scratch, "image.raw", flags), ["version", "disk"], "{flags:?}");
    }
}

#[test]
fn extra_bytes_in_a_slots_header_are_found() {
    let scratch = signed();
    let image = out(&scratch, "image.raw");
    edit_header(&image, |header| header[2000..][..6].copy_from_slice(b"hidden"));
    let ran = scratch.osbuild(&["verify", image.to_str().unwrap(), "--key", "mine"]);
    assert!(
        ran.code == Some(4) && ran.stderr.contains("its header has unknown bytes"),
        "{}",
        ran.stderr
    );
}

#[test]
fn flags_without_effect_are_refused_and_trust_must_be_given() {
    let scratch = signed();
    let uki = out(&scratch, "node.efi").display().to_string();
    let (folder, cert) = (
        scratch.project().display().to_string(),
        keys(&scratch, "mine").join("db.crt").display().to_string(),
    );
    let key = keys(&scratch, "mine").join("db.key").display().to_string();
    for (words, output) in [
        (
            &[uki.as_str()][..],
            "`--cert FILE`, keys of the project with `--key NAME`, or skip signatures with \
             `--unsigned`",
        ),
        (&[&uki, "--key", "mine", "--channel", "stable"], "`--channel` has no effect"),
        (&[&uki, "--key", "mine", "--memory", "seen"], "`--memory` has no effect"),
        (&[&folder, "--key", "mine", "--against", RECIPE], "`--against` has no effect"),
        (&[&uki, "--cert", &key], "has no certificate"),
        (&[&uki, "--cert", "missing"], "cannot read `missing`"),
        (&[&folder, "--cert", &cert, "--root", &cert], "it is not a valid root of trust"),
        (&[&uki, "--key", "nobody"], "there are no keys `nobody`"),
    ] {
        let ran = scratch.osbuild(&[&["verify"], words].concat());
        assert!(ran.code == Some(2) && ran.stderr.contains(output), "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn a_truncated_file_is_an_error_with_its_cause() {
    let scratch = signed();
    let whole = fs::read(out(&scratch, "node.efi")).unwrap();
    fs::write(out(&scratch, "node.efi"), &whole[..whole.len() - 100]).unwrap();
    let (holds, found) = check(&scratch, "node.efi", &["--key", "mine"], "signature");
    assert!(!holds, "{found}");
    assert!(
        found.contains("the PE image cannot have a signature: the PE image ends before its "),
        "{found}"
    );
}
