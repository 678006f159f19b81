//! The keys in `keys/NAME/`: those that machines trust to boot images, those that sign releases,
//! and those of the node API.

mod api;
mod enroll;
mod make;
mod public_file;
mod release;
mod revoke;
mod show;
mod terms;
mod trust;

pub use api::{ClientRole, Issued, complete_api, issue};
pub use enroll::{Enrollment, enrolled};
pub use make::{make, rotate};
pub use release::{complete, rotate_release, rotate_root};
pub use revoke::revoke;
pub use show::{Shown, show};
pub use terms::Terms;
pub use trust::Trust;

use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use crate::produce::sign::{Certified, KmsKey, PrivateKey, RsaKey, TokenKey, TokenUri};
use osbuild_aws::KeyArn;
use osbuild_signatures::certificate::Certificate;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The name of the keys that the first signature makes.
pub const DEV: &str = "dev";

/// The organizational unit in the certificates of [`DEV`].
const DEV_UNIT: &str = "development only";

/// The files of the release key: private and public.
const RELEASE: [&str; 2] = ["release.key", "release.pub"];

/// The file with the ARN of a release key in AWS KMS, in place of a private key.
const RELEASE_KMS: &str = "release.kms";

/// The key of the root of trust of releases, and that root, which names the release key.
const ROOT: [&str; 2] = ["root.key", "root.json"];

/// The key of the CA of the node API, and its certificate.
const API: [&str; 2] = ["api.key", "api.crt"];

/// The extension of a file with the PKCS#11 URI of a key in a token.
const TOKEN: &str = "pkcs11";

/// The extension of a file with the ARN of a key in AWS KMS.
const KMS: &str = "kms";

/// The role of a certificate in Secure Boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The platform key, which belongs to the owner of a machine.
    Pk,
    /// The key exchange key, which signs changes of db and dbx.
    Kek,
    /// A key in the signature database: it signs images.
    Db,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 3] = [Role::Pk, Role::Kek, Role::Db];

    /// Its name in firmware, and of its files.
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
    /// Whether the network may not be used.
    offline: bool,
}

impl Keys {
    /// The keys with this name in the project at `root`, which need not exist.
    ///
    /// # Errors
    /// The name is invalid: it may have lower-case letters, digits, and hyphens within.
    pub fn named(root: &Path, name: &str) -> Result<Self> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty()
            || name.starts_with('-')
            || name.ends_with('-')
            || !name.bytes().all(plain)
        {
            return Err(Error::usage(format!("`{name}` is not a valid name for keys"))
                .hint("use lower-case letters, digits and hyphens"));
        }
        Ok(Keys { name: name.to_owned(), folder: root.join("keys").join(name), offline: false })
    }

    /// Sets whether keys in AWS KMS, which need the network, are refused.
    pub fn offline(self, offline: bool) -> Self {
        Keys { offline, ..self }
    }

    /// All keys in the project at `root`, sorted by name.
    pub fn all(root: &Path) -> Result<Vec<Self>> {
        let folder = root.join("keys");
        let mut found = Vec::new();
        let entries = match std::fs::read_dir(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
            entries => entries.at("read", &folder)?,
        };
        for entry in entries {
            let Ok(name) = entry.at("read", &folder)?.file_name().into_string() else { continue };
            found.extend(Self::named(root, &name).ok().filter(|keys| keys.folder.is_dir()));
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// Whether they exist.
    pub fn exist(&self) -> bool {
        self.has(Role::Db)
    }

    /// Whether the certificate of a role exists.
    fn has(&self, role: Role) -> bool {
        self.file(role, "crt").is_file()
    }

    /// Refuses keys without a folder, before a verb misses one of their files.
    ///
    /// # Errors
    /// They have none.
    pub fn check_folder(&self) -> Result<()> {
        if self.folder.is_dir() { Ok(()) } else { Err(self.no_keys(&self.folder)) }
    }

    /// Their folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The certificate of a role.
    pub fn certificate(&self, role: Role) -> Result<Certificate> {
        self.read_certificate(&self.file(role, "crt"))
    }

    fn read_certificate(&self, path: &Path) -> Result<Certificate> {
        let pem = std::fs::read(path).map_err(|error| self.absent(error, path))?;
        Certificate::from_pem(&pem)
            .map_err(|error| Error::build(format!("cannot read `{}`", path.display())).cause(error))
    }

    /// The signer of a role, with the key in `ROLE.key`, the one in a token that `ROLE.pkcs11`
    /// names, or the one in AWS KMS that `ROLE.kms` names.
    ///
    /// # Errors
    /// There is no key, or it does not match the certificate.
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
                self.external(&name)
                    .and_then(|(_, key)| Certified::new(key, certificate))
                    .map_err(of(&named))
            }
            (false, None) => {
                Err(Error::build(format!("there is no private key for `{}`", certificate.name()))
                    .cause(format!("`{}` is missing", key.display()))
                    .hint(
                        "`cargo osbuild build RECIPE --unsigned` writes what has to be signed on \
                         the machine with the key, for `cargo osbuild sign`",
                    ))
            }
        }
    }

    /// Opens a key in a token or in AWS KMS, and returns the extension of the file that names it.
    fn external(&self, name: &str) -> Result<(&'static str, Box<dyn RsaKey>)> {
        Ok(match KeyArn::is_arn(name) {
            true => (KMS, Box::new(KmsKey::open(&self.kms(name)?)?)),
            false => (TOKEN, Box::new(TokenKey::open(&name.parse::<TokenUri>()?)?)),
        })
    }

    /// Parses the ARN of a key in AWS KMS, unless `offline`.
    ///
    /// # Errors
    /// It is not the ARN of a key, or the network may not be used.
    fn kms(&self, name: &str) -> Result<KeyArn> {
        let arn = name.parse::<KeyArn>()?;
        match self.offline {
            false => Ok(arn),
            true => Err(Error::usage(format!(
                "a key of `{}` is in AWS KMS, which `--offline` forbids",
                self.name
            ))
            .hint(
                "omit `--offline`; an image can be signed later: `cargo osbuild build RECIPE \
                 --unsigned`, then `cargo osbuild sign`",
            )),
        }
    }

    fn file(&self, role: Role, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", role.name()))
    }

    fn absent(&self, error: std::io::Error, path: &Path) -> Error {
        match error.kind() {
            ErrorKind::NotFound => self.no_keys(path),
            _ => Error::build(format!("cannot read `{}`", path.display())).cause(error),
        }
    }

    fn no_keys(&self, missing: &Path) -> Error {
        Error::usage(format!("there are no keys `{}`", self.name))
            .cause(format!("`{}` is missing", missing.display()))
            .hint(format!("cargo osbuild keys new {}", self.name))
    }
}

/// Whether a certificate is marked as for development only.
pub fn is_for_development(certificate: &Certificate) -> bool {
    certificate.unit().is_some_and(|unit| unit == DEV_UNIT)
}
