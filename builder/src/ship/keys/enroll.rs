//! How a machine gets to know our keys: lists, signed updates, and the variables of a virtual
//! machine's firmware.

use super::{Keys, Role, Trust};
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Result};
use crate::produce::sign::Signer;
use osbuild_signatures::efi::{Store, Variable};
use std::path::{Path, PathBuf};

/// The files by which a machine is given our keys, each by name.
pub struct Enrollment {
    /// For each variable its list (`.esl`) and its signed update (`.auth`).
    pub files: Vec<(String, Vec<u8>)>,
}

impl Enrollment {
    /// Makes the files, which needs the private keys of PK and KEK.
    pub fn of(keys: &Keys) -> Result<Self> {
        let mut files = Vec::new();
        for update in keys.trust()?.updates() {
            let signer = keys.signer(authority(update.variable))?;
            let signature = signer.sign(&Digest::of(&update.to_be_signed()))?;
            let signed = update
                .signed(signer.certificate(), &signature)
                .or_build(|| "cannot sign an update".to_owned())?;
            files.push((format!("{}.esl", update.variable.name()), update.content));
            files.push((format!("{}.auth", update.variable.name()), signed));
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

/// Whose key signs a change.
fn authority(variable: Variable) -> Role {
    match variable {
        Variable::Pk | Variable::Kek => Role::Pk,
        Variable::Db | Variable::Dbx => Role::Kek,
    }
}

/// The variables `template` of EDK2's firmware with `trust` in them and Secure Boot on. Whom it
/// trusted before it trusts no more.
///
/// No private key is needed: whoever writes the file owns the machine.
pub fn enrolled(template: Vec<u8>, trust: &Trust) -> Result<Vec<u8>> {
    let cannot = || "cannot enroll keys in the firmware's variables".to_owned();
    let mut store = Store::read(template).or_build(cannot)?;
    store.remove(Variable::Dbx);
    for update in trust.updates() {
        store.set(update.variable, update.time, &update.content);
    }
    store.enforce();
    store.write().or_build(cannot)
}
