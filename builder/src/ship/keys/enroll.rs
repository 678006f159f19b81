//! How a machine gets to know our keys: lists, signed updates, and the variables of a virtual machine's firmware.

use super::{Keys, Role};
use crate::error::{Context, Result};
use crate::plan::Date;
use crate::produce::digest::Digest;
use crate::produce::disk::OnDisk;
use crate::produce::sign::Signer;
use osbuild_formats::gpt::guid_from_name;
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::efi::{Store, Update, UpdateTime, Variable, write_list};
use std::path::{Path, PathBuf};

/// The files by which a machine is given our keys, each by name.
pub struct Enrollment {
    /// For each variable its list (`.esl`) and its signed update (`.auth`).
    pub files: Vec<(String, Vec<u8>)>,
}

impl Role {
    fn variable(self) -> Variable {
        match self {
            Role::Pk => Variable::Pk,
            Role::Kek => Variable::Kek,
            Role::Db => Variable::Db,
        }
    }

    /// Whose key signs a change.
    fn authority(self) -> Role {
        match self {
            Role::Pk | Role::Kek => Role::Pk,
            Role::Db => Role::Kek,
        }
    }
}

impl Enrollment {
    /// Makes the files, which needs the private keys of PK and KEK.
    pub fn of(keys: &Keys) -> Result<Self> {
        let mut files = Vec::new();
        for role in Role::ALL {
            let certificate = keys.certificate(role)?;
            let update = Update { variable: role.variable(), time: time(&certificate), content: list(&certificate) };
            let signer = keys.signer(role.authority())?;
            let signature = signer.sign(&Digest::of(&update.to_be_signed()))?;
            let signed = update.signed(signer.certificate(), &signature).or_build(|| "cannot sign an update".to_owned())?;
            files.push((format!("{}.esl", role.name()), update.content));
            files.push((format!("{}.auth", role.name()), signed));
        }
        Ok(Enrollment { files })
    }

    /// Writes them into a folder and gives their paths.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        std::fs::create_dir_all(folder).at("make", folder)?;
        let write = |(name, bytes): &(String, Vec<u8>)| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).at("write", &path)?;
            Ok(path)
        };
        self.files.iter().map(write).collect()
    }
}

/// The variables `template` of EDK2's firmware with our certificates in them and Secure Boot on. Whom it trusted before it trusts no more.
///
/// `certificates` are those of [`Role::ALL`], in that order. No private key is needed: whoever writes the file owns the machine.
pub fn enrolled(template: Vec<u8>, certificates: &[Certificate; 3]) -> Result<Vec<u8>> {
    let cannot = || "cannot enroll keys in the firmware's variables".to_owned();
    let mut store = Store::read(template).or_build(cannot)?;
    for (role, certificate) in Role::ALL.into_iter().zip(certificates) {
        store.set(role.variable(), time(certificate), &list(certificate));
    }
    store.remove(Variable::Dbx);
    store.enforce();
    store.write().or_build(cannot)
}

/// Says in the list who put the certificate there.
fn list(certificate: &Certificate) -> Vec<u8> {
    write_list(&[certificate], guid_from_name("signature owner"))
}

/// A certificate's first day, so that the same keys give the same files.
fn time(certificate: &Certificate) -> UpdateTime {
    let Date { year, month, day } = Date::from_unix(certificate.not_before());
    UpdateTime { year, month, day }
}
