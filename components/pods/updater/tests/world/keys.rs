//! Keys: Ed25519 for the repository, RSA with a certificate for programs.

use std::collections::HashMap;
use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{Ed25519KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use jiff::{Timestamp, ToSpan};
use osbuild_signatures::authenticode;
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::efi::{Listed, Variable, write_list};
use tough::editor::signed::SignedRole;
use tough::key_source::{KeySource, LocalKeySource};
use tough::schema::{KeyHolder, RoleKeys, RoleType, Root};

/// One Ed25519 key for all roles.
pub struct Keys {
    file: PathBuf,
}

impl Keys {
    /// A new one in this folder.
    pub fn new(folder: &Path) -> Keys {
        fs::create_dir_all(folder).unwrap();
        let file = folder.join("release.key");
        fs::write(&file, Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap()).unwrap();
        Keys { file }
    }

    /// The key as the editor takes it.
    pub fn sources(&self) -> Vec<Box<dyn KeySource>> {
        vec![Box::new(LocalKeySource { path: self.file.clone() })]
    }

    /// TUF's root metadata, version 1, by which every role has the key.
    pub fn root(&self) -> Vec<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let key = self.sources()[0].as_sign().await.unwrap().tuf_key();
            let id = key.key_id().unwrap();
            let threshold = NonZeroU64::MIN;
            let holder = || RoleKeys { keyids: vec![id.clone()], threshold, _extra: HashMap::new() };
            let roles = [RoleType::Root, RoleType::Snapshot, RoleType::Targets, RoleType::Timestamp];
            let root = Root {
                spec_version: "1.0.0".to_owned(),
                consistent_snapshot: true,
                version: NonZeroU64::MIN,
                expires: Timestamp::now() + (365 * 24).hours(),
                keys: [(id.clone(), key)].into(),
                roles: roles.map(|role| (role, holder())).into(),
                _extra: HashMap::new(),
            };
            let holder = KeyHolder::Root(root.clone());
            let signed = SignedRole::new(root, &holder, &self.sources(), &SystemRandom::new()).await.unwrap();
            signed.buffer().clone()
        })
    }
}

/// An RSA key with a certificate.
pub struct Certified {
    key: RsaKeyPair,
    certificate: Certificate,
}

impl Certified {
    /// A new key with a certificate for these years.
    pub fn new(years: std::ops::Range<i32>) -> Certified {
        let key = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
        let pair = rcgen::KeyPair::try_from(key.as_der().unwrap().as_ref()).unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let made = params.self_signed(&pair).unwrap();
        Certified { key, certificate: Certificate::from_der(made.der()).unwrap() }
    }

    /// The program with a signature by the key.
    pub fn signed(&self, program: &[u8]) -> Vec<u8> {
        let digest = authenticode::digest(program).unwrap();
        let mut signature = vec![0; self.key.public_modulus_len()];
        let message = authenticode::to_be_signed(&digest);
        self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), &message, &mut signature).unwrap();
        let mut signed = program.to_vec();
        authenticode::sign(&mut signed, &self.certificate, &signature).unwrap();
        signed
    }

    /// Has the firmware behind this folder enforce signatures, and trust this key, and not what is in `revoked`.
    pub fn enrolled(&self, firmware: &Path, revoked: &[Listed]) {
        let write = |name: &str, beside: Variable, bytes: &[u8]| {
            fs::write(firmware.join(format!("{name}-{}", beside.vendor())), [&[6, 0, 0, 0], bytes].concat()).unwrap();
        };
        let owner = Variable::Db.vendor();
        write("SecureBoot", Variable::Pk, &[1]);
        write("db", Variable::Db, &write_list(&[self.certificate.clone().into()], owner));
        write("dbx", Variable::Dbx, &write_list(revoked, owner));
    }
}
