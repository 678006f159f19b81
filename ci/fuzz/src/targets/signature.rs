//! PKCS#7 signatures, in the table of a PE image and beside a file, and the certificates in them.

use osbuild::plan::Date;
use osbuild::produce::sign::{DetachedSignature, EfiProgram, Signed};
use osbuild::ship::keys::{Keys, Role, Terms, make};
use osbuild_formats::pe;
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::{Error, authenticode, detached};

use crate::target::{Memory, Outcome, Target};

/// See the module. The parser builds a tree.
pub const TARGET: Target = Target { name: "signature", seeds, run, memory: Memory::per_byte(256) };

const CONTENT: &[u8] = b"0707";

fn run(input: &[u8]) -> Outcome {
    let inside = is_read_in_an_image(input);
    // No certificate is trusted, so a signature that was read is not trusted.
    let beside = matches!(detached::verify(CONTENT, input, &[]), Err(Error::NotTrusted(_)));
    let certificate = Certificate::from_der(input);
    if let Ok(certificate) = &certificate {
        assert_eq!(Certificate::from_der(certificate.der()).as_ref(), Ok(certificate));
        assert!(!certificate.subject().is_empty() || certificate.name().is_empty());
        assert!(!certificate.verifies(CONTENT, input));
    }
    if inside || beside || certificate.is_ok() { Outcome::Accepted } else { Outcome::Refused }
}

/// Whether the input is read as the signature of an image; it is never trusted.
fn is_read_in_an_image(input: &[u8]) -> bool {
    let mut image = super::pe::image();
    if pe::attach(&mut image, input).is_err() {
        return false;
    }
    let Ok(signatures) = authenticode::signatures(&image) else { return false };
    let [signature] = &signatures[..] else { panic!("one signature was attached") };
    assert!(
        !signature.name().is_empty()
            || signature.certificate().is_none_or(|certificate| certificate.subject().is_empty())
    );
    assert!(matches!(authenticode::verify(&image, &[]), Err(Error::NotTrusted(_))));
    true
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let keys = Keys::named(folder.path(), "seed").expect("the name is valid");
    make(&keys, Terms { since: Date { year: 2026, month: 1, day: 1 }, years: 1 }, None)
        .expect("keys can be made");
    let signer = keys.signer(Role::Db).expect("they were made");
    let image = Signed::by(&signer, EfiProgram(super::pe::image()))
        .expect("the image can be signed")
        .into_inner()
        .0;
    let inside = pe::certificates(&image).expect("it was signed")[0].to_vec();
    let beside = Signed::by(&signer, DetachedSignature::of(CONTENT))
        .expect("bytes can be signed")
        .into_inner()
        .signature()
        .to_vec();
    let certificate = keys.certificate(Role::Db).expect("it was made");
    vec![inside, beside, certificate.der().to_vec()]
}
