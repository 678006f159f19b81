use super::*;
use proptest::prelude::*;

fn document() -> Document {
    let file = |length: u64| File { length, sha256: Sha256([length as u8; 32]) };
    let files = [(target::NODE, file(70)), (target::BOOT, file(7))]
        .map(|(name, file)| (name.to_owned(), file));
    Document::new("qemu-amd64", "1.35.8", Architecture::Amd64, 1, "2026-11-21", files.into())
        .unwrap()
}

/// Reads the document after one change to its text.
fn changed(before: &str, after: &str) -> Result<Document, Refusal> {
    let text = String::from_utf8(document().encode()).unwrap();
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
    fn no_bytes_panic_and_a_read_document_encodes_to_the_same_bytes(at in 0usize..600, byte: u8) {
        let mut bytes = document().encode();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(document) = Document::parse(&bytes) {
            prop_assert_eq!(document.encode(), bytes);
        }
    }
}
