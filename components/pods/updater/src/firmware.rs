//! Whose programs this machine's firmware starts, by its own variables. The firmware does not look
//! at dates, so this does.

use std::fs;
use std::path::{Path, PathBuf};

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_signatures::authenticode::{self, Hasher, Verified};
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::efi::{Listed, Variable, read_known};

/// The bytes of a variable's attributes, with which a file of it begins.
const ATTRIBUTES: usize = 4;
/// Whether signatures are enforced, beside the variables of UEFI itself.
const SECURE_BOOT: &str = "SecureBoot";

/// The firmware's variables, as the kernel shows them in a folder.
#[derive(Clone, Debug)]
pub struct Firmware {
    folder: PathBuf,
}

/// What it trusts.
pub struct Trust {
    db: Vec<Certificate>,
    dbx: Vec<Listed>,
}

impl Firmware {
    /// The variables in this folder.
    pub fn new(folder: &Path) -> Firmware {
        Firmware { folder: folder.to_owned() }
    }

    /// What it trusts; nothing if it starts whatever it finds.
    pub fn trust(&self) -> Outcome<Option<Trust>> {
        if self.variable(SECURE_BOOT, Variable::Pk)?.as_deref() != Some(&[1]) {
            return Ok(None);
        }
        let list = |variable: Variable| {
            let bytes = self.variable(variable.name(), variable)?.unwrap_or_default();
            // What is passed over may start a program or refuse one; the firmware itself decides,
            // and a node that it does not start goes back.
            read_known(&bytes).explain(format_args!("read the firmware's {}", variable.name()))
        };
        let db = list(Variable::Db)?.into_iter().filter_map(|listed| match listed {
            Listed::Certificate(certificate) => Some(*certificate),
            Listed::Image(_) => None,
        });
        Ok(Some(Trust { db: db.collect(), dbx: list(Variable::Dbx)? }))
    }

    /// What a variable holds that stands beside `beside`; nothing if it is not there.
    fn variable(&self, name: &str, beside: Variable) -> Outcome<Option<Vec<u8>>> {
        let path = self.folder.join(format!("{name}-{}", beside.vendor()));
        match fs::read(&path) {
            Ok(bytes) => Ok(bytes.get(ATTRIBUTES..).map(<[u8]>::to_vec)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).explain(format_args!("read {}", path.display())),
        }
    }
}

impl Trust {
    /// Refuses a program that the firmware would not start, and one whose certificate is not valid
    /// at `now`, in seconds since 1970. `hasher` may have seen the program as it came.
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
