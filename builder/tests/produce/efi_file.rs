//! Signing a program in a file.

use osbuild::engine::digest::Digest;
use osbuild::plan::Date;
use osbuild::produce::sign::{EfiFile, EfiProgram, Signed};
use osbuild::ship::keys::{Keys, Role, Terms, make};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

#[test]
fn a_program_in_a_file_is_signed_like_one_in_memory() {
    let path = "/usr/lib/systemd/boot/efi/linuxx64.efi.stub";
    let stub = std::fs::read(path)
        .unwrap_or_else(|error| panic!("{path}: {error}: install `systemd-boot-efi`"));
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys::named(folder.path(), "mine").unwrap();
    make(&keys, Terms { since: Date { year: 2026, month: 1, day: 1 }, years: 1 }, None).unwrap();
    let signer = keys.signer(Role::Db).unwrap();
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
