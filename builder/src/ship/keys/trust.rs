//! The contents of PK, KEK, db and dbx on machines that trust a set of keys.

use super::{Keys, Role};
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Error, Result};
use crate::plan::Date;
use osbuild_formats::gpt::guid_from_name;
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::efi::{Listed, Update, UpdateTime, Variable, read_list, write_list};
use std::path::PathBuf;

/// The trusted certificates, and the revoked certificates and images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The platform key's certificate.
    pub pk: Certificate,
    /// The key exchange key's certificate.
    pub kek: Certificate,
    /// The certificates that sign images: the current one, then the retired ones that are not
    /// revoked.
    pub db: Vec<Certificate>,
    /// The revoked certificates, and images by their digest.
    pub dbx: Vec<Listed>,
    /// The number of changes of db and dbx.
    changes: usize,
}

impl Keys {
    /// The trust of machines that enroll these keys.
    pub fn trust(&self) -> Result<Trust> {
        let (pk, kek) = (self.certificate(Role::Pk)?, self.certificate(Role::Kek)?);
        let (db, dbx) = self.image_trust()?;
        let changes = self.retired()?.len() + dbx.len();
        Ok(Trust { pk, kek, db, dbx, changes })
    }

    /// The part of [`Keys::trust`] that decides about images: the contents of db and dbx. It does
    /// not need the certificates of PK and KEK, which sign only changes of the others.
    pub fn image_trust(&self) -> Result<(Vec<Certificate>, Vec<Listed>)> {
        let (retired, dbx) = (self.retired()?, self.revoked()?);
        let stays = |certificate: &Certificate| !dbx.contains(&certificate.clone().into());
        let retired = retired.into_iter().map(|(_, certificate)| certificate).filter(stays);
        Ok(([self.certificate(Role::Db)?].into_iter().chain(retired).collect(), dbx))
    }

    /// The retired certificates of db, each with the name of its files, the newest first.
    pub fn retired(&self) -> Result<Vec<(String, Certificate)>> {
        let names = (1..).map(|number| format!("{}-{number}", Role::Db.name()));
        let there = names.take_while(|name| self.folder().join(format!("{name}.crt")).exists());
        let read = |name: String| {
            Ok((name.clone(), self.read_certificate(&self.folder().join(format!("{name}.crt")))?))
        };
        let mut found = there.map(read).collect::<Result<Vec<_>>>()?;
        found.reverse();
        Ok(found)
    }

    /// The revoked certificates and images.
    ///
    /// # Errors
    /// The list is damaged. There is none while nothing is revoked, so an empty one has lost its
    /// contents.
    pub fn revoked(&self) -> Result<Vec<Listed>> {
        let path = self.dbx();
        match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Ok(bytes) if bytes.is_empty() => {
                Err(Error::build(format!("`{}` is damaged", path.display())).cause("it is empty"))
            }
            bytes => read_list(&bytes.at("read", &path)?)
                .or_build(|| format!("`{}` is damaged", path.display())),
        }
    }

    /// The path of the revocation list.
    pub(super) fn dbx(&self) -> PathBuf {
        self.folder().join("dbx.esl")
    }
}

impl Trust {
    /// The content of each variable, in the order in which a machine in setup mode accepts them.
    /// `dbx` is missing while nothing is revoked.
    pub fn updates(&self) -> Vec<Update> {
        let certificates =
            |all: &[Certificate]| all.iter().cloned().map(Listed::from).collect::<Vec<_>>();
        let content = |variable| match variable {
            Variable::Dbx => self.dbx.clone(),
            Variable::Db => certificates(&self.db),
            Variable::Kek => certificates(std::slice::from_ref(&self.kek)),
            Variable::Pk => certificates(std::slice::from_ref(&self.pk)),
        };
        let all = [Variable::Dbx].into_iter().chain(Variable::ENROLLED);
        all.map(|variable| (variable, content(variable)))
            .filter(|(_, content)| !content.is_empty())
            .map(|(variable, content)| Update {
                variable,
                time: self.time(variable),
                content: list(&content),
            })
            .collect()
    }

    /// The timestamp of a variable's content: the first day of its newest certificate, with the
    /// number of changes as seconds. It depends only on the keys, so that the files are
    /// reproducible. Each change makes it later, as firmware only accepts newer updates.
    fn time(&self, variable: Variable) -> UpdateTime {
        let (since, changes) = match variable {
            Variable::Pk => (self.pk.not_before(), 0),
            Variable::Kek => (self.kek.not_before(), 0),
            Variable::Db | Variable::Dbx => (self.db[0].not_before(), self.changes),
        };
        let Date { year, month, day } = Date::from_unix(since);
        UpdateTime { year, month, day, second: changes as u32 }
    }
}

/// Encodes the list in a variable or a file, with our signature owner.
pub(super) fn list(content: &[Listed]) -> Vec<u8> {
    write_list(content, guid_from_name("signature owner"))
}
