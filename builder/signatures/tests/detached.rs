//! Detached signatures against openssl, and against flipped bits.

mod support;

use osbuild_signatures::{Error, detached};
use proptest::prelude::*;
use std::sync::LazyLock;
use support::{Signer, openssl};

static OURS: LazyLock<Signer> = LazyLock::new(|| Signer::new("ours"));
static OTHER: LazyLock<Signer> = LazyLock::new(|| Signer::new("other"));

const CONTENT: &[u8] = b"an initramfs\0\r\n";

static SIGNED: LazyLock<Vec<u8>> =
    LazyLock::new(|| detached::write(CONTENT, &OURS.certificate, &OURS.sign(CONTENT)).unwrap());

fn verified(content: &[u8], file: &[u8]) -> Result<String, Error> {
    detached::verify(content, file, std::slice::from_ref(&OURS.certificate))
        .map(|certificate| certificate.name())
}

#[test]
fn openssl_verifies_our_signature() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("content"), CONTENT).unwrap();
    std::fs::write(folder.path().join("signature"), &*SIGNED).unwrap();
    let cert = OURS.path("cert.pem");
    for verb in ["cms", "smime"] {
        let words = [
            verb,
            "-verify",
            "-binary",
            "-inform",
            "DER",
            "-in",
            "signature",
            "-content",
            "content",
            "-out",
            "verified",
        ];
        openssl(
            folder.path(),
            &[&words[..], &["-purpose", "any", "-CAfile", cert.to_str().unwrap()]].concat(),
        );
        assert_eq!(std::fs::read(folder.path().join("verified")).unwrap(), CONTENT);
    }
}

#[test]
fn we_verify_openssls_signature_in_ipxes_form() {
    std::fs::write(OURS.path("content"), CONTENT).unwrap();
    let words = [
        "smime", "-sign", "-binary", "-noattr", "-md", "sha256", "-in", "content", "-signer",
        "cert.pem", "-inkey", "key.pem",
    ];
    openssl(
        OURS.path("").as_path(),
        &[&words[..], &["-outform", "DER", "-out", "theirs"]].concat(),
    );
    let theirs = std::fs::read(OURS.path("theirs")).unwrap();
    assert_eq!(verified(CONTENT, &theirs), Ok("ours".into()));
}

#[test]
fn the_same_content_and_key_give_the_same_signature() {
    assert_eq!(detached::write(CONTENT, &OURS.certificate, &OURS.sign(CONTENT)).unwrap(), *SIGNED);
}

#[test]
fn a_signature_by_another_key_is_neither_written_nor_accepted() {
    let theirs = OTHER.sign(CONTENT);
    assert_eq!(
        detached::write(CONTENT, &OURS.certificate, &theirs),
        Err(Error::OtherKey("ours".into()))
    );
    let file = detached::write(CONTENT, &OTHER.certificate, &theirs).unwrap();
    assert_eq!(verified(CONTENT, &file), Err(Error::NotTrusted(vec!["other".into()])));
}

#[test]
fn other_content_is_refused() {
    assert_eq!(verified(b"another initramfs", &SIGNED), Err(Error::Digest));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, cut in 0..2000usize) {
        prop_assert!(verified(CONTENT, &bytes).is_err());
        let cut = cut.min(SIGNED.len() - 1);
        prop_assert!(verified(CONTENT, &SIGNED[..cut]).is_err());
    }

    #[test]
    fn a_flipped_bit_is_refused_or_has_no_effect(at: prop::sample::Index, bit in 0..8u8) {
        let mut file = SIGNED.clone();
        file[at.index(SIGNED.len())] ^= 1 << bit;
        // The included certificate has no effect: the trusted one verifies.
        if let Ok(name) = verified(CONTENT, &file) {
            prop_assert_eq!(name, "ours");
        }
    }
}
