//! Offline signatures: openssl has the key, `osbuild` only the certificate.

use crate::builds::done;
use crate::keys::{keys, tool};
use crate::scratch::{RECIPE, Scratch};
use crate::workshop::{open, products};
use std::fs;
use std::path::PathBuf;

/// All signed files.
const ALL: [&str; 3] = ["slotboot.efi", "node.efi", "initramfs.cpio"];

/// A project with only the certificates of the keys `far`, and the folder with the private keys.
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

/// Signs the digests of a build with openssl.
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
fn offline_signatures_give_the_same_image_as_the_key() {
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
        ran.stderr.contains("note: the image is signed\n") && !out(&scratch, "to-sign").exists(),
        "{}",
        ran.stderr
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
fn all_missing_signatures_are_listed_at_once_with_a_hint() {
    let (scratch, vault) = far();
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned"]));
    let attach = ["sign", RECIPE, "--key", "far", "--attach", &vault.display().to_string()];
    let nowhere = scratch.osbuild(&["sign", RECIPE, "--key", "far", "--attach", "nowhere"]);
    assert!(
        nowhere.code == Some(2) && nowhere.stderr.starts_with("error: cannot read `nowhere`\n"),
        "{}",
        nowhere.stderr
    );
    let none = scratch.osbuild(&attach);
    assert_eq!(none.code, Some(4), "{}", none.stderr);
    for name in ALL {
        assert!(
            none.stderr.contains(&format!("caused by: while signing `{name}`\n")),
            "{}",
            none.stderr
        );
        assert!(out(&scratch, "to-sign").join(format!("{name}.sha256")).exists());
    }
    assert!(
        none.stderr.contains(&format!(
            "hint: sign the files that `cargo osbuild build {RECIPE} \
            --unsigned` writes"
        )),
        "{}",
        none.stderr
    );
    sign(&scratch, &vault, &["initramfs.cpio"]);
    let one = scratch.osbuild(&attach);
    assert!(
        one.stderr.contains("`slotboot.efi`") && one.stderr.contains("`node.efi`"),
        "{}",
        one.stderr
    );
    assert!(!one.stderr.contains("`initramfs.cpio`"), "{}", one.stderr);
}

#[test]
fn a_signature_of_another_build_or_key_is_not_accepted() {
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
    assert_eq!(ran.code, Some(4), "{}", ran.stderr);
    assert!(ran.stderr.contains("by the key of `far db`\n"), "{}", ran.stderr);
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
