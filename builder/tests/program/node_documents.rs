//! Signed node documents: OpenSSL verifies what `osbuild node sign` has signed.

use crate::builds::done;
use crate::keys::tool;
use crate::releases::workshop;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::UNIX_EPOCH;

const DOCUMENT: &str = "hostname = \"edge-1\"\n";
const MACHINE: &str = "4C4C4544-0051-3610-8052-B4C04F4E3332";

#[test]
fn openssl_verifies_a_signed_document() {
    let scratch = workshop();
    let project = scratch.project();
    let file = project.join("node.toml");
    fs::write(&file, DOCUMENT).unwrap();
    let file = file.to_str().unwrap();
    fs::write(project.join("node.signed"), "of an earlier release").unwrap();
    for (flags, kind) in [
        (&[][..], "text/x-osbuild-node".to_owned()),
        (
            &["--machine", MACHINE][..],
            format!("text/x-osbuild-node; machine={}", MACHINE.to_lowercase()),
        ),
    ] {
        let words = [&["node", "sign", file, "--key", "mine"], flags].concat();
        done(&scratch.osbuild(&words));
        let signed = project.join("node.signed");
        let mode = fs::metadata(&signed).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "it may have secrets");
        let text = fs::read_to_string(signed).unwrap();
        let envelope: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(envelope["payloadType"], kind.as_str());
        let decode = |value: &Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
        assert_eq!(decode(&envelope["payload"]), DOCUMENT.as_bytes());
        let message = format!("DSSEv1 {} {kind} {} {DOCUMENT}", kind.len(), DOCUMENT.len());
        fs::write(project.join("message"), message).unwrap();
        fs::write(project.join("signature"), decode(&envelope["signatures"][0]["sig"])).unwrap();
        let words = "openssl pkeyutl -verify -rawin -pubin -inkey keys/mine/release.pub \
                     -in message -sigfile signature";
        let words: Vec<&str> = words.split_whitespace().collect();
        assert!(tool(&project, "openssl", &words).contains("Signature Verified Successfully"));
    }
}

#[test]
fn a_document_that_replaces_others_has_the_time_of_its_signature_and_a_machine() {
    let scratch = workshop();
    let file = scratch.project().join("node.toml");
    fs::write(&file, DOCUMENT).unwrap();
    let words = ["node", "sign", file.to_str().unwrap(), "--key", "mine", "--replace"];
    let refused = scratch.osbuild(&words);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("--machine <UUID>"), "{}", refused.stderr);
    let began = UNIX_EPOCH.elapsed().unwrap().as_secs();
    done(&scratch.osbuild(&[&words[..], &["--machine", MACHINE]].concat()));
    let text = fs::read_to_string(scratch.project().join("node.signed")).unwrap();
    let envelope: Value = serde_json::from_str(&text).unwrap();
    let kind = envelope["payloadType"].as_str().unwrap();
    let head = format!("text/x-osbuild-node; machine={}; replaces=", MACHINE.to_lowercase());
    let time: u64 = kind.strip_prefix(&head).unwrap().parse().unwrap();
    assert!((began..=UNIX_EPOCH.elapsed().unwrap().as_secs()).contains(&time), "{kind}");
}

#[test]
fn a_document_with_a_mistake_and_a_machine_without_an_identifier_are_not_signed() {
    let scratch = workshop();
    let file = scratch.project().join("node.toml");
    for (text, machine, reason) in [
        ("hostnam = \"a\"\n", MACHINE, "hostnam"),
        (DOCUMENT, "vm-1", "`vm-1` is not the UUID of a machine"),
    ] {
        fs::write(&file, text).unwrap();
        let path = file.to_str().unwrap();
        let ran = scratch.osbuild(&["node", "sign", path, "--key", "mine", "--machine", machine]);
        assert_eq!(ran.code, Some(2), "{}", ran.stderr);
        assert!(ran.stderr.contains(reason), "{}", ran.stderr);
        assert!(!scratch.project().join("node.signed").exists());
    }
}
