//! `osbuild keys`, with openssl, efitools and virt-firmware as oracles.

use crate::builds::done;
use crate::scratch::{RECIPE, Scratch};
use crate::workshop::open;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a tool in a folder, asserts that it succeeds, and returns its output.
pub fn tool(folder: &Path, package: &str, words: &[&str]) -> String {
    let mut command = Command::new(words[0]);
    let output = command.current_dir(folder).args(&words[1..]).output();
    let output =
        output.unwrap_or_else(|error| panic!("{}: {error}: install `{package}`", words[0]));
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{words:?}: {text}");
    text
}

/// The folder of the keys with this name.
pub fn keys(scratch: &Scratch, name: &str) -> PathBuf {
    scratch.project().join("keys").join(name)
}

#[test]
fn keys_have_their_modes_names_and_days() {
    let scratch = Scratch::new();
    let ran = scratch.osbuild(&["keys", "new", "mine", "--as-of", "2024-02-29", "--years", "5"]);
    done(&ran);
    assert_eq!(ran.stdout.lines().count(), 6, "{}", ran.stdout);
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
        let output = tool(&folder, "openssl", &dates);
        assert!(
            output.contains("notBefore=Feb 29 00:00:00 2024")
                && output.contains("notAfter=Feb 28 23:59:59 2029"),
            "{output}"
        );
        assert!(
            output.contains(&format!("CN = mine {role}")) && !output.contains("development"),
            "{output}"
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
    assert_eq!((mode("api.key"), mode("api.crt"), mode("admin.pem")), (0o600, 0o644, 0o600));
    for (role, end) in [("root", ""), ("api", "  CN=mine api,O=osbuild")] {
        let (start, end) = (format!("mine         {role:8} "), format!("  until 2029-02-28{end}"));
        let is = |line: &str| line.starts_with(&start) && line.ends_with(&end);
        assert!(ran.stdout.lines().any(is), "{role}: {}", ran.stdout);
    }
    let public = tool(&folder, "openssl", &["openssl", "pkey", "-pubout", "-in", "release.key"]);
    assert_eq!(public, fs::read_to_string(folder.join("release.pub")).unwrap());
    assert!(
        tool(&folder, "openssl", &["openssl", "pkey", "-noout", "-text", "-in", "release.key"])
            .contains("ED25519")
    );
    let again = scratch.osbuild(&["keys", "new", "mine"]);
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.starts_with("error: keys `mine` already exist\n"), "{}", again.stderr);
    let odd = scratch.osbuild(&["keys", "new", "../mine"]);
    assert_eq!(
        (odd.code, odd.stderr.starts_with("error: `../mine` is not a valid name for keys")),
        (Some(2), true),
        "{}",
        odd.stderr
    );
}

#[test]
fn openssl_verifies_the_certificates_of_api_clients() {
    let scratch = Scratch::new();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    let issue = ["keys", "issue", "mine", "alice@example.org", "--role", "operator"];
    let ran = scratch.osbuild(&[&issue[..], &["--as-of", "2024-02-29", "--years", "2"]].concat());
    done(&ran);
    let folder = keys(&scratch, "mine");
    let path = folder.join("alice@example.org.pem");
    assert_eq!(ran.stdout, format!("{}\n", path.display()));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let words = ["openssl", "x509", "-noout", "-fingerprint", "-sha256", "-in"];
    let shown = tool(&folder, "openssl", &[&words[..], &[path.to_str().unwrap()]].concat());
    let (_, fingerprint) = shown.trim().split_once('=').unwrap();
    let fingerprint = fingerprint.replace(':', "").to_lowercase();
    assert!(ran.stderr.contains(&format!("as sha256:{fingerprint}")), "{}", ran.stderr);
    let verify = |at: &str, file: &str| {
        let words = ["openssl", "verify", "-x509_strict", "-purpose", "sslclient"];
        tool(
            &folder,
            "openssl",
            &[&words[..], &["-attime", at, "-CAfile", "api.crt", file]].concat(),
        )
    };
    let today = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs().to_string();
    assert_eq!(verify(&today, "admin.pem"), "admin.pem: OK\n");
    let words = ["openssl", "x509", "-noout", "-subject", "-dates", "-in"];
    let shown = tool(&folder, "openssl", &[&words[..], &[path.to_str().unwrap()]].concat());
    assert_eq!(
        shown,
        "subject=O = operator, CN = alice@example.org\nnotBefore=Feb 29 00:00:00 2024 GMT\n\
         notAfter=Feb 28 23:59:59 2026 GMT\n"
    );
    let key = tool(&folder, "openssl", &["openssl", "pkey", "-pubout", "-in", "admin.pem"]);
    let words = ["openssl", "x509", "-noout", "-pubkey", "-in", "admin.pem"];
    assert_eq!(tool(&folder, "openssl", &words), key);

    let again = scratch.osbuild(&issue);
    assert_eq!(again.code, Some(2), "{}", again.stderr);
    assert!(again.stderr.contains("keys are never overwritten"), "{}", again.stderr);
    for user in ["", "a b", "../alice", ".alice"] {
        let odd = scratch.osbuild(&["keys", "issue", "mine", user, "--role", "admin"]);
        assert_eq!(odd.code, Some(2), "{user}: {}", odd.stderr);
    }
    for (role, code) in [("helpdesk", 0), ("Helpdesk", 2), ("", 2)] {
        let ran = scratch.osbuild(&["keys", "issue", "mine", "carol", "--role", role]);
        assert_eq!(ran.code, Some(code), "{role}: {}", ran.stderr);
        assert_eq!(ran.stderr.contains("without a resource `Role`"), code == 0, "{}", ran.stderr);
    }
    let words = ["openssl", "x509", "-noout", "-subject", "-in", "carol.pem"];
    assert_eq!(tool(&folder, "openssl", &words), "subject=O = helpdesk, CN = carol\n");
    fs::remove_file(folder.join("api.key")).unwrap();
    let without = scratch.osbuild(&["keys", "issue", "mine", "bob", "--role", "admin"]);
    assert_eq!(without.code, Some(1), "{}", without.stderr);
    assert!(without.stderr.starts_with("error: there is no key "), "{}", without.stderr);
}

#[test]
fn keys_without_an_api_get_one_and_keep_it() {
    let scratch = Scratch::new();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    let folder = keys(&scratch, "mine");
    for file in ["api.crt", "admin.pem"] {
        fs::remove_file(folder.join(file)).unwrap();
    }
    // The remaining files are those of an interrupted call.
    let add = ["keys", "rotate", "mine", "--role", "api"];
    done(&scratch.osbuild(&add));
    let words = ["openssl", "verify", "-CAfile", "api.crt", "admin.pem"];
    assert_eq!(tool(&folder, "openssl", &words), "admin.pem: OK\n");
    let again = scratch.osbuild(&add);
    assert_eq!(again.code, Some(2), "{}", again.stderr);
}

#[test]
fn efitools_and_virt_firmware_read_the_enrollment_files() {
    let scratch = Scratch::new();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    let ran =
        scratch.osbuild(&["keys", "enroll", "mine", "--vars", "/usr/share/OVMF/OVMF_VARS_4M.fd"]);
    done(&ran);
    assert_eq!(ran.stdout.lines().count(), 7, "{}", ran.stdout);
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
    let output = tool(
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
        assert!(output.contains(part), "{part}: {output}");
    }
}

#[test]
fn a_file_of_the_wrong_kind_for_a_flag_is_a_usage_error() {
    let scratch = Scratch::new();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    fs::write(scratch.path("notes"), "notes").unwrap();
    let notes = scratch.path("notes").display().to_string();
    let flags = [["enroll", "--vars"], ["revoke", "--uki"], ["revoke", "--certificate"]];
    for [verb, flag] in flags {
        for file in [&notes, "nothing"] {
            let ran = scratch.osbuild(&["keys", verb, "mine", flag, file]);
            assert_eq!(ran.code, Some(2), "keys {verb} {flag} {file}: {}", ran.stderr);
        }
    }
}

#[test]
fn keys_show_names_folders_without_a_certificate() {
    let scratch = Scratch::new();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    fs::create_dir(keys(&scratch, "half")).unwrap();
    let ran = scratch.osbuild(&["keys", "show"]);
    done(&ran);
    assert!(ran.stderr.contains("`keys/half` has no `db.crt`"), "{}", ran.stderr);
    assert!(ran.stdout.contains("mine") && !ran.stdout.contains("half"), "{}", ran.stdout);
}

#[test]
fn keys_of_which_only_db_crt_is_here_are_shown() {
    let scratch = open();
    for name in ["builder", "mine"] {
        done(&scratch.osbuild(&["keys", "new", name]));
    }
    done(&scratch.osbuild(&["build", RECIPE, "--key", "builder"]));
    for entry in fs::read_dir(keys(&scratch, "builder")).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("db.crt") {
            fs::remove_file(path).unwrap();
        }
    }
    let ran = scratch.osbuild(&["keys", "show"]);
    done(&ran);
    let of = |name: &str| ran.stdout.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!((of("builder      db "), of("builder"), of("mine")), (1, 1, 6), "{}", ran.stdout);
    let uki = scratch.project().join("out").join(RECIPE).join("node.efi");
    let ran = scratch.osbuild(&["verify", &uki.display().to_string(), "--key", "builder"]);
    assert!(ran.stdout.contains("ok     signature "), "{}{}", ran.stdout, ran.stderr);
}
