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
    /// TUF's root metadata from version 1 on, parsed and as a file. The last give every role this
    /// key.
    roots: Vec<(Root, Vec<u8>)>,
}

impl Keys {
    /// Creates a key in this folder.
    pub fn new(folder: &Path) -> Keys {
        Keys::create(folder, None)
    }

    /// Creates a key in this folder that replaces this one.
    pub fn rotated(&self, folder: &Path) -> Keys {
        Keys::create(folder, Some(self))
    }

    fn create(folder: &Path, before: Option<&Keys>) -> Keys {
        fs::create_dir_all(folder).unwrap();
        let file = folder.join("release.key");
        fs::write(&file, Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap()).unwrap();
        let mut keys =
            Keys { file, roots: before.map(|before| before.roots.clone()).unwrap_or_default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let root = runtime.block_on(keys.next_root(before));
        keys.roots.push(root);
        keys
    }

    /// The files of TUF's root metadata, from version 1 on.
    pub fn roots(&self) -> impl Iterator<Item = &[u8]> {
        self.roots.iter().map(|(_, bytes)| &bytes[..])
    }

    /// The key in the form that the editor takes.
    pub fn sources(&self) -> Vec<Box<dyn KeySource>> {
        vec![Box::new(LocalKeySource { path: self.file.clone() })]
    }

    /// The next version of the root metadata, which gives every role this key. The previous key, if
    /// any, signs them too.
    async fn next_root(&self, before: Option<&Keys>) -> (Root, Vec<u8>) {
        let key = self.sources()[0].as_sign().await.unwrap().tuf_key();
        let id = key.key_id().unwrap();
        let holder = || RoleKeys {
            keyids: vec![id.clone()],
            threshold: NonZeroU64::MIN,
            _extra: HashMap::new(),
        };
        let roles = [RoleType::Root, RoleType::Snapshot, RoleType::Targets, RoleType::Timestamp];
        let root = Root {
            spec_version: "1.0.0".to_owned(),
            consistent_snapshot: true,
            version: NonZeroU64::new(self.roots.len() as u64 + 1).unwrap(),
            expires: Timestamp::now() + (365 * 24).hours(),
            keys: [(id.clone(), key)].into(),
            roles: roles.map(|role| (role, holder())).into(),
            _extra: HashMap::new(),
        };
        let mut signed = self.signed_root(&root, &root).await;
        if let Some(before) = before {
            let theirs = before.signed_root(&root, &before.roots.last().unwrap().0).await;
            signed = signed.add_old_signatures(theirs.signed().signatures.clone()).unwrap();
        }
        (root, signed.buffer().clone())
    }

    /// The root metadata, signed with this key as a key of the root `by`.
    async fn signed_root(&self, root: &Root, by: &Root) -> SignedRole<Root> {
        SignedRole::new(
            root.clone(),
            &KeyHolder::Root(by.clone()),
            &self.sources(),
            &SystemRandom::new(),
        )
        .await
        .unwrap()
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

    /// The program, signed with the key.
    pub fn signed(&self, program: &[u8]) -> Vec<u8> {
        let digest = authenticode::digest(program).unwrap();
        let mut signature = vec![0; self.key.public_modulus_len()];
        let message = authenticode::to_be_signed(&digest);
        self.key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), &message, &mut signature).unwrap();
        let mut signed = program.to_vec();
        authenticode::sign(&mut signed, &self.certificate, &signature).unwrap();
        signed
    }

    /// The certificate as an entry of a signature list.
    pub fn listed(&self) -> Listed {
        self.certificate.clone().into()
    }

    /// Writes firmware variables to this folder: Secure Boot is on, `db` has this certificate, and
    /// `dbx` has `revoked`.
    pub fn enrolled(&self, firmware: &Path, revoked: &[Listed]) {
        let write = |name: &str, vendor_of: Variable, bytes: &[u8]| {
            fs::write(
                firmware.join(format!("{name}-{}", vendor_of.vendor())),
                [&[6, 0, 0, 0], bytes].concat(),
            )
            .unwrap();
        };
        let owner = Variable::Db.vendor();
        write("SecureBoot", Variable::Pk, &[1]);
        write("db", Variable::Db, &write_list(&[self.certificate.clone().into()], owner));
        write("dbx", Variable::Dbx, &write_list(revoked, owner));
    }
}
