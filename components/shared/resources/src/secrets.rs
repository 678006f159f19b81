//! The secrets of a spec, apart from its forms.

use std::collections::BTreeMap;
use std::fmt;
use zeroize::Zeroizing;

/// The values of secret fields by the names of these. `Debug` prints the names alone, and the
/// memory of a value is overwritten when it is dropped.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(BTreeMap<String, Zeroizing<String>>);

impl Secrets {
    /// Adds the value of a field.
    pub fn insert(&mut self, field: impl Into<String>, value: impl Into<String>) {
        self.0.insert(field.into(), Zeroizing::new(value.into()));
    }

    /// The value of a field.
    pub fn reveal(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(|value| value.as_str())
    }

    /// The fields with their values.
    pub fn reveal_all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(field, value)| (field.as_str(), value.as_str()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The memory that they take, roughly.
    pub fn size(&self) -> usize {
        self.0.iter().map(|(field, value)| field.len() + value.len()).sum()
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_printed() {
        let mut secrets = Secrets::default();
        secrets.insert("password", "hunter2");
        assert_eq!(format!("{secrets:?}"), "{\"password\"}");
        assert_eq!(secrets.reveal("password"), Some("hunter2"));
        assert_eq!(secrets.size(), 15);
    }
}
