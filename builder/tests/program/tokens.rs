//! Keys in a token of SoftHSM, used by PKCS#11. `softhsm2-util` and `pkcs11-tool` make them;
//! sbsigntool and openssl verify their signatures.

use crate::builds::done;
use crate::keys::{keys, tool};
use crate::scratch::{RECIPE, Scratch};
use crate::workshop::{open, products};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";
const PIN: &str = "47118152";

/// pkcs11-tool, logged into the token.
const PKCS11_TOOL: [&str; 8] =
    ["pkcs11-tool", "--module", MODULE, "--token-label", "my token", "--login", "--pin", PIN];

/// A project that can use a token with one RSA key, and the key's URI.
fn with_token() -> (Scratch, String) {
    let mut scratch = open();
    let folder = scratch.path("token");
    fs::create_dir_all(folder.join("tokens")).unwrap();
    let conf = folder.join("softhsm2.conf");
    fs::write(&conf, format!("directories.tokendir = {}\n", folder.join("tokens").display()))
        .unwrap();
    let pin = folder.join("pin");
    fs::write(&pin, format!("{PIN}\n")).unwrap();
    fs::set_permissions(&pin, Permissions::from_mode(0o600)).unwrap();
    let conf = format!("SOFTHSM2_CONF={}", conf.display());
    let init = [
        "softhsm2-util",
        "--init-token",
        "--free",
        "--label",
        "my token",
        "--so-pin",
        "99999999",
        "--pin",
        PIN,
    ];
    tool(&folder, "softhsm2", &[&["env", &conf], &init[..]].concat());
    scratch.set("SOFTHSM2_CONF", conf.trim_start_matches("SOFTHSM2_CONF="));
    for (key, id) in [("one", "01"), ("two", "02")] {
        generate(&scratch, "rsa:2048", key, &["--id", id]);
    }
    let uri = uri(&scratch, "one");
    (scratch, uri)
}

fn pkcs11_tool(scratch: &Scratch, words: &[&str]) -> String {
    let folder = scratch.path("token");
    let conf = format!("SOFTHSM2_CONF={}", folder.join("softhsm2.conf").display());
    tool(&folder, "opensc", &[&["env", &conf], &PKCS11_TOOL[..], words].concat())
}

/// Makes a key in the token.
fn generate(scratch: &Scratch, kind: &str, label: &str, more: &[&str]) {
    let words = ["--keypairgen", "--key-type", kind, "--label", label];
    pkcs11_tool(scratch, &[&words, more].concat());
}

fn uri(scratch: &Scratch, key: &str) -> String {
    let pin = scratch.path("token/pin").display().to_string();
    format!("pkcs11:token=my%20token;object={key}?module-path={MODULE}&pin-source=file:{pin}")
}

/// Builds with these keys. sbverify accepts the UKI.
fn build_signed(scratch: &Scratch, name: &str) {
    done(&scratch.osbuild(&["build", RECIPE, "--key", name]));
    let uki = scratch.project().join("out").join(RECIPE).join("node.efi").display().to_string();
    tool(&keys(scratch, name), "sbsigntool", &["sbverify", "--cert", "db.crt", &uki]);
}

/// Builds twice with these keys. Both builds are identical and signed.
fn assert_signs_reproducibly(scratch: &Scratch, name: &str) {
    build_signed(scratch, name);
    let before = products(scratch);
    fs::remove_dir_all(scratch.project().join("out")).unwrap();
    build_signed(scratch, name);
    assert_eq!(products(scratch), before);
}

#[test]
fn images_signed_with_a_token_are_valid_and_reproducible() {
    let (scratch, uri) = with_token();
    done(&scratch.osbuild(&["keys", "new", "card", "--token", &uri]));
    let folder = keys(&scratch, "card");
    assert!(!folder.join("db.key").exists() && folder.join("KEK.key").exists());
    assert_signs_reproducibly(&scratch, "card");
}

#[test]
fn a_token_key_that_needs_the_pin_at_each_use_signs_an_image() {
    let (scratch, _) = with_token();
    generate(&scratch, "rsa:2048", "three", &["--id", "03", "--always-auth"]);
    let listed = pkcs11_tool(&scratch, &["--list-objects", "--type", "privkey"]);
    assert_eq!(listed.matches("always authenticate").count(), 1, "{listed}");
    done(&scratch.osbuild(&["keys", "new", "card", "--token", &uri(&scratch, "three")]));
    // A build uses the key for slotboot, the UKI and the initramfs.
    assert_signs_reproducibly(&scratch, "card");
}

#[test]
fn a_token_key_of_another_size_than_2048_bits_is_refused() {
    let (scratch, one) = with_token();
    done(&scratch.osbuild(&["keys", "new", "card", "--token", &one]));
    for (size, id) in [("1024", "04"), ("3072", "05")] {
        generate(&scratch, &format!("rsa:{size}"), size, &["--id", id]);
        let uri = uri(&scratch, size);
        let ran = scratch.osbuild(&["keys", "new", "other", "--token", &uri]);
        let expected = format!(
            "error: the key in the token is not one of 2048 bits\n  caused by: it has {size} bits\n"
        );
        assert!(ran.code == Some(1) && ran.stderr.starts_with(&expected), "{}", ran.stderr);
        assert!(!keys(&scratch, "other").exists());
        fs::write(keys(&scratch, "card").join("db.pkcs11"), &uri).unwrap();
        let ran = scratch.osbuild(&["build", RECIPE, "--key", "card"]);
        assert!(ran.code == Some(1) && ran.stderr.starts_with(&expected), "{}", ran.stderr);
    }
}

#[test]
fn a_key_can_rotate_from_a_file_to_a_token_and_within_it() {
    let (scratch, one) = with_token();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    done(&scratch.osbuild(&["keys", "rotate", "mine", "--token", &one]));
    let folder = keys(&scratch, "mine");
    assert!(!folder.join("db.key").exists() && folder.join("db-1.key").exists());
    done(&scratch.osbuild(&["keys", "rotate", "mine", "--token", &uri(&scratch, "two")]));
    build_signed(&scratch, "mine");
    assert_eq!(fs::read_to_string(folder.join("db-2.pkcs11")).unwrap().trim(), one);
}

#[test]
fn an_unusable_token_is_an_error_without_the_pin() {
    let (scratch, one) = with_token();
    done(&scratch.osbuild(&["keys", "new", "card", "--token", &one]));
    let named = keys(&scratch, "card").join("db.pkcs11");
    let cases = [
        (one.replace("object=one", "object=none"), "the PKCS#11 URI does not name one private key"),
        (one.replace("object=one", "object=two"), "the certificate is for another key"),
        (one.replace("my%20token", "other"), "the PKCS#11 URI does not name one token"),
        (one.replace(MODULE, "/nonexistent.so"), "cannot use the PKCS#11 module `/nonexistent.so`"),
        (format!("{one}&pin-value={PIN}"), "a PIN must not be in it"),
    ];
    for (uri, why) in cases {
        fs::write(&named, uri).unwrap();
        let ran = scratch.osbuild(&["build", RECIPE, "--key", "card"]);
        assert!(
            ran.code != Some(0) && ran.stderr.contains(why) && !ran.stderr.contains(PIN),
            "{why}: {}",
            ran.stderr
        );
    }
    fs::write(&named, &one).unwrap();
    fs::write(scratch.path("token/pin"), "00000000").unwrap();
    let ran = scratch.osbuild(&["build", RECIPE, "--key", "card"]);
    assert!(
        ran.code == Some(1) && ran.stderr.contains("cannot log into the token"),
        "{}",
        ran.stderr
    );
    fs::set_permissions(scratch.path("token/pin"), Permissions::from_mode(0o644)).unwrap();
    let ran = scratch.osbuild(&["build", RECIPE, "--key", "card"]);
    assert!(ran.code == Some(1) && ran.stderr.contains("can be read by other users"));
}

#[test]
fn without_any_key_the_error_names_offline_signing() {
    let scratch = open();
    done(&scratch.osbuild(&["keys", "new", "mine"]));
    fs::remove_file(keys(&scratch, "mine").join("db.key")).unwrap();
    let ran = scratch.osbuild(&["build", RECIPE, "--key", "mine"]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stderr.starts_with("error: there is no private key for `mine db`\n")
            && ran.stderr.contains("osbuild sign"),
        "{}",
        ran.stderr
    );
}
