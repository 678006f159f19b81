//! Signing a program in a file.

use osbuild::engine::digest::Digest;
use osbuild::error::Kind;
use osbuild::plan::Date;
use osbuild::produce::sign::{Certified, DetachedSignature, EfiFile, EfiProgram, Signed, Signer};
use osbuild::ship::keys::{Keys, Role, Terms, make};
use osbuild_signatures::certificate::Certificate;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A signer that signs the next digest instead, as a faulty token may.
struct Faulty(Certified);

impl Signer for Faulty {
    fn certificate(&self) -> &Certificate {
        self.0.certificate()
    }

    fn sign(&self, digest: &Digest) -> osbuild::error::Result<Vec<u8>> {
        self.0.sign(&Digest::of(digest.hash()))
    }
}

/// A key for images.
fn signer() -> Certified {
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys::named(folder.path(), "mine").unwrap();
    make(&keys, Terms { since: Date { year: 2026, month: 1, day: 1 }, years: 1 }, None).unwrap();
    keys.signer(Role::Db).unwrap()
}

#[test]
fn a_signature_that_its_certificate_does_not_verify_is_refused() {
    let signer = signer();
    assert!(Signed::by(&signer, DetachedSignature::of(b"initramfs")).is_ok());
    let error = Signed::by(&Faulty(signer), DetachedSignature::of(b"initramfs")).unwrap_err();
    assert_eq!(error.kind, Kind::Digest);
}

#[test]
fn a_program_in_a_file_is_signed_like_one_in_memory() {
    let path = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
    let stub = std::fs::read(path)
        .unwrap_or_else(|error| panic!("{path}: {error}: install `systemd-boot-efi`"));
    let signer = signer();
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&stub, 0).unwrap();
    let (mut in_memory, mut in_file) = (EfiProgram(stub), EfiFile::new(file, Path::new("stub")));
    // The second signature follows the first.
    for _ in 0..2 {
        in_memory = Signed::by(&signer, in_memory).unwrap().into_inner();
        in_file = Signed::by(&signer, in_file).unwrap().into_inner();
        let mut bytes = Vec::new();
        in_file.start().unwrap().read_to_end(&mut bytes).unwrap();
        assert!(bytes == in_memory.0);
        assert_eq!(in_file.digest().unwrap(), Digest::of(&bytes));
    }
}
