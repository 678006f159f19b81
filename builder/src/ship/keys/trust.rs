//! Whom machines with these keys trust: what stands in PK, KEK, db and dbx.

use super::{Keys, Role};
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Result};
use crate::plan::Date;
use osbuild_formats::gpt::guid_from_name;
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::efi::{Listed, Update, UpdateTime, Variable, read_list, write_list};
use std::path::PathBuf;

/// Certificates and images, trusted and no longer trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// Who owns the machine.
    pub pk: Certificate,
    /// Who may change the rest.
    pub kek: Certificate,
    /// Who signs images: the one that does it now, then those that did before and are not revoked.
    pub db: Vec<Certificate>,
    /// What is revoked: certificates, and images by their digest.
    pub dbx: Vec<Listed>,
    /// How often db or dbx have changed.
    changes: usize,
}

impl Keys {
    /// Whom machines with these keys trust.
    pub fn trust(&self) -> Result<Trust> {
        let (retired, dbx) = (self.retired()?, self.revoked()?);
        let changes = retired.len() + dbx.len();
        let stays = |certificate: &Certificate| !dbx.contains(&certificate.clone().into());
        let retired = retired.into_iter().map(|(_, certificate)| certificate).filter(stays);
        let db = [self.certificate(Role::Db)?].into_iter().chain(retired).collect();
        Ok(Trust {
            pk: self.certificate(Role::Pk)?,
            kek: self.certificate(Role::Kek)?,
            db,
            dbx,
            changes,
        })
    }

    /// The certificates of db that signed before, each with the name of its files, the newest
    /// first.
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

    /// What is revoked.
    pub fn revoked(&self) -> Result<Vec<Listed>> {
        let path = self.dbx();
        match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            bytes => read_list(&bytes.at("read", &path)?)
                .or_build(|| format!("`{}` is damaged", path.display())),
        }
    }

    /// The list of what is revoked.
    pub(super) fn dbx(&self) -> PathBuf {
        self.folder().join("dbx.esl")
    }
}

impl Trust {
    /// What each variable is to hold, in the order in which a machine in setup mode takes them.
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

    /// From when the content of a variable is. It hangs on nothing but the keys, so that these
    /// always give the same files, and each change makes it later, as firmware takes no update that
    /// is not newer: the first day of the newest certificate, and by the second how often anything
    /// has changed.
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

/// The list in a variable or a file. It says who put there what it holds.
pub(super) fn list(content: &[Listed]) -> Vec<u8> {
    write_list(content, guid_from_name("signature owner"))
}
