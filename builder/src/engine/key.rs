//! Keys of what this process makes without an action: a digest of named fields.

use super::digest::Digest;
use std::fmt::{Display, Write};

/// A key that grows field by field. Two keys are equal when their kinds and all their fields are,
/// by name, value and order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    kind: &'static str,
    text: String,
}

impl Key {
    /// A key without fields. `kind` names what is made, in lower-case letters and hyphens: it is
    /// also the name of a directory in the store.
    pub fn new(kind: &'static str) -> Self {
        Key { kind, text: String::new() }
    }

    /// The key with one more field. Its value may contain anything: its length is part of the key,
    /// so that no value can pass for two fields.
    pub fn field(mut self, name: &str, value: impl Display) -> Self {
        let value = value.to_string();
        writeln!(self.text, "{name}:{}={value}", value.len()).expect("a string takes every write");
        self
    }

    /// The key with a field of this name for every value, and one that counts them.
    pub fn list<V: Display>(self, name: &str, values: impl IntoIterator<Item = V>) -> Self {
        let values = values.into_iter().collect::<Vec<_>>();
        let key = self.field(name, values.len());
        values.into_iter().fold(key, |key, value| key.field(name, value))
    }

    /// The kind of the product.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The digest of the kind and all fields.
    pub fn digest(&self) -> Digest {
        Digest::of(format!("{}\n{}", self.kind, self.text).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_kind_and_of_each_field() {
        let key = || Key::new("kind").field("name", "value");
        assert_eq!(key().digest(), Digest::of(b"kind\nname:5=value\n"));
        for other in [
            Key::new("another").field("name", "value"),
            Key::new("kind").field("another", "value"),
            Key::new("kind").field("name", "another"),
            key().field("name", "value"),
        ] {
            assert_ne!(other.digest(), key().digest());
        }
    }

    #[test]
    fn no_value_passes_for_another_field() {
        let two = Key::new("kind").field("a", "1").field("b", "2");
        let one = Key::new("kind").field("a", "1\nb:1=2");
        assert_ne!(one.digest(), two.digest());
        let lists = |first: &[&str], second: &[&str]| {
            Key::new("kind").list("a", first).list("a", second).digest()
        };
        assert_ne!(lists(&["x"], &["y", "z"]), lists(&["x", "y"], &["z"]));
    }
}
