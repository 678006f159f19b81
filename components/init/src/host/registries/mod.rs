//! The mirrors of registries that settings ask for: for each registry a folder below `/run`, which
//! containerd looks in before those on DATA, at each pull.

mod hosts_file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use osbuild_abi::paths::REGISTRIES;
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::{
    MAX_REGISTRIES, Observed, Refusal, RefusalCode, RegistryMirror, RegistryName, Setting,
    SettingName,
};
use osbuild_ranks::{Ranked, Source};

use super::run_files;

/// The files of a registry. The names are containerd's, and that in [`hosts_file`].
const HOSTS: &str = "hosts.toml";
const AUTHORITIES: &str = "ca.crt";

/// The registries whose mirrors have a value of any source.
#[derive(Default)]
pub struct Registries(BTreeMap<RegistryName, Held>);

#[derive(Default)]
struct Held {
    values: Ranked<RegistryMirror>,
    /// Why the host does not have the one in effect.
    error: String,
}

/// The texts of the files of a registry.
#[derive(PartialEq, Eq)]
struct Files {
    hosts: String,
    /// Missing if there are no authorities.
    authorities: Option<String>,
}

impl Registries {
    /// Gives the mirrors of a registry the value of `source`.
    ///
    /// # Errors
    /// There are too many registries, or the files cannot be written: then the registry keeps the
    /// mirrors that it had.
    pub fn apply(&mut self, source: Source, mirror: &RegistryMirror) -> Result<(), Refusal> {
        let registry = mirror.registry();
        if !self.0.contains_key(registry) && self.0.len() >= MAX_REGISTRIES {
            let reason = format!("{MAX_REGISTRIES} registries have mirrors already");
            return Err(Refusal::new(RefusalCode::Failed, reason));
        }
        let held = self.0.entry(registry.clone()).or_default();
        let former = held.values.set(source, Some(mirror.clone()));
        let put = held.put(registry);
        if put.is_err() {
            held.values.set(source, former);
            // The first file may have been written.
            let _ = held.put(registry);
        }
        self.0.retain(|_, held| held.effective().is_some());
        put.map_err(Refusal::from)
    }

    /// Withdraws the value of `source`, so that the next one is in effect.
    ///
    /// # Errors
    /// The files cannot be replaced or removed.
    pub fn withdraw(&mut self, source: Source, registry: &RegistryName) -> Outcome {
        let Some(held) = self.0.get_mut(registry) else { return Ok(()) };
        held.values.set(source, None);
        let put = held.put(registry);
        if held.effective().is_none() {
            self.0.remove(registry);
        }
        put
    }

    /// Writes the files again that another program has changed. Returns lines for the console.
    pub fn hold(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for (registry, held) in &mut self.0 {
            if held.is_as_it_shall_be(registry) {
                continue;
            }
            let before = held.error.clone();
            match held.put(registry) {
                Ok(()) => lines.push(format!(
                    "another program changed the mirrors of `{registry}`, they are set again"
                )),
                Err(failure) if held.error != before => lines.push(failure.to_string()),
                Err(_) => {}
            }
        }
        lines
    }

    /// The mirrors of each registry: what requests have set, and what the host has.
    pub fn observe(&self) -> impl Iterator<Item = Observed> {
        self.0.iter().map(|(registry, held)| Observed {
            name: SettingName::RegistryMirror(registry.clone()),
            wanted: held.values.get(Source::Api).cloned().map(Setting::RegistryMirror),
            source: held.values.effective().map(|(source, _)| source),
            current: match held.effective().filter(|_| held.is_as_it_shall_be(registry)) {
                Some(mirror) => Setting::RegistryMirror(mirror.clone()).value(),
                None => String::new(),
            },
            error: held.error.clone(),
        })
    }

    /// The mirrors with the values of a source.
    pub fn of(&self, source: Source) -> impl Iterator<Item = RegistryMirror> {
        self.0.values().filter_map(move |held| held.values.get(source).cloned())
    }
}

impl Held {
    fn effective(&self) -> Option<&RegistryMirror> {
        self.values.effective().map(|(_, mirror)| mirror)
    }

    fn is_as_it_shall_be(&self, registry: &RegistryName) -> bool {
        self.effective().map(Files::of) == Files::read(registry)
    }

    /// Has the host follow.
    fn put(&mut self, registry: &RegistryName) -> Outcome {
        let put = match self.effective().map(Files::of) {
            Some(files) => files.write(registry),
            None => remove(registry).explain(format_args!("remove the mirrors of `{registry}`")),
        };
        self.error = put.as_ref().err().map(ToString::to_string).unwrap_or_default();
        put
    }
}

impl Files {
    fn of(mirror: &RegistryMirror) -> Files {
        let authorities = mirror.authorities();
        Files {
            hosts: hosts_file::text(mirror),
            authorities: (!authorities.is_empty()).then(|| authorities.to_pem()),
        }
    }

    fn read(registry: &RegistryName) -> Option<Files> {
        let hosts = run_files::read(&path(registry, HOSTS))?;
        Some(Files { hosts, authorities: run_files::read(&path(registry, AUTHORITIES)) })
    }

    /// Writes them. containerd may read in between, so a file that the other one names is there
    /// first, and goes last.
    fn write(&self, registry: &RegistryName) -> Outcome {
        if let Some(authorities) = &self.authorities {
            run_files::write(&path(registry, AUTHORITIES), authorities)?;
        }
        run_files::write(&path(registry, HOSTS), &self.hosts)?;
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
