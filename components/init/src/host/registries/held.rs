//! The values that sources give one setting of a registry. It is pure.

use std::collections::BTreeMap;

use osbuild_protocol::{Observed, RegistryName, Setting, SettingName};
use osbuild_ranks::{Ranked, Source};

/// The values.
pub struct Held<T>(Ranked<T>);

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self(Ranked::default())
    }
}

impl<T: Clone> Held<T> {
    /// The one in effect.
    pub fn effective(&self) -> Option<&T> {
        self.0.effective().map(|(_, value)| value)
    }

    /// The one of a source.
    pub fn of(&self, source: Source) -> Option<T> {
        self.0.get(source).cloned()
    }

    /// The setting of the requests, and that of the host if its files are as they shall be.
    pub fn observed(
        &self,
        name: SettingName,
        setting: fn(T) -> Setting,
        is_set: bool,
        error: String,
    ) -> Observed {
        let current = self.effective().filter(|_| is_set).cloned();
        Observed {
            name,
            wanted: self.of(Source::Api).map(setting),
            source: self.0.effective().map(|(source, _)| source),
            current: current.map(|value| setting(value).shown()).unwrap_or_default(),
            error,
        }
    }
}

/// Replaces the value of `source`; `None` withdraws it. Returns the former value.
pub fn set<T>(
    all: &mut BTreeMap<RegistryName, Held<T>>,
    registry: &RegistryName,
    source: Source,
    value: Option<T>,
) -> Option<T> {
    all.entry(registry.clone()).or_default().0.set(source, value)
}
