use super::*;
use osbuild_rollout::Schedule;
use proptest::prelude::*;

fn document() -> Document {
    let file = |length: u64| File { length, sha256: Sha256([length as u8; 32]) };
    let files = [(target::NODE, file(70)), (target::BOOT, file(7))]
        .map(|(name, file)| (name.to_owned(), file));
    Document::new("qemu-amd64", "1.35.8", Architecture::Amd64, 1, "2026-11-21", files.into())
        .unwrap()
}

/// The document with a rollout that has every key.
fn rolled_out() -> Document {
    let schedule: Schedule = serde_json::from_value(serde_json::json!({
        "waves": [
            { "nodes": "0.5%" },
            { "nodes": "100%", "after-hours": 24, "over-hours": 48 },
        ],
        "windows": [{ "days": ["sat", "sun"], "start": "22:00", "hours": 8 }],
    }))
    .unwrap();
    let begins = "2026-11-21T00:00:00Z".parse().unwrap();
    Document { rollout: Some(Rollout::new(schedule, "1.35.8", begins).stop()), ..document() }
}

/// Reads the document after one change to its text.
fn changed(before: &str, after: &str) -> Result<Document, Refusal> {
    changed_in(&document(), before, after)
}

fn changed_in(document: &Document, before: &str, after: &str) -> Result<Document, Refusal> {
    let text = String::from_utf8(document.encode()).unwrap();
    assert!(text.contains(before), "{text} has no {before}");
    Document::parse(text.replacen(before, after, 1).as_bytes())
}

#[test]
fn a_document_has_the_specified_keys() {
    let value: serde_json::Value = serde_json::from_slice(&document().encode()).unwrap();
    let digest = "46".repeat(32);
    assert_eq!(value["format"], 1);
    assert_eq!(value["security-epoch"], 1);
    assert_eq!(value["architecture"], "amd64");
    assert_eq!(value["files"]["node.efi"], serde_json::json!({ "length": 70, "sha256": digest }));
    assert_eq!(value.as_object().unwrap().len(), 7);
}

#[test]
fn unknown_missing_and_duplicate_keys_are_refused() {
    for (before, after) in [
        ("\"format\": 1", "\"format\": 2"),
        ("\"format\": 1,", ""),
        ("\"format\": 1,", "\"format\": 1,\n  \"more\": 1,"),
        ("\"node.efi\"", "\"other.efi\""),
        ("\"boot.efi\"", "\"node.efi\""),
        ("\"length\": 70", "\"length\": -1"),
        ("\"length\": 70", "\"length\": 70,\n      \"md5\": 1"),
        ("4646", "464"),
        ("4646", "46FF"),
        (": \"amd64\"", ": \"riscv\""),
        ("  \"recipe\"", " \"recipe\""),
        ("\n}\n", "\n}\n\n"),
    ] {
        assert!(changed(before, after).is_err(), "{before} -> {after}");
    }
}

#[test]
fn a_rollout_has_the_specified_keys() {
    let document = rolled_out();
    let value: serde_json::Value = serde_json::from_slice(&document.encode()).unwrap();
    assert_eq!(
        value["rollout"],
        serde_json::json!({
            "begins": "2026-11-21T00:00:00Z",
            "order": "1.35.8",
            "waves": [
                { "nodes": "0.5%" },
                { "nodes": "100%", "after-hours": 24, "over-hours": 48 },
            ],
            "windows": [{ "days": ["sat", "sun"], "start": "22:00", "hours": 8 }],
            "stopped": true,
        })
    );
    assert_eq!(Document::parse(&document.encode()), Ok(document));
}

#[test]
fn a_rollout_is_as_strict_as_the_document() {
    let document = rolled_out();
    for (before, after) in [
        ("\"stopped\": true", "\"stopped\": false"),
        ("\"stopped\": true", "\"stopped\": 1"),
        ("\"order\": \"1.35.8\",", ""),
        ("\"order\"", "\"seed\""),
        ("11-21T00:00:00Z\"", "11-21T00:00:00+00:00\""),
        ("11-21T00:00:00Z\"", "11-31T00:00:00Z\""),
        ("0.5%", "0.50%"),
        ("\"0.5%\"", "\"100%\""),
        ("\"0.5%\"", "\"0.5%\",\n          \"after-hours\": 0"),
        ("\"0.5%\"", "\"0.5%\",\n          \"over-hours\": 25"),
        ("22:00", "22:0"),
        ("\"hours\": 8", "\"hours\": 0"),
        ("\"sun\"", "\"Sun\""),
    ] {
        assert!(changed_in(&document, before, after).is_err(), "{before} -> {after}");
    }
}

#[test]
fn a_node_from_before_rollouts_refuses_a_document_with_one() {
    // The keys that the documents of `3366aed` have, which refuses all others.
    let keys = |document: &Document| {
        let value: serde_json::Value = serde_json::from_slice(&document.encode()).unwrap();
        value.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    let known = ["architecture", "date", "files", "format", "recipe", "security-epoch", "version"];
    assert_eq!(keys(&document()), known);
    assert_eq!(keys(&rolled_out()).iter().filter(|key| !known.contains(&key.as_str())).count(), 1);
}

#[test]
fn a_name_cannot_leave_a_folder() {
    for name in
        ["", "..", ".x", "a/b", "a\\\\b", "-x", "a_b", "a+b", "a b", "\\u0000", &"x".repeat(65)]
    {
        assert!(changed("\"1.35.8\"", &format!("\"{name}\"")).is_err(), "{name}");
        assert!(changed("\"qemu-amd64\"", &format!("\"{name}\"")).is_err(), "{name}");
    }
    assert!(changed("\"1.35.8\"", "\"1.35.8-2~rc.1\"").is_ok());
    assert!(changed("2026-11-21", "2026-11-2x").is_err());
}

#[test]
fn a_document_that_is_too_long_is_not_read() {
    let long = [document().encode(), vec![b' '; Document::MAX_BYTES]].concat();
    assert!(Document::parse(&long).unwrap_err().to_string().contains("more than"));
}

proptest! {
    #[test]
    fn a_written_document_reads_back(
        version in "[A-Za-z0-9][A-Za-z0-9.~-]{0,63}",
        epoch: u32,
        digest: [u8; 32],
        length: u64,
    ) {
        let mut document = document();
        document.files.insert("sbom.spdx.json".to_owned(), File { length, sha256: Sha256(digest) });
        let document = Document { version, security_epoch: epoch, ..document };
        prop_assert_eq!(Document::parse(&document.encode()), Ok(document));
    }

    #[test]
    fn no_bytes_panic_and_a_read_document_encodes_to_the_same_bytes(at in 0usize..1200, byte: u8) {
        let mut bytes = rolled_out().encode();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(document) = Document::parse(&bytes) {
            prop_assert_eq!(document.encode(), bytes);
        }
    }
}
