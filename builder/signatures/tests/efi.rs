//! Lists, updates and variable stores against efitools, openssl and virt-firmware, and damaged
//! input.

mod support;

use osbuild_signatures::authenticode;
use osbuild_signatures::efi::{
    Error, Listed, Store, Update, UpdateTime, Variable, read_known, read_list, write_list,
};
use proptest::prelude::*;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;
use support::{Signer, openssl, tool};
use uuid::{Uuid, uuid};

const OWNER: Uuid = uuid!("8a1b0c5e-0000-5000-8000-000000000001");

fn listed(signer: &Signer) -> Listed {
    signer.certificate.clone().into()
}

const TIME: UpdateTime = UpdateTime { year: 2026, month: 11, day: 21, second: 3_661 };

static OURS: LazyLock<Signer> = LazyLock::new(|| Signer::new("ours"));
static OTHER: LazyLock<Signer> = LazyLock::new(|| Signer::new("other"));

fn firmware() -> Vec<u8> {
    let path = "/usr/share/OVMF/OVMF_VARS_4M.fd";
    std::fs::read(path)
        .unwrap_or_else(|error| panic!("{path}: {error}: install the Debian package `ovmf`"))
}

fn enrolled() -> Store {
    let mut store = Store::read(firmware()).unwrap();
    for variable in Variable::ENROLLED {
        store.set(variable, TIME, &write_list(&[listed(&OURS)], OWNER));
    }
    store.enforce();
    store
}

/// Runs a program of efitools on files in a folder.
fn efitools(folder: &Path, program: &str, arguments: &[&str]) {
    tool("efitools", Command::new(program).current_dir(folder).args(arguments));
}

#[test]
fn a_list_reads_back_as_it_was_written() {
    let list = write_list(&[listed(&OURS), Listed::Image([7; 32]), listed(&OTHER)], OWNER);
    assert_eq!(read_list(&list).unwrap(), [listed(&OURS), Listed::Image([7; 32]), listed(&OTHER)]);
}

#[test]
fn unknown_entries_spoil_our_lists_and_are_skipped_in_others() {
    let mut other = write_list(&[Listed::Image([9; 32])], OWNER);
    other[0] ^= 1;
    let list =
        [write_list(&[Listed::Image([7; 32])], OWNER), other, write_list(&[listed(&OURS)], OWNER)]
            .concat();
    assert!(read_list(&list).is_err());
    assert_eq!(read_known(&list).unwrap(), [Listed::Image([7; 32]), listed(&OURS)]);
    assert!(read_known(&list[..list.len() - 1]).is_err());
}

#[test]
fn debians_enrolled_certificates_are_read() {
    let path = "/usr/share/OVMF/OVMF_VARS_4M.ms.fd";
    let store = Store::read(
        std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}: install `ovmf`")),
    )
    .unwrap();
    for (variable, min) in [(Variable::Db, 2), (Variable::Dbx, 1)] {
        let known = read_known(store.get(variable).unwrap()).unwrap();
        assert!(known.len() >= min, "{variable:?}: {}", known.len());
    }
}

#[test]
fn efitools_write_the_same_list_and_read_ours() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, list) = (OURS.path("cert.pem"), write_list(&[listed(&OURS)], OWNER));
    efitools(
        folder.path(),
        "cert-to-efi-sig-list",
        &["-g", &OWNER.to_string(), cert.to_str().unwrap(), "theirs.esl"],
    );
    assert_eq!(std::fs::read(folder.path().join("theirs.esl")).unwrap(), list);
    std::fs::write(folder.path().join("ours.esl"), &list).unwrap();
    efitools(folder.path(), "sig-list-to-certs", &["ours.esl", "cert"]);
    assert_eq!(std::fs::read(folder.path().join("cert-0.der")).unwrap(), OURS.certificate.der());
}

#[test]
fn efitools_compute_the_same_image_digest() {
    let folder = tempfile::tempdir().unwrap();
    let path = "/usr/lib/systemd/boot/efi/systemd-bootx64.efi";
    let image = std::fs::read(path)
        .unwrap_or_else(|error| panic!("{path}: {error}: install `systemd-boot-efi`"));
    efitools(folder.path(), "hash-to-efi-sig-list", &[path, "theirs.esl"]);
    let theirs = std::fs::read(folder.path().join("theirs.esl")).unwrap();
    let listed = Listed::Image(authenticode::digest(&image).unwrap());
    assert_eq!(read_list(&theirs).unwrap(), std::slice::from_ref(&listed));
    let ours = write_list(&[listed], OWNER);
    // The owner precedes the second one.
    assert_eq!((&theirs[..28], &theirs[44..]), (&ours[..28], &ours[44..]));
}

#[test]
fn we_sign_the_same_bytes_as_efitools() {
    let folder = tempfile::tempdir().unwrap();
    let content = write_list(&[listed(&OURS)], OWNER);
    std::fs::write(folder.path().join("db.esl"), &content).unwrap();
    let (key, cert) = (OURS.path("key.pem"), OURS.path("cert.pem"));
    let (key, cert) = (key.to_str().unwrap(), cert.to_str().unwrap());
    let time = ["-t", "2026-11-21 01:01:01"];
    efitools(
        folder.path(),
        "sign-efi-sig-list",
        &[&time[..], &["-o", "db", "db.esl", "message"]].concat(),
    );
    let update = Update { variable: Variable::Db, time: TIME, content };
    assert_eq!(std::fs::read(folder.path().join("message")).unwrap(), update.to_be_signed());
    efitools(
        folder.path(),
        "sign-efi-sig-list",
        &[&time[..], &["-k", key, "-c", cert, "db", "db.esl", "db.auth"]].concat(),
    );
    let (theirs, ours) = (std::fs::read(folder.path().join("db.auth")).unwrap(), signed(&update));
    // The time, and the bytes after the length of a signature that names its signer in another
    // order.
    assert_eq!((&theirs[..16], &theirs[20..40]), (&ours[..16], &ours[20..40]));
    assert!(theirs.ends_with(&update.content) && ours.ends_with(&update.content));
}

fn signed(update: &Update) -> Vec<u8> {
    update.signed(&OURS.certificate, &OURS.sign(&update.to_be_signed())).unwrap()
}

#[test]
fn openssl_verifies_the_signature_of_an_update() {
    let folder = tempfile::tempdir().unwrap();
    let update = Update {
        variable: Variable::Kek,
        time: TIME,
        content: write_list(&[listed(&OURS)], OWNER),
    };
    let auth = signed(&update);
    let bare = &auth[40..auth.len() - update.content.len()];
    // openssl expects a `ContentInfo` around it.
    let length = |bytes: &[u8]| {
        [vec![0x82], u16::try_from(bytes.len()).unwrap().to_be_bytes().to_vec()].concat()
    };
    let inner = [vec![0xA0], length(bare), bare.to_vec()].concat();
    let inner = [b"\x06\x09\x2A\x86\x48\x86\xF7\x0D\x01\x07\x02".to_vec(), inner].concat();
    std::fs::write(folder.path().join("signature"), [vec![0x30], length(&inner), inner].concat())
        .unwrap();
    std::fs::write(folder.path().join("message"), update.to_be_signed()).unwrap();
    let cert = OURS.path("cert.pem");
    let verify = [
        "cms",
        "-verify",
        "-binary",
        "-inform",
        "DER",
        "-in",
        "signature",
        "-content",
        "message",
        "-purpose",
        "any",
    ];
    openssl(
        folder.path(),
        &[&verify[..], &["-CAfile", cert.to_str().unwrap(), "-out", "out"]].concat(),
    );
}

#[test]
fn an_update_signed_with_another_key_is_not_written() {
    let update = Update { variable: Variable::Db, time: TIME, content: Vec::new() };
    let signature = OTHER.sign(&update.to_be_signed());
    assert_eq!(update.signed(&OURS.certificate, &signature), Err(Error::OtherKey("ours".into())));
}

#[test]
fn variables_read_back_and_replace_each_other() {
    let mut store = Store::read(enrolled().write().unwrap()).unwrap();
    assert_eq!(store, Store::read(enrolled().write().unwrap()).unwrap());
    for variable in Variable::ENROLLED {
        assert_eq!(read_list(store.get(variable).unwrap()).unwrap(), [listed(&OURS)]);
    }
    store.set(Variable::Db, TIME, &write_list(&[listed(&OTHER)], OWNER));
    store.remove(Variable::Kek);
    let again = Store::read(store.write().unwrap()).unwrap();
    assert_eq!(read_list(again.get(Variable::Db).unwrap()).unwrap(), [listed(&OTHER)]);
    assert_eq!((again.get(Variable::Kek), again.get(Variable::Dbx)), (None, None));
    assert_eq!(again.write().unwrap().len(), firmware().len());
}

#[test]
fn virt_firmware_finds_our_certificates_and_secure_boot_on() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("vars.fd"), enrolled().write().unwrap()).unwrap();
    let arguments = ["--input", "vars.fd", "--print", "--verbose"];
    let text = tool(
        "virt-firmware (pip)",
        Command::new("virt-fw-vars").current_dir(folder.path()).args(arguments),
    );
    for variable in Variable::ENROLLED {
        assert!(
            text.contains(&format!("name={} ", variable.name())),
            "{}: {text}",
            variable.name()
        );
    }
    assert!(text.contains("bool: ON") && text.matches("subject CN=ours").count() == 3, "{text}");
}

#[test]
fn variables_that_exceed_the_store_are_refused() {
    let mut store = enrolled();
    store.set(Variable::Dbx, TIME, &vec![0; 1 << 20]);
    assert_eq!(store.write(), Err(Error::Full));
    assert_eq!(Store::read(vec![0; 4096]), Err(Error::NoStore));
}

proptest! {
    #[test]
    fn damaged_files_of_variables_never_panic(
        changes in prop::collection::vec((0..4096usize, any::<u8>()), 1..12),
        length in 0..4096usize,
    ) {
        static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| enrolled().write().unwrap());
        let mut file = FILE.clone();
        for (at, byte) in changes {
            file[at] = byte;
        }
        for file in [file.clone(), file[..length].to_vec()] {
            if let Ok(store) = Store::read(file) {
                let _ = (store.get(Variable::Db).map(read_list), store.write());
            }
        }
    }

    #[test]
    fn damaged_lists_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        length in any::<prop::sample::Index>(),
    ) {
        let mut list = write_list(&[listed(&OURS), Listed::Image([7; 32]), listed(&OTHER)], OWNER);
        for (at, byte) in changes {
            let at = at.index(list.len());
            list[at] = byte;
        }
        let _ = read_list(&list);
        let _ = read_list(&list[..length.index(list.len())]);
    }
}
