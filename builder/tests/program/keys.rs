//! Keys as a user makes, sees and enrolls them, against openssl, efitools and virt-firmware.

use crate::builds::done;
use crate::scratch::Scratch;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a tool in a folder, which must succeed, and gives what it says.
pub fn tool(folder: &Path, package: &str, words: &[&str]) -> String {
    let mut command = Command::new(words[0]);
    let output = command.current_dir(folder).args(&words[1..]).output();
    let output =
        output.unwrap_or_else(|error| panic!("{}: {error}: install `{package}`", words[0]));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    said
}

/// The folder of the keys of this name.
pub fn keys(scratch: &Scratch, name: &str) -> PathBuf {
    scratch.project().join("keys").join(name)
}

#[test]
fn keys_have_their_modes_names_and_days() {
    let scratch = Scratch::new();
    let ran = scratch.osbuild(&["keys", "new", "mine", "--as-of", "2024-02-29", "--years", "5"]);
    done(&ran);
    assert_eq!(ran.data.lines().count(), 5, "{}", ran.data);
    let folder = keys(&scratch, "mine");
    let mode = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions().mode() & 0o777;
    for role in ["PK", "KEK", "db"] {
        let (key, certificate) = (format!("{role}.key"), format!("{role}.crt"));
        assert_eq!((mode(&key), mode(&certificate)), (0o600, 0o644));
        let dates = [
            "openssl",
            "x509",
            "-noout",
            "-startdate",
            "-enddate",
            "-subject",
            "-in",
            &certificate,
        ];
        let said = tool(&folder, "openssl", &dates);
        assert!(
            said.contains("notBefore=Feb 29 00:00:00 2024")
                && said.contains("notAfter=Feb 28 00:00:00 2029"),
            "{said}"
        );
        assert!(
            said.contains(&format!("CN = mine {role}")) && !said.contains("development"),
            "{said}"
        );
        let public = tool(&folder, "openssl", &["openssl", "pkey", "-pubout", "-in", &key]);
        assert_eq!(
            public,
            tool(
                &folder,
                "openssl",
                &["openssl", "x509", "-noout", "-pubkey", "-in", &certificate]
            )
        );
    }
    assert_eq!((mode("release.key"), mode("release.pub")), (0o600, 0o644));
    assert_eq!((mode("root.key"), mode("root.json")), (0o600, 0o644));
    assert!(
        ran.data.lines().any(
            |line| line.starts_with("mine         root ") && line.ends_with("until 2029-02-28")
        ),
        "{}",
        ran.data
    );
    let public = tool(&folder, "openssl", &["openssl", "pkey", "-pubout", "-in", "release.key"]);
    assert_eq!(public, fs::read_to_string(folder.join("release.pub")).unwrap());
    assert!(
        tool(&folder, "openssl", &["openssl", "pkey", "-noout", "-text", "-in", "release.key"])
            .contains("ED25519")
    );
    let again = scratch.osbuild(&["keys", "new", "mine"]);
    assert_eq!(again.code, Some(2));
    assert!(again.said.starts_with("error: there are keys `mine` already\n"), "{}", again.said);
    let odd = scratch.osbuild(&["keys", "new", "../mine"]);
    assert_eq!(
        (odd.code, odd.said.starts_with("error: `../mine` is no name for keys")),
        (Some(2), true),
        "{}",
        odd.said
    );
}

#[test]
fn efitools_and_virt_firmware_read_what_enrolls_keys() {
    let scratch = Scratch::new();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    let ran =
        scratch.osbuild(&["keys", "enroll", "mine", "--vars", "/usr/share/OVMF/OVMF_VARS_4M.fd"]);
    done(&ran);
    assert_eq!(ran.data.lines().count(), 7, "{}", ran.data);
    let folder = keys(&scratch, "mine").join("enroll");
    for role in ["PK", "KEK", "db"] {
        let (list, update) = (format!("{role}.esl"), format!("{role}.auth"));
        tool(&folder, "efitools", &["sig-list-to-certs", &list, role]);
        let der = ["openssl", "x509", "-inform", "DER", "-in", &format!("{role}-0.der")];
        let expected =
            fs::read_to_string(keys(&scratch, "mine").join(format!("{role}.crt"))).unwrap();
        assert_eq!(tool(&folder, "openssl", &der), expected);
        assert!(
            fs::read(folder.join(update)).unwrap().ends_with(&fs::read(folder.join(list)).unwrap())
        );
    }
    let said = tool(
        &folder,
        "virt-firmware (pip)",
        &["virt-fw-vars", "-i", "OVMF_VARS_4M.fd", "-p", "-v"],
    );
    for part in [
        "subject CN=mine PK",
        "subject CN=mine KEK",
        "subject CN=mine db",
        "name=SecureBootEnable",
        "bool: ON",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_file_that_is_not_what_a_flag_asks_for_is_refused_as_wrong_use() {
    let scratch = Scratch::new();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    fs::write(scratch.path("notes"), "notes").unwrap();
    let notes = scratch.path("notes").display().to_string();
    let flags = [["enroll", "--vars"], ["revoke", "--uki"], ["revoke", "--certificate"]];
    for [verb, flag] in flags {
        for file in [&notes, "nothing"] {
            let ran = scratch.osbuild(&["keys", verb, "mine", flag, file]);
            assert_eq!(ran.code, Some(2), "keys {verb} {flag} {file}: {}", ran.said);
        }
    }
}

#[test]
fn a_folder_without_a_certificate_is_named_when_keys_are_shown() {
    let scratch = Scratch::new();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    fs::create_dir(keys(&scratch, "half")).unwrap();
    let ran = scratch.osbuild(&["keys", "show"]);
    done(&ran);
    assert!(ran.said.contains("`keys/half` has no `db.crt`"), "{}", ran.said);
    assert!(ran.data.contains("mine") && !ran.data.contains("half"), "{}", ran.data);
}
