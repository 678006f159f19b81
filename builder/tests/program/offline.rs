//! Images whose signatures are made on another machine: openssl has the key, `osbuild` the
//! certificate.

use crate::builds::done;
use crate::keys::{keys, tool};
use crate::scratch::{RECIPE, Scratch};
use crate::workshop::{open, products};
use std::fs;
use std::path::PathBuf;

/// All that is signed.
const ALL: [&str; 3] = ["slotboot.efi", "node.efi", "initramfs.cpio"];

/// A project whose keys `far` are somewhere else but for the certificates, and the folder with the
/// private ones.
fn far() -> (Scratch, PathBuf) {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "far"]));
    let vault = scratch.path("vault");
    fs::create_dir(&vault).unwrap();
    for role in ["PK", "KEK", "db", "release"] {
        let name = format!("{role}.key");
        fs::rename(keys(&scratch, "far").join(&name), vault.join(&name)).unwrap();
    }
    (scratch, vault)
}

fn out(scratch: &Scratch, name: &str) -> PathBuf {
    scratch.project().join("out").join(RECIPE).join(name)
}

/// Signs what a build has left, as openssl does on a machine without us.
fn sign(scratch: &Scratch, vault: &std::path::Path, names: &[&str]) {
    for name in names {
        let digest = out(scratch, "to-sign").join(format!("{name}.sha256")).display().to_string();
        let signature = format!("{name}.sig");
        let words = [
            "openssl",
            "pkeyutl",
            "-sign",
            "-inkey",
            "db.key",
            "-pkeyopt",
            "digest:sha256",
            "-in",
            &digest,
        ];
        tool(vault, "openssl", &[&words[..], &["-out", &signature]].concat());
    }
}

#[test]
fn signatures_that_openssl_made_elsewhere_give_the_image_that_the_key_would_have_given() {
    let (scratch, vault) = far();
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    assert!(!out(&scratch, "initramfs.cpio.sig").exists());
    sign(&scratch, &vault, &ALL);
    let ran = scratch.osbuild(&[
        "sign",
        RECIPE,
        "--key",
        "far",
        "--attach",
        &vault.display().to_string(),
    ]);
    done(&ran);
    assert!(
        ran.said.contains("every required signature was there")
            && !out(&scratch, "to-sign").exists(),
        "{}",
        ran.said
    );
    let (offline, signature) =
        (products(&scratch), fs::read(out(&scratch, "initramfs.cpio.sig")).unwrap());
    let image = out(&scratch, "node.efi").display().to_string();
    tool(&keys(&scratch, "far"), "sbsigntool", &["sbverify", "--cert", "db.crt", &image]);
    fs::copy(vault.join("db.key"), keys(&scratch, "far").join("db.key")).unwrap();
    fs::remove_dir_all(scratch.project().join("out")).unwrap();
    done(&scratch.osbuild(&["build", RECIPE, "--key", "far"]));
    assert_eq!(products(&scratch), offline);
    assert_eq!(fs::read(out(&scratch, "initramfs.cpio.sig")).unwrap(), signature);
}

#[test]
fn what_has_no_signature_is_named_all_at_once_with_what_to_do() {
    let (scratch, vault) = far();
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    let attach = ["sign", RECIPE, "--key", "far", "--attach", &vault.display().to_string()];
    let nowhere = scratch.osbuild(&["sign", RECIPE, "--key", "far", "--attach", "nowhere"]);
    assert!(
        nowhere.code == Some(2) && nowhere.said.starts_with("error: cannot read `nowhere`\n"),
        "{}",
        nowhere.said
    );
    let none = scratch.osbuild(&attach);
    assert_eq!(none.code, Some(4), "{}", none.said);
    for name in ALL {
        assert!(none.said.contains(&format!("caused by: it is for `{name}`\n")), "{}", none.said);
        assert!(out(&scratch, "to-sign").join(format!("{name}.sha256")).exists());
    }
    assert!(
        none.said
            .contains(&format!("hint: sign what `cargo osbuild build {RECIPE} --unsigned` leaves")),
        "{}",
        none.said
    );
    sign(&scratch, &vault, &["initramfs.cpio"]);
    let one = scratch.osbuild(&attach);
    assert!(one.said.contains("`slotboot.efi`") && one.said.contains("`node.efi`"), "{}", one.said);
    assert!(!one.said.contains("`initramfs.cpio`"), "{}", one.said);
}

#[test]
fn a_signature_of_another_build_or_by_another_key_is_none() {
    let (scratch, vault) = far();
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    fs::rename(vault.join("PK.key"), vault.join("db.key")).unwrap();
    sign(&scratch, &vault, &ALL);
    let ran = scratch.osbuild(&[
        "sign",
        RECIPE,
        "--key",
        "far",
        "--attach",
        &vault.display().to_string(),
    ]);
    assert_eq!(ran.code, Some(4), "{}", ran.said);
    assert!(ran.said.contains("by the key of `far db`\n"), "{}", ran.said);
}

#[test]
fn openssl_verifies_the_signature_beside_the_initramfs() {
    let scratch = open();
    done(&scratch.osbuild(&["build", RECIPE, "--key", "dev"]));
    let folder = out(&scratch, "");
    let cert = keys(&scratch, "dev").join("db.crt").display().to_string();
    let words =
        ["openssl", "cms", "-verify", "-binary", "-inform", "DER", "-in", "initramfs.cpio.sig"];
    let more =
        ["-content", "initramfs.cpio", "-purpose", "any", "-CAfile", &cert, "-out", "/dev/null"];
    tool(&folder, "openssl", &[&words[..], &more].concat());
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    assert!(!folder.join("initramfs.cpio.sig").exists());
}
