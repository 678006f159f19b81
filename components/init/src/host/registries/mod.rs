//! The mirrors of registries, and the credentials of hosts that serve images, that settings ask
//! for: for each registry a folder below `/run`, which containerd looks in before those on DATA, at
//! each pull.

mod held;
mod hosts_file;
#[cfg(test)]
mod pull_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};

use osbuild_abi::paths::REGISTRIES;
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{
    MAX_CREDENTIALS, MAX_REGISTRIES, Observed, Refusal, RefusalCode, RegistryCredential,
    RegistryMirror, RegistryName, Setting, SettingName,
};
use osbuild_ranks::Source;
use zeroize::Zeroizing;

use self::held::Held;
use self::hosts_file::Parts;
use super::run_files;

/// The files of a registry. The names are containerd's, and that in [`hosts_file`].
const HOSTS: &str = "hosts.toml";
const AUTHORITIES: &str = "ca.crt";

/// The registries with a value of any source.
#[derive(Default)]
pub struct Registries {
    mirrors: BTreeMap<RegistryName, Held<RegistryMirror>>,
    credentials: BTreeMap<RegistryName, Held<RegistryCredential>>,
    /// Why the host does not have the files of a registry.
    errors: BTreeMap<RegistryName, String>,
}

/// The texts of the files of a registry.
#[derive(PartialEq, Eq)]
struct Files {
    hosts: Zeroizing<String>,
    /// Missing if there are no authorities.
    authorities: Option<String>,
    /// Whether root alone may read the first, as it has a secret.
    is_private: bool,
}

impl Registries {
    /// Gives the mirrors of a registry the value of `source`.
    ///
    /// # Errors
    /// There are too many registries, or the files cannot be written: then the registry keeps the
    /// mirrors that it had.
    pub fn apply(&mut self, source: Source, mirror: &RegistryMirror) -> Result<(), Refusal> {
        let registry = mirror.registry();
        if !self.mirrors.contains_key(registry) && self.mirrors.len() >= MAX_REGISTRIES {
            let reason = format!("{MAX_REGISTRIES} registries have mirrors already");
            return Err(Refusal::new(RefusalCode::Failed, reason));
        }
        let former = held::set(&mut self.mirrors, registry, source, Some(mirror.clone()));
        self.put_or(|all| drop(held::set(&mut all.mirrors, registry, source, former)))
    }

    /// Gives the credentials of a host the value of `source`.
    ///
    /// # Errors
    /// There are too many of them, or the files cannot be written: then the host keeps the
    /// credentials that it had.
    pub fn apply_credential(
        &mut self,
        source: Source,
        credential: &RegistryCredential,
    ) -> Result<(), Refusal> {
        let registry = credential.registry();
        if !self.credentials.contains_key(registry) && self.credentials.len() >= MAX_CREDENTIALS {
            let reason = format!("{MAX_CREDENTIALS} registries have credentials already");
            return Err(Refusal::new(RefusalCode::Failed, reason));
        }
        let former = held::set(&mut self.credentials, registry, source, Some(credential.clone()));
        self.put_or(|all| drop(held::set(&mut all.credentials, registry, source, former)))
    }

    /// Withdraws the mirrors of `source`, so that the next ones are in effect.
    ///
    /// # Errors
    /// The files cannot be replaced or removed.
    pub fn withdraw(&mut self, source: Source, registry: &RegistryName) -> Outcome {
        held::set(&mut self.mirrors, registry, source, None);
        self.put()
    }

    /// Withdraws the credentials of `source`, so that the next ones are in effect.
    ///
    /// # Errors
    /// The files cannot be replaced or removed.
    pub fn withdraw_credential(&mut self, source: Source, registry: &RegistryName) -> Outcome {
        held::set(&mut self.credentials, registry, source, None);
        self.put()
    }

    /// Writes the files again that another program has changed. Returns lines for the console,
    /// without what the files have.
    pub fn hold(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for registry in self.registries() {
            if self.is_as_it_shall_be(&registry) {
                continue;
            }
            let before = self.errors.get(&registry).cloned();
            match self.put_files(&registry) {
                Ok(()) => lines.push(format!(
                    "another program changed the mirrors of `{registry}`, they are set again"
                )),
                Err(failure) if self.errors.get(&registry) != before.as_ref() => {
                    lines.push(failure.to_string());
                }
                Err(_) => {}
            }
        }
        lines
    }

    /// The mirrors of each registry and the credentials of each host: what requests have set, and
    /// what the host has, without secrets.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        let mirrors = self.mirrors.iter().map(|(registry, held)| {
            let name = SettingName::RegistryMirror(registry.clone());
            let is_set = self.is_as_it_shall_be(registry);
            held.observed(name, Setting::RegistryMirror, is_set, self.error([registry]))
        });
        let credentials = self.credentials.iter().map(|(registry, held)| {
            let name = SettingName::RegistryCredential(registry.clone());
            let users = self.users(registry);
            let is_set = users.iter().all(|user| self.is_as_it_shall_be(user));
            held.observed(name, Setting::RegistryCredential, is_set, self.error(&users))
        });
        mirrors.chain(credentials)
    }

    /// The settings with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = Setting> {
        let mirrors = self.mirrors.values().filter_map(move |held| held.of(source));
        let credentials = self.credentials.values().filter_map(move |held| held.of(source));
        mirrors.map(Setting::RegistryMirror).chain(credentials.map(Setting::RegistryCredential))
    }

    /// The registries that have or had files.
    fn registries(&self) -> BTreeSet<RegistryName> {
        let all = self.mirrors.keys().chain(self.credentials.keys());
        all.chain(self.errors.keys()).cloned().collect()
    }

    /// The registries whose files may have the credentials of a host: itself, and those with
    /// mirrors.
    fn users(&self, host: &RegistryName) -> BTreeSet<RegistryName> {
        self.mirrors.keys().chain([host]).cloned().collect()
    }

    fn error<'a>(&self, registries: impl IntoIterator<Item = &'a RegistryName>) -> String {
        let errors = registries.into_iter().filter_map(|one| self.errors.get(one));
        errors.cloned().collect::<Vec<_>>().join("; ")
    }

    /// The files that the registry shall have.
    fn files(&self, registry: &RegistryName) -> Option<Files> {
        let mirror = self.mirrors.get(registry).and_then(Held::effective);
        let credentials = self.credentials.values().filter_map(Held::effective).collect();
        let parts = Parts { registry, mirror, credentials };
        let authorities = mirror.map(RegistryMirror::authorities).filter(|one| !one.is_empty());
        let (hosts, authorities) = (parts.text(), authorities.map(|one| one.to_pem()));
        let is_private = parts.has_secret();
        (mirror.is_some() || is_private).then_some(Files { hosts, authorities, is_private })
    }

    fn is_as_it_shall_be(&self, registry: &RegistryName) -> bool {
        self.files(registry) == Files::read(registry)
    }

    /// Has the host follow, for all registries whose files differ.
    fn put(&mut self) -> Outcome {
        let changed = self.registries().into_iter();
        let changed = changed.filter(|registry| {
            self.errors.contains_key(registry) || !self.is_as_it_shall_be(registry)
        });
        let changed: Vec<RegistryName> = changed.collect();
        let put = changed.iter().map(|registry| self.put_files(registry)).collect::<Vec<_>>();
        self.mirrors.retain(|_, held| held.effective().is_some());
        self.credentials.retain(|_, held| held.effective().is_some());
        put.into_iter().collect()
    }

    /// Has the host follow, or takes back what was changed.
    fn put_or(&mut self, take_back: impl FnOnce(&mut Self)) -> Result<(), Refusal> {
        let put = self.put();
        if put.is_err() {
            take_back(self);
            // Some files may have been written.
            let _ = self.put();
        }
        put.map_err(Refusal::from)
    }

    /// Has the host follow, for one registry.
    fn put_files(&mut self, registry: &RegistryName) -> Outcome {
        let put = match self.files(registry) {
            Some(files) => files.write(registry),
            None => remove(registry).explain(format_args!("remove the mirrors of `{registry}`")),
        };
        match &put {
            Ok(()) => self.errors.remove(registry),
            Err(failure) => self.errors.insert(registry.clone(), failure.to_string()),
        };
        put
    }
}

impl Files {
    fn read(registry: &RegistryName) -> Option<Files> {
        let place = path(registry, HOSTS);
        let hosts = Zeroizing::new(run_files::read(&place)?);
        let authorities = run_files::read(&path(registry, AUTHORITIES));
        Some(Files { hosts, authorities, is_private: run_files::is_private(&place) })
    }

    /// Writes them. containerd may read in between, so a file that the other one names is there
    /// first, and goes last.
    fn write(&self, registry: &RegistryName) -> Outcome {
        if let Some(authorities) = &self.authorities {
            run_files::write(&path(registry, AUTHORITIES), authorities)?;
        }
        match self.is_private {
            true => run_files::set(&path(registry, HOSTS), Some(&self.hosts))?,
            false => run_files::write(&path(registry, HOSTS), &self.hosts)?,
        }
        match self.authorities {
            Some(_) => Ok(()),
            None => run_files::set(&path(registry, AUTHORITIES), None),
        }
    }
}

/// Removes the folder of a registry: an empty one would hide that on DATA.
fn remove(registry: &RegistryName) -> io::Result<()> {
    let all = run_files::folder(REGISTRIES)?;
    if let Ok(folder) = all.existing_folder(registry.as_str()) {
        folder.remove(HOSTS)?;
        folder.remove(AUTHORITIES)?;
    }
    match std::fs::remove_dir(all.magic_path().join(registry.as_str())) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // Another program has put something there.
        Err(_) => all.discard(registry.as_str()),
        Ok(()) => Ok(()),
    }
}

fn path(registry: &RegistryName, name: &str) -> String {
    format!("{REGISTRIES}/{registry}/{name}")
}
