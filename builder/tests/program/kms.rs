//! The key of releases in AWS KMS: python-tuf and openssl read what it has signed.

use crate::builds::done;
use crate::cloud::{ACCESS_KEY, ARN, Cloud, P256_ARN, RSA_4096_ARN, SECRET_KEY};
use crate::keys::keys;
use crate::releases::{other_client, provenance, release, verify, wrong};
use crate::scratch::{RECIPE, Ran, Scratch};
use crate::workshop::open;
use std::fs;

/// A project with keys `mine` in files, and a cloud with keys.
fn project() -> (Scratch, Cloud) {
    let (mut scratch, cloud) = (open(), Cloud::start());
    let variables = [
        ("AWS_ENDPOINT_URL", &*cloud.address),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
    ];
    variables.iter().for_each(|(name, value)| scratch.set(name, *value));
    done(&scratch.osbuild(&["keys", "new", "mine", "--as-of", "2026-01-01"]));
    (scratch, cloud)
}

fn rotate(scratch: &Scratch, role: &str, token: &str) -> Ran {
    scratch.osbuild(&[
        "keys",
        "rotate",
        "mine",
        "--as-of",
        "2026-01-02",
        "--role",
        role,
        "--token",
        token,
    ])
}

#[test]
fn a_release_that_kms_has_signed_is_read_by_another_tuf_client_and_by_openssl() {
    let (scratch, cloud) = project();
    done(&release(&scratch, &[]));
    let (folder, first) = (keys(&scratch, "mine"), scratch.path("first-root.json"));
    fs::copy(folder.join("root.json"), &first).unwrap();
    done(&rotate(&scratch, "release", P256_ARN));
    assert!(!folder.join("release.key").exists() && folder.join("release-1.key").exists());
    done(&release(&scratch, &["--promote", "1.35.8", "--channel", "stable"]));
    fs::remove_dir_all(scratch.project().join("out").join(RECIPE).join("release")).unwrap();
    let ran = release(&scratch, &[]);
    done(&ran);
    cloud.is_content();
    assert_eq!(wrong(&verify(&scratch, &[])), [""; 0]);
    // A client that has the older root follows to the key in KMS.
    for root in [first, folder.join("root.json")] {
        assert_eq!(
            other_client(&scratch, &root, &["candidate_small.json", "small_1.35.8_node.efi"]).len(),
            2
        );
    }
    assert_eq!(provenance(&scratch)["subject"].as_array().unwrap().len(), 5);
}

#[test]
fn a_key_of_releases_leads_from_kms_back_into_a_file() {
    let (scratch, _cloud) = project();
    done(&rotate(&scratch, "release", P256_ARN));
    done(&scratch.osbuild(&[
        "keys",
        "rotate",
        "mine",
        "--as-of",
        "2026-01-03",
        "--role",
        "release",
    ]));
    let folder = keys(&scratch, "mine");
    assert!(folder.join("release.key").exists() && !folder.join("release.kms").exists());
    assert_eq!(fs::read_to_string(folder.join("release-1.kms")).unwrap().trim(), P256_ARN);
    done(&release(&scratch, &[]));
    assert_eq!(wrong(&verify(&scratch, &[])), [""; 0]);
}

#[test]
fn a_key_that_signs_no_releases_is_refused_and_nothing_is_changed() {
    let (scratch, _cloud) = project();
    let folder = keys(&scratch, "mine");
    let before = fs::read(folder.join("root.json")).unwrap();
    let cases = [
        ("release", ARN, 1, "is no key on P-256 that signs"),
        ("release", "pkcs11:token=x", 2, "a key for releases is in a file or in AWS KMS"),
        ("root", P256_ARN, 2, "the key of the root of trust is always a file"),
        ("db", P256_ARN, 1, "is no RSA key of 2048 bits that signs"),
        (
            "db",
            RSA_4096_ARN,
            1,
            "alias/large` is no RSA key of 2048 bits that signs\n  caused by: it is `RSA_4096` for `SIGN_VERIFY`",
        ),
    ];
    for (role, token, code, why) in cases {
        let ran = rotate(&scratch, role, token);
        assert!(ran.code == Some(code) && ran.said.contains(why), "{role} {token}: {}", ran.said);
    }
    assert_eq!(fs::read(folder.join("root.json")).unwrap(), before);
    assert!(
        folder.join("release.key").exists()
            && folder.join("root.key").exists()
            && folder.join("db.key").exists()
    );
    done(&rotate(&scratch, "release", P256_ARN));
    fs::write(folder.join("release.kms"), ARN).unwrap();
    let ran = release(&scratch, &[]);
    assert!(ran.code == Some(1) && ran.said.contains("caused by: the key is `"), "{}", ran.said);
}

#[test]
fn a_key_in_kms_that_is_too_large_for_firmware_is_refused_before_anything_is_built() {
    let (scratch, _cloud) = project();
    done(&rotate(&scratch, "db", ARN));
    fs::write(keys(&scratch, "mine").join("db.kms"), RSA_4096_ARN).unwrap();
    let ran = scratch.osbuild(&["build", RECIPE, "--key", "mine"]);
    let said = format!(
        "error: `{RSA_4096_ARN}` is no RSA key of 2048 bits that signs\n  caused by: it is `RSA_4096` for `SIGN_VERIFY`\n"
    );
    assert!(ran.code == Some(1) && ran.said.starts_with(&said), "{}", ran.said);
    assert!(!scratch.project().join("out").exists());
}

#[test]
fn with_offline_no_key_in_kms_is_asked_and_nothing_is_built() {
    let (scratch, cloud) = project();
    done(&scratch.osbuild(&["keys", "new", "far", "--as-of", "2026-01-01", "--token", ARN]));
    done(&rotate(&scratch, "release", P256_ARN));
    let asked = cloud.names().len();
    let files = ["db.key", "release.key", "release.kms"]
        .map(|name| keys(&scratch, "mine").join(name).exists());
    let cases: [&[&str]; 6] = [
        &["build", RECIPE, "--key", "far"],
        &["publish", "aws", RECIPE, "--region", "eu-central-1", "--key", "far", "--dry-run"],
        &["release", RECIPE, "--key", "far", "--as-of", "2026-11-21"],
        &["release", RECIPE, "--key", "mine", "--as-of", "2026-11-21"],
        &["keys", "new", "more", "--token", ARN],
        &[
            "keys",
            "rotate",
            "mine",
            "--as-of",
            "2026-01-03",
            "--role",
            "release",
            "--token",
            P256_ARN,
        ],
    ];
    for words in cases {
        let ran = scratch.osbuild(&[words, &["--offline"]].concat());
        assert!(
            ran.code == Some(2)
                && ran.said.contains("is in AWS KMS, and `--offline` forbids asking it\n"),
            "{words:?}: {}",
            ran.said
        );
        assert!(ran.said.contains("hint: leave `--offline` away"), "{}", ran.said);
    }
    assert_eq!(cloud.names().len(), asked, "{:?}", cloud.names());
    assert!(!scratch.project().join("out").join(RECIPE).join("node.efi").exists());
    assert_eq!(
        ["db.key", "release.key", "release.kms"]
            .map(|name| keys(&scratch, "mine").join(name).exists()),
        files
    );
    // What needs no key of KMS goes on.
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine", "--offline"]));
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned", "--offline"]));
}
