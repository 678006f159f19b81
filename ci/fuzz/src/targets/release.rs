//! The parts of a release that updaters and `osbuild verify` read: its document, the node's
//! settings, and the documents beside it.

use std::collections::BTreeMap;

use osbuild::produce::sign::ReleasePublicKey;
use osbuild::ship::release::{dsse, provenance, sbom};
use osbuild_abi::update::Settings;
use osbuild_release::{Architecture, Document, File, Sha256, target};

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target = Target { name: "release", seeds, run, memory: Memory::per_byte(256) };

fn run(input: &[u8]) -> Outcome {
    let document = Document::parse(input);
    if let Ok(document) = &document {
        assert_eq!(document.encode(), input, "a document has one encoding");
        let Document { recipe, version, files, .. } = document;
        let mut names = files.keys().map(|name| target::file(recipe, version, name));
        assert!(
            names.all(|name| !name.starts_with('.') && !name.contains(['/', '\\'])),
            "{files:?}"
        );
        assert!(files.contains_key(target::NODE) && files.contains_key(target::BOOT));
    }
    let settings = str::from_utf8(input).ok().and_then(Settings::parse);
    if let Some(settings) = &settings {
        assert_eq!(Settings::parse(&settings.to_string()), Some(*settings));
    }
    let unused_key = ReleasePublicKey::Ed25519([0; 32]);
    assert!(
        dsse::open(input, provenance::STATEMENT, &[unused_key]).is_err(),
        "no input has a signature of this key"
    );
    assert!(
        provenance::check(input, &BTreeMap::from([("x".to_owned(), "y".to_owned())]), "", &[])
            .is_err()
    );
    let _ = sbom::check(input, ["x", "y"], &[]);
    if document.is_ok() || settings.is_some() { Outcome::Accepted } else { Outcome::Refused }
}

fn seeds() -> Vec<Vec<u8>> {
    let file = |length: u64| File { length, sha256: Sha256([7; 32]) };
    let files = [target::NODE, target::BOOT].map(|name| (name.to_owned(), file(70 << 20)));
    let document =
        Document::new("qemu-amd64", "1.35.8", Architecture::Amd64, 1, "2026-11-21", files.into());
    let settings = "url https://updates.example/nodes\nchannel stable\nrecipe qemu-amd64\n\
                    interval-s 3600\nwaits-for-grant true\nsecurity-epoch 1\n";
    vec![
        document.expect("these are names").encode(),
        settings.as_bytes().to_vec(),
        br#"{"payloadType":"application/vnd.in-toto+json","payload":"e30=",
            "signatures":[{"keyid":"","sig":"AAAA"}]}"#
            .to_vec(),
        br#"{"spdxVersion":"SPDX-2.3",
            "packages":[{"SPDXID":"SPDXRef-node","checksums":[{"checksumValue":"x"}]}]}"#
            .to_vec(),
    ]
}
