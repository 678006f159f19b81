//! Rotation and revocation of keys, compared with efitools, sbsigntool and virt-firmware.

use crate::builds::done;
use crate::keys::{keys, tool};
use crate::scratch::{RECIPE, Scratch};
use crate::workshop::open;
use std::fs;

const VARS: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

/// Enrolls the keys `mine`, and returns the firmware's variables as virt-firmware prints them.
fn enrolled(scratch: &Scratch) -> String {
    done(&scratch.osbuild(&["keys", "enroll", "mine", "--vars", VARS]));
    let folder = keys(scratch, "mine").join("enroll");
    tool(&folder, "virt-firmware (pip)", &["virt-fw-vars", "-i", "OVMF_VARS_4M.fd", "-p", "-v"])
}

/// The time in a signed update, which firmware compares: year, month, day, hour, minute, second.
fn time(scratch: &Scratch, variable: &str) -> (u16, [u8; 5]) {
    let update =
        fs::read(keys(scratch, "mine").join("enroll").join(format!("{variable}.auth"))).unwrap();
    (u16::from_le_bytes([update[0], update[1]]), update[2..7].try_into().unwrap())
}

fn uki(scratch: &Scratch) -> String {
    scratch.project().join("out").join(RECIPE).join("node.efi").display().to_string()
}

#[test]
fn after_a_rotation_the_new_key_signs_and_both_are_trusted() {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    let before = fs::read(keys(&scratch, "mine").join("db.key")).unwrap();
    enrolled(&scratch);
    let first = time(&scratch, "db");
    done(&scratch.osbuild(&["keys", "rotate", "mine"]));
    let folder = keys(&scratch, "mine");
    assert_eq!(fs::read(folder.join("db-1.key")).unwrap(), before);
    let output = enrolled(&scratch);
    assert!(
        output.contains("subject CN=mine db 2") && output.contains("subject CN=mine db\n"),
        "{output}"
    );
    // It was made on the same day, but is newer than the machine's.
    assert!(time(&scratch, "db") > first);
    tool(&folder.join("enroll"), "efitools", &["sig-list-to-certs", "db.esl", "db"]);
    for (index, name) in ["db.crt", "db-1.crt"].into_iter().enumerate() {
        let der = format!("db-{index}.der");
        let read = tool(
            &folder.join("enroll"),
            "openssl",
            &["openssl", "x509", "-inform", "DER", "-in", &der],
        );
        assert_eq!(read, fs::read_to_string(folder.join(name)).unwrap());
    }
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine"]));
    tool(&folder, "sbsigntool", &["sbverify", "--cert", "db.crt", &uki(&scratch)]);
}

#[test]
fn a_second_rotation_keeps_both_earlier_keys() {
    let scratch = Scratch::new();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    done(&scratch.osbuild(&["keys", "rotate", "mine"]));
    done(&scratch.osbuild(&["keys", "rotate", "mine"]));
    let shown = scratch.osbuild(&["keys", "show", "mine", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    let roles: Vec<&str> =
        json["keys"].as_array().unwrap().iter().map(|key| key["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["PK", "KEK", "db", "db-2", "db-1", "release", "root", "api"]);
    let early = scratch.osbuild(&["keys", "rotate", "mine", "--as-of", "2001-01-01"]);
    assert_eq!(early.code, Some(2), "{}", early.stderr);
    assert!(
        early.stderr.starts_with(
            "error: the new certificate would begin on 2001-01-01, before the old one on "
        ),
        "{}",
        early.stderr
    );
}

#[test]
fn a_release_key_that_no_root_names_does_not_sign() {
    let scratch = Scratch::new();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    let folder = keys(&scratch, "mine");
    let document = scratch.project().join("node.toml").display().to_string();
    fs::write(&document, "hostname = \"edge-1\"\n").unwrap();
    let sign = || scratch.osbuild(&["node", "sign", &document, "--key", "mine"]);
    let rotate = ["keys", "rotate", "mine", "--role", "release"];
    // A rotation replaces them after the key itself; the last one first here.
    let files = ["root.json", "release.pub"];
    let before = files.map(|name| fs::read(folder.join(name)).unwrap());
    done(&scratch.osbuild(&rotate));
    done(&sign());
    for (name, bytes) in files.iter().zip(before) {
        fs::write(folder.join(name), bytes).unwrap();
        let ran = sign();
        let expected = format!("{name}` belongs to another release key\n");
        assert!(ran.code == Some(1) && ran.stderr.contains(&expected), "{}", ran.stderr);
    }
    done(&scratch.osbuild(&rotate));
    done(&sign());
}

#[test]
fn a_revoked_certificate_moves_to_dbx_but_not_the_signing_one() {
    let scratch = Scratch::new();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    let file = |name: &str| keys(&scratch, "mine").join(name).display().to_string();
    let own = scratch.osbuild(&["keys", "revoke", "mine", "--certificate", &file("db.crt")]);
    assert_eq!(own.code, Some(2), "{}", own.stderr);
    assert!(own.stderr.ends_with("hint: cargo osbuild keys rotate mine\n"), "{}", own.stderr);
    for name in ["PK.crt", "KEK.crt"] {
        let never = scratch.osbuild(&["keys", "revoke", "mine", "--certificate", &file(name)]);
        assert_eq!(never.code, Some(2), "{}", never.stderr);
        assert!(
            never.stderr.contains("never signed images for the keys `mine`"),
            "{}",
            never.stderr
        );
    }
    done(&scratch.osbuild(&["keys", "rotate", "mine"]));
    enrolled(&scratch);
    let before = time(&scratch, "db");
    let revoked = scratch.osbuild(&["keys", "revoke", "mine", "--certificate", &file("db-1.crt")]);
    done(&revoked);
    assert!(
        revoked.stdout.lines().any(|line| line.contains(" db-1 ") && line.contains("  REVOKED")),
        "{}",
        revoked.stdout
    );
    let output = enrolled(&scratch);
    assert!(
        output.contains("name=dbx ") && output.matches("subject CN=mine db\n").count() == 1,
        "{output}"
    );
    assert!(output.contains("subject CN=mine db 2"), "{output}");
    assert!(time(&scratch, "db") > before);
}

#[test]
fn an_empty_list_of_revocations_is_damaged_and_does_not_count_as_none() {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine"]));
    fs::write(keys(&scratch, "mine").join("dbx.esl"), "").unwrap();
    let image = scratch.project().join("out").join(RECIPE).join("image.raw");
    let verify = ["verify", image.to_str().unwrap(), "--key", "mine"];
    let enroll = ["keys", "enroll", "mine"];
    for words in [&["keys", "show", "mine"][..], &enroll, &verify] {
        let ran = scratch.osbuild(words);
        assert!(
            ran.code.is_some_and(|code| code != 0) && ran.stderr.contains("dbx.esl` is damaged"),
            "{words:?}: {}{}",
            ran.stdout,
            ran.stderr
        );
    }
}

#[test]
fn a_revoked_uki_is_in_dbx_with_the_digest_of_efitools() {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    done(&scratch.osbuild(&["build", RECIPE, "--key", "mine"]));
    for _ in 0..2 {
        done(&scratch.osbuild(&["keys", "revoke", "mine", "--uki", &uki(&scratch)]));
    }
    enrolled(&scratch);
    let folder = keys(&scratch, "mine").join("enroll");
    tool(&folder, "efitools", &["hash-to-efi-sig-list", &uki(&scratch), "theirs.esl"]);
    let [ours, theirs] = ["dbx.esl", "theirs.esl"].map(|name| fs::read(folder.join(name)).unwrap());
    // The bytes between them are the GUID of the owner.
    assert_eq!((&ours[..28], &ours[44..]), (&theirs[..28], &theirs[44..]));
    let none = scratch.osbuild(&["keys", "revoke", "mine"]);
    assert_eq!(none.code, Some(2), "{}", none.stderr);
}
