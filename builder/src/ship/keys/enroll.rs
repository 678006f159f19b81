//! Enrolls keys: signature lists and signed updates for machines, and the variables of a virtual
//! machine's firmware.

use super::{Keys, Role, Trust};
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Result};
use crate::produce::sign::Signer;
use osbuild_signatures::efi::{Store, Variable};
use std::path::{Path, PathBuf};

/// The files that enroll keys on a machine.
pub struct Enrollment {
    /// The name and bytes of each variable's list (`.esl`) and signed update (`.auth`).
    pub files: Vec<(String, Vec<u8>)>,
}

impl Enrollment {
    /// Makes the files. This needs the private keys of PK and KEK.
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

    /// Writes the files into a folder, and returns their paths.
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

/// The key that signs updates of a variable.
fn authority(variable: Variable) -> Role {
    match variable {
        Variable::Pk | Variable::Kek => Role::Pk,
        Variable::Db | Variable::Dbx => Role::Kek,
    }
}

/// Enrolls `trust` in `template`, a variable store of EDK2's firmware, replacing its keys, and
/// turns Secure Boot on. No private key is needed: write access to the file is control of the
/// machine.
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
