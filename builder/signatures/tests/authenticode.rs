//! Authenticode signatures against sbsigntool, osslsigncode and openssl, and against flipped bits.

mod support;

use osbuild_formats::{pe, uki};
use osbuild_signatures::authenticode::{self, Error};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use support::{Signer, openssl, tool};

const FOLDER: &str = "/usr/lib/systemd/boot/efi";

static OURS: LazyLock<Signer> = LazyLock::new(|| Signer::new("ours"));
static OTHER: LazyLock<Signer> = LazyLock::new(|| Signer::new("other"));

/// A small UKI with a signature that all verifiers should accept.
static SIGNED: LazyLock<Vec<u8>> = LazyLock::new(|| signed(unsigned(), &OURS));

fn debian(name: &str) -> Vec<u8> {
    let path = format!("{FOLDER}/{name}");
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!("{path}: {error}: install the Debian package `systemd-boot-efi`")
    })
}

fn unsigned() -> Vec<u8> {
    let parts = uki::Parts {
        os_release: "ID=osbuild\n",
        command_line: "quiet",
        uname: "6.12.117",
        security_epoch: 1,
        initramfs: &[7; 5000],
        kernel: &debian("systemd-bootx64.efi"),
    };
    uki::build(&debian("linuxx64.efi.stub"), &parts).unwrap()
}

fn signed(mut image: Vec<u8>, signer: &Signer) -> Vec<u8> {
    let digest = authenticode::digest(&image).unwrap();
    let signature = signer.sign(&authenticode::to_be_signed(&digest));
    authenticode::sign(&mut image, &signer.certificate, &signature).unwrap();
    image
}

/// Runs a tool on a file `image.efi` with these bytes.
fn on_file(
    image: &[u8],
    folder: &Path,
    package: &str,
    program: &str,
    arguments: &[&str],
) -> String {
    std::fs::write(folder.join("image.efi"), image).unwrap();
    tool(package, Command::new(program).current_dir(folder).args(arguments))
}

fn verified(image: &[u8], signer: &Signer) -> Result<String, Error> {
    authenticode::verify(image, std::slice::from_ref(&signer.certificate))
        .map(|verified| verified.by.name())
}

#[test]
fn sbverify_accepts_our_signature() {
    let cert = OURS.path("cert.pem");
    let folder = tempfile::tempdir().unwrap();
    let output_text = on_file(
        &SIGNED,
        folder.path(),
        "sbsigntool",
        "sbverify",
        &["--cert", cert.to_str().unwrap(), "image.efi"],
    );
    assert!(output_text.contains("Signature verification OK"), "{output_text}");
    let listed =
        on_file(&SIGNED, folder.path(), "sbsigntool", "sbverify", &["--list", "image.efi"]);
    assert!(listed.contains("CN=ours") || listed.contains("CN = ours"), "{listed}");
}

#[test]
fn osslsigncode_computes_the_checksum_that_we_wrote() {
    // The written checksum and the right one; some versions print only one if both are equal.
    let checksums = |image: &[u8]| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("image.efi"), image).unwrap();
        let mut verify = Command::new("osslsigncode");
        // osslsigncode rejects a signature without an attribute of Microsoft's, even those of
        // `sbsign`, so its exit status is meaningless here.
        let output = verify
            .current_dir(folder.path())
            .args(["verify", "-in", "image.efi"])
            .output()
            .unwrap();
        let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
        let values = output_text
            .lines()
            .filter_map(|line| line.split_once("PE checksum")?.1.split_once(':'));
        values.map(|(_, value)| value.trim().to_owned()).collect::<BTreeSet<_>>()
    };
    let mut wrong = SIGNED.clone();
    let headers = u32::from_le_bytes(wrong[60..64].try_into().unwrap()) as usize;
    // `CheckSum` follows the signature, the file header, and 64 bytes of the optional header.
    wrong[headers + 4 + 20 + 64] ^= 1;
    let (ours, theirs) = (checksums(&SIGNED), checksums(&wrong));
    assert_eq!((ours.len(), theirs.len()), (1, 2), "{ours:?} {theirs:?}");
}

#[test]
fn openssl_finds_the_signed_attributes_without_a_time() {
    let folder = tempfile::tempdir().unwrap();
    on_file(
        &SIGNED,
        folder.path(),
        "sbsigntool",
        "sbattach",
        &["--detach", "signature", "image.efi"],
    );
    assert_eq!(
        std::fs::read(folder.path().join("signature")).unwrap(),
        pe::certificates(&SIGNED).unwrap()[0]
    );
    let shown = openssl(folder.path(), &["pkcs7", "-inform", "DER", "-in", "signature", "-print"]);
    assert!(shown.contains("messageDigest") && shown.contains("contentType"), "{shown}");
    assert!(!shown.contains("signingTime"), "{shown}");
}

#[test]
fn an_image_that_sbsign_signed_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (key, cert) = (OURS.path("key.pem"), OURS.path("cert.pem"));
    let arguments = [
        "--key",
        key.to_str().unwrap(),
        "--cert",
        cert.to_str().unwrap(),
        "--output",
        "signed.efi",
        "image.efi",
    ];
    on_file(&unsigned(), folder.path(), "sbsigntool", "sbsign", &arguments);
    let theirs = std::fs::read(folder.path().join("signed.efi")).unwrap();
    assert_eq!(verified(&theirs, &OURS), Ok("ours".into()));
    let named = authenticode::signatures(&theirs).unwrap();
    assert_eq!(named.iter().map(authenticode::Signature::name).collect::<Vec<_>>(), ["ours"]);
}

#[test]
fn the_same_key_and_image_give_the_same_bytes() {
    assert_eq!(signed(unsigned(), &OURS), *SIGNED);
}

#[test]
fn only_a_signature_of_a_trusted_key_is_accepted() {
    assert_eq!(verified(&SIGNED, &OURS), Ok("ours".into()));
    assert_eq!(verified(&SIGNED, &OTHER), Err(Error::NotTrusted(vec!["ours".into()])));
    assert_eq!(verified(&unsigned(), &OURS), Err(Error::Unsigned));
    assert_eq!(authenticode::verify(&SIGNED, &[]), Err(Error::NotTrusted(vec!["ours".into()])));
}

#[test]
fn a_second_signature_leaves_the_first_one_valid() {
    let both = signed(SIGNED.clone(), &OTHER);
    assert_eq!(
        (verified(&both, &OURS), verified(&both, &OTHER)),
        (Ok("ours".into()), Ok("other".into()))
    );
    let folder = tempfile::tempdir().unwrap();
    for signer in [&OURS, &OTHER] {
        let cert = signer.path("cert.pem");
        on_file(
            &both,
            folder.path(),
            "sbsigntool",
            "sbverify",
            &["--cert", cert.to_str().unwrap(), "image.efi"],
        );
    }
}

#[test]
fn removing_the_signatures_restores_the_signed_image() {
    let mut image = signed(SIGNED.clone(), &OTHER);
    pe::detach(&mut image).unwrap();
    assert_eq!(image, unsigned());
    pe::detach(&mut image).unwrap();
    assert_eq!(image, unsigned());
}

#[test]
fn an_image_of_any_length_is_padded_for_its_signature() {
    for extra in 1..=8 {
        let mut image = unsigned();
        image.extend(std::iter::repeat_n(9, extra));
        let image = signed(image, &OURS);
        assert_eq!(verified(&image, &OURS), Ok("ours".into()));
        let (folder, cert) = (tempfile::tempdir().unwrap(), OURS.path("cert.pem"));
        on_file(
            &image,
            folder.path(),
            "sbsigntool",
            "sbverify",
            &["--cert", cert.to_str().unwrap(), "image.efi"],
        );
    }
}

#[test]
fn a_signature_of_another_key_is_not_attached() {
    let mut image = unsigned();
    let signature = OTHER.sign(&authenticode::to_be_signed(&authenticode::digest(&image).unwrap()));
    assert_eq!(
        authenticode::sign(&mut image, &OURS.certificate, &signature),
        Err(Error::OtherKey("ours".into()))
    );
    assert_eq!(image, unsigned());
}

#[test]
fn bytes_outside_the_sections_are_refused() {
    let mut image = unsigned();
    let parsed = pe::Image::parse(&image).unwrap();
    let (last, table) = (
        parsed.sections.len() - 1,
        image.windows(8).position(|name| name == b".text\0\0\0").unwrap(),
    );
    // The last section's data begin after the end of the section before it.
    let offset = table + last * 40 + 20;
    image[offset + 1] += 2;
    image.extend([0; 512]);
    assert_eq!(authenticode::digest(&image), Err(Error::Image(pe::Error::Layout(".linux".into()))));
}

/// The range of the signature's certificates, which it does not cover: a verifier looks up the
/// certificate itself.
fn certificate_in(image: &[u8]) -> std::ops::Range<usize> {
    let der = OURS.certificate.der();
    let start = image.windows(der.len()).position(|window| window == der).unwrap();
    start..start + der.len()
}

#[test]
fn a_digest_from_wrong_headers_is_recomputed() {
    let mut lying = SIGNED.clone();
    let directory = pe::covered(&SIGNED).unwrap()[1].end;
    lying[directory] ^= 8;
    let mut hasher = authenticode::Hasher::default();
    hasher.push(&lying);
    assert_eq!(hasher.finish(&SIGNED), authenticode::digest(&SIGNED));
    let unsigned = unsigned();
    assert_eq!(authenticode::Hasher::default().finish(&unsigned), authenticode::digest(&unsigned));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_flipped_bit_in_the_covered_bytes_breaks_the_signature(
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let ranges = pe::covered(&SIGNED).unwrap();
        let length = ranges.iter().map(|range| range.len()).sum();
        let mut at = at.index(length);
        for range in ranges {
            if at < range.len() {
                at += range.start;
                break;
            }
            at -= range.len();
        }
        let mut image = SIGNED.clone();
        image[at] ^= 1 << bit;
        prop_assert!(verified(&image, &OURS).is_err(), "byte {at:#x}");
    }

    #[test]
    fn an_image_in_pieces_has_the_same_digest(
        pieces in prop::collection::vec(1..9000usize, 0..60),
        first in 0..5000usize,
    ) {
        let (mut hasher, mut rest) = (authenticode::Hasher::default(), &SIGNED[..]);
        for piece in [first].into_iter().chain(pieces) {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            hasher.push(now);
            rest = later;
        }
        hasher.push(rest);
        prop_assert_eq!(hasher.finish(&SIGNED), authenticode::digest(&SIGNED));
    }

    #[test]
    fn a_flipped_bit_in_the_signature_breaks_it_or_has_no_effect(
        at in any::<prop::sample::Index>(),
        bit in 0..8u8,
    ) {
        let table = pe::covered(&SIGNED).unwrap()[2].end;
        let at = table + at.index(SIGNED.len() - table);
        let mut image = SIGNED.clone();
        image[at] ^= 1 << bit;
        let signatures = authenticode::signatures(&image);
        if verified(&image, &OURS).is_ok() {
            // The content is still the signed one.
            prop_assert!(
                certificate_in(&SIGNED).contains(&at)
                    || signatures.as_ref().unwrap()[0].digest
                        == authenticode::digest(&SIGNED).unwrap()
            );
            prop_assert_eq!(&image[..table], &SIGNED[..table]);
        }
    }

    #[test]
    fn damaged_signatures_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        length in any::<prop::sample::Index>(),
    ) {
        let table = pe::covered(&SIGNED).unwrap()[2].end;
        let mut image = SIGNED.clone();
        for (at, byte) in changes {
            let at = table + at.index(image.len() - table);
            image[at] = byte;
        }
        let _ = verified(&image, &OURS);
        image.truncate(length.index(image.len()));
        let _ = verified(&image, &OURS);
        let _ = pe::detach(&mut image);
    }
}
