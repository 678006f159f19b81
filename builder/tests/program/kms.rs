//! Release keys in AWS KMS: python-tuf and openssl accept their signatures.

use crate::builds::done;
use crate::cloud::{ACCESS_KEY, ARN, Cloud, P256_ARN, RSA_4096_ARN, SECRET_KEY};
use crate::keys::keys;
use crate::provenance::provenance;
use crate::releases::{other_client, release, verify, wrong};
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
fn python_tuf_and_openssl_accept_a_release_signed_with_kms() {
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
    cloud.assert_no_mistakes();
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
fn a_release_signed_with_kms_can_be_repeated_on_its_day() {
    let (scratch, cloud) = project();
    done(&rotate(&scratch, "release", P256_ARN));
    done(&release(&scratch, &[]));
    let released = scratch.project().join("out").join(RECIPE).join("released");
    fs::remove_dir_all(&released).unwrap();
    // KMS never gives the same signature twice.
    done(&release(&scratch, &[]));
    cloud.assert_no_mistakes();
    assert_eq!(fs::read_dir(&released).unwrap().count(), 4);
    assert_eq!(wrong(&verify(&scratch, &[])), [""; 0]);
}

#[test]
fn a_release_key_can_move_from_kms_back_into_a_file() {
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
fn a_key_that_cannot_sign_releases_is_refused_without_changes() {
    let (scratch, _cloud) = project();
    let folder = keys(&scratch, "mine");
    let before = fs::read(folder.join("root.json")).unwrap();
    let cases = [
        ("release", ARN, 1, "is not a key on P-256 for signing"),
        ("release", "pkcs11:token=x", 2, "a release key must be in a file or in AWS KMS"),
        ("root", P256_ARN, 2, "the root key is always a file"),
        ("db", P256_ARN, 1, "is not an RSA key of 2048 bits for signing"),
        (
            "db",
            RSA_4096_ARN,
            1,
            "alias/large` is not an RSA key of 2048 bits for signing\n  \
             caused by: its key spec is `RSA_4096`, its usage `SIGN_VERIFY`",
        ),
    ];
    for (role, token, code, why) in cases {
        let ran = rotate(&scratch, role, token);
        assert!(
            ran.code == Some(code) && ran.stderr.contains(why),
            "{role} {token}: {}",
            ran.stderr
        );
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
    assert!(
        ran.code == Some(1) && ran.stderr.contains("caused by: the key is `"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_kms_key_too_large_for_firmware_is_refused_before_the_build() {
    let (scratch, _cloud) = project();
    done(&rotate(&scratch, "db", ARN));
    fs::write(keys(&scratch, "mine").join("db.kms"), RSA_4096_ARN).unwrap();
    let ran = scratch.osbuild(&["build", RECIPE, "--key", "mine"]);
    let expected = format!(
        "error: `{RSA_4096_ARN}` is not an RSA key of 2048 bits for signing\n  \
             caused by: its key spec is `RSA_4096`, its usage `SIGN_VERIFY`\n"
    );
    assert!(ran.code == Some(1) && ran.stderr.starts_with(&expected), "{}", ran.stderr);
    assert!(!scratch.project().join("out").exists());
}

#[test]
fn offline_uses_no_kms_key_and_builds_nothing() {
    let (scratch, cloud) = project();
    done(&scratch.osbuild(&["keys", "new", "far", "--as-of", "2026-01-01", "--token", ARN]));
    done(&rotate(&scratch, "release", P256_ARN));
    let calls = cloud.names().len();
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
                && ran.stderr.contains("is in AWS KMS, which `--offline` forbids\n"),
            "{words:?}: {}",
            ran.stderr
        );
        assert!(ran.stderr.contains("hint: omit `--offline`"), "{}", ran.stderr);
    }
    assert_eq!(cloud.names().len(), calls, "{:?}", cloud.names());
    assert!(!scratch.project().join("out").join(RECIPE).join("node.efi").exists());
    assert_eq!(
        ["db.key", "release.key", "release.kms"]
            .map(|name| keys(&scratch, "mine").join(name).exists()),
        files
    );
    // Builds without KMS keys still work.
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine", "--offline"]));
    done(&scratch.osbuild(&["build", RECIPE, "--unsigned", "--offline"]));
}
