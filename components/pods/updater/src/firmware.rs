//! Which signers the machine's firmware trusts, read from its variables. Firmware ignores the
//! validity dates of certificates, so this module checks them.

use std::fs;
use std::path::{Path, PathBuf};

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_signatures::authenticode::{self, Hasher, Verified};
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::efi::{Listed, Variable, read_known};

/// Bytes of the attributes at the start of a variable's file.
const ATTRIBUTES: usize = 4;
/// The variable that tells whether Secure Boot is on. Its vendor is that of `PK`.
const SECURE_BOOT: &str = "SecureBoot";

/// The firmware's variables: a mounted efivarfs.
#[derive(Clone, Debug)]
pub struct Firmware {
    folder: PathBuf,
}

/// The certificates of `db`, and all entries of `dbx`.
pub struct Trust {
    db: Vec<Certificate>,
    dbx: Vec<Listed>,
}

impl Firmware {
    /// The variables in this folder.
    pub fn new(folder: &Path) -> Firmware {
        Firmware { folder: folder.to_owned() }
    }

    /// Reads `db` and `dbx`; `None` if Secure Boot is off.
    pub fn trust(&self) -> Outcome<Option<Trust>> {
        if self.variable(SECURE_BOOT, Variable::Pk)?.as_deref() != Some(&[1]) {
            return Ok(None);
        }
        let list = |variable: Variable| {
            let bytes = self.variable(variable.name(), variable)?.unwrap_or_default();
            // Entries of unknown types are skipped. If the firmware refuses a program because of
            // one, the node falls back to its other slot.
            read_known(&bytes).explain(format_args!("read the firmware's {}", variable.name()))
        };
        let db = list(Variable::Db)?.into_iter().filter_map(|listed| match listed {
            Listed::Certificate(certificate) => Some(*certificate),
            Listed::Image(_) => None,
        });
        Ok(Some(Trust { db: db.collect(), dbx: list(Variable::Dbx)? }))
    }

    /// The contents of a variable with the vendor of `vendor_of`; `None` if it does not exist.
    fn variable(&self, name: &str, vendor_of: Variable) -> Outcome<Option<Vec<u8>>> {
        let path = self.folder.join(format!("{name}-{}", vendor_of.vendor()));
        match fs::read(&path) {
            Ok(bytes) => Ok(bytes.get(ATTRIBUTES..).map(<[u8]>::to_vec)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).explain(format_args!("read {}", path.display())),
        }
    }
}

impl Trust {
    /// Refuses a program that the firmware would not start, and a program whose certificate is not
    /// valid at `now`, in seconds since 1970. A `hasher` that already digested the program saves
    /// reading it again.
    pub fn check(&self, name: &str, program: &[u8], hasher: Hasher, now: u64) -> Outcome {
        let what = format!("verify {name}");
        let Verified { by, digest } =
            authenticode::verify_hashed(program, hasher, &self.db).explain(&what)?;
        let signatures = authenticode::signatures(program).explain(&what)?;
        // A firmware refuses an image if any of its signers is revoked.
        let revoked = self.dbx.iter().any(|listed| match listed {
            Listed::Image(image) => *image == digest,
            Listed::Certificate(revoked) => {
                signatures.iter().any(|signature| signature.is_by(revoked))
            }
        });
        if revoked {
            return Err(Failure::new(format!("{what}: it is revoked")));
        }
        if !(by.not_before()..=by.not_after()).contains(&now) {
            return Err(Failure::new(format!(
                "{what}: the certificate `{}` is not valid today",
                by.name()
            )));
        }
        Ok(())
    }
}
