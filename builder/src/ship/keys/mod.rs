//! The keys in `keys/NAME/`: whose programs a machine starts, who may change that, and who signs
//! releases.

mod enroll;
mod make;
mod release;
mod revoke;
mod show;
mod trust;

pub use enroll::{Enrollment, enrolled};
pub use make::{Terms, make, rotate};
pub use release::{complete, rotate_release, rotate_root};
pub use revoke::revoke;
pub use show::{Shown, show};
pub use trust::Trust;

use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use crate::produce::sign::{Certified, KmsKey, PrivateKey, RsaKey, TokenKey, TokenUri};
use osbuild_aws::KeyArn;
use osbuild_signatures::certificate::Certificate;
use std::path::{Path, PathBuf};

/// The name of the keys that are made when an image is first signed.
pub const DEV: &str = "dev";

/// What stands in the certificates of [`DEV`], so that everybody who sees one knows what it is
/// worth.
const DEV_UNIT: &str = "development only";

/// The release key: private, and public.
const RELEASE: [&str; 2] = ["release.key", "release.pub"];

/// What says, in the place of the private one, which key in AWS KMS signs releases.
const RELEASE_KMS: &str = "release.kms";

/// The key of the root of trust of releases, and that root, which says whose the release key is.
const ROOT: [&str; 2] = ["root.key", "root.json"];

/// What the file is called that says in which token a key is.
const TOKEN: &str = "pkcs11";

/// What the file is called that says which key in AWS KMS it is.
const KMS: &str = "kms";

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The platform key: who owns a machine.
    Pk,
    /// The key exchange key: who may change what a machine starts.
    Kek,
    /// Whose programs a machine starts: this one signs images.
    Db,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 3] = [Role::Pk, Role::Kek, Role::Db];

    /// What firmware calls it, and its files here.
    pub fn name(self) -> &'static str {
        match self {
            Role::Pk => "PK",
            Role::Kek => "KEK",
            Role::Db => "db",
        }
    }
}

/// The keys of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Their name.
    pub name: String,
    folder: PathBuf,
    /// Whether nobody may be asked by the network.
    offline: bool,
}

impl Keys {
    /// Where keys of this name are or will be, in the project at `root`.
    ///
    /// # Errors
    /// The name is none: small letters, digits and hyphens.
    pub fn named(root: &Path, name: &str) -> Result<Self> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty()
            || name.starts_with('-')
            || name.ends_with('-')
            || !name.bytes().all(plain)
        {
            return Err(Error::usage(format!("`{name}` is not a valid name for keys"))
                .hint("use small letters, digits and hyphens"));
        }
        Ok(Keys { name: name.to_owned(), folder: root.join("keys").join(name), offline: false })
    }

    /// The same keys, of which none is used that has to be asked by the network if `offline`.
    pub fn offline(self, offline: bool) -> Self {
        Keys { offline, ..self }
    }

    /// Every name that has a folder for keys in the project at `root`, sorted.
    pub fn all(root: &Path) -> Result<Vec<Self>> {
        let folder = root.join("keys");
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&folder).at("read", &folder)? {
            let Ok(name) = entry.at("read", &folder)?.file_name().into_string() else { continue };
            found.extend(Self::named(root, &name).ok().filter(|keys| keys.folder.is_dir()));
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// Whether they have been made.
    pub fn exist(&self) -> bool {
        self.file(Role::Db, "crt").is_file()
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The certificate for one purpose.
    pub fn certificate(&self, role: Role) -> Result<Certificate> {
        self.read_certificate(&self.file(role, "crt"))
    }

    fn read_certificate(&self, path: &Path) -> Result<Certificate> {
        let pem = std::fs::read(path).map_err(|error| self.absent(error, path))?;
        Certificate::from_pem(&pem)
            .map_err(|error| Error::build(format!("cannot read `{}`", path.display())).cause(error))
    }

    /// Who signs for one purpose: the key in `ROLE.key`, the one in a token that `ROLE.pkcs11`
    /// names, or the one in AWS KMS of `ROLE.kms`.
    ///
    /// # Errors
    /// Neither is here, or the key is not that of the certificate.
    pub fn signer(&self, role: Role) -> Result<Certified> {
        let certificate = self.certificate(role)?;
        let key = self.file(role, "key");
        let named =
            [TOKEN, KMS].map(|kind| self.file(role, kind)).into_iter().find(|path| path.exists());
        let of = |path: &Path| {
            let shown = path.display().to_string();
            move |error: Error| error.cause(format!("the key is `{shown}`"))
        };
        match (key.exists(), named) {
            (true, _) => {
                Certified::new(Box::new(PrivateKey::read(&key)?), certificate).map_err(of(&key))
            }
            (false, Some(named)) => {
                let name = std::fs::read_to_string(&named).at("read", &named)?;
                self.distant(&name)
                    .and_then(|(_, key)| Certified::new(key, certificate))
                    .map_err(of(&named))
            }
            (false, None) => {
                Err(Error::build(format!("the key of `{}` is not here", certificate.name()))
                    .cause(format!("`{}` is missing", key.display()))
                    .hint(
                        "`cargo osbuild build RECIPE --unsigned` leaves what `cargo osbuild sign` \
                       needs from where the key is",
                    ))
            }
        }
    }

    /// A key that is in a token or in AWS KMS, and what the file is called that says which.
    fn distant(&self, name: &str) -> Result<(&'static str, Box<dyn RsaKey>)> {
        Ok(match KeyArn::is_arn(name) {
            true => (KMS, Box::new(KmsKey::open(&self.kms(name)?)?)),
            false => (TOKEN, Box::new(TokenKey::open(&name.parse::<TokenUri>()?)?)),
        })
    }

    /// The key in AWS KMS that is called so, if AWS may be asked.
    ///
    /// # Errors
    /// It is no name of a key, or the network may not be used.
    fn kms(&self, name: &str) -> Result<KeyArn> {
        let arn = name.parse::<KeyArn>()?;
        match self.offline {
            false => Ok(arn),
            true => Err(Error::usage(format!(
                "a key of `{}` is in AWS KMS, and `--offline` \
                                              forbids asking it",
                self.name
            ))
            .hint(
                "leave out `--offline`, or build with `--unsigned` and sign later with \
                       `cargo osbuild sign`",
            )),
        }
    }

    fn file(&self, role: Role, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", role.name()))
    }

    fn absent(&self, error: std::io::Error, path: &Path) -> Error {
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                Error::usage(format!("there are no keys `{}`", self.name))
                    .cause(format!("`{}` is missing", path.display()))
                    .hint(format!("cargo osbuild keys new {}", self.name))
            }
            _ => Error::build(format!("cannot read `{}`", path.display())).cause(error),
        }
    }
}

/// Whether a certificate says that its key is for development alone.
pub fn is_for_development(certificate: &Certificate) -> bool {
    certificate.unit().is_some_and(|unit| unit == DEV_UNIT)
}
