//! Names of resources.

use std::error::Error;
use std::fmt;

/// A type of resources in a namespace. Each kind has its own history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    namespace: String,
    type_name: String,
}

impl Kind {
    /// A kind. Both names must not be empty.
    pub fn new(namespace: &str, type_name: &str) -> Result<Kind, EmptyName> {
        let namespace = named("namespace", namespace)?;
        Ok(Kind { namespace, type_name: named("type", type_name)? })
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name of the type.
    pub fn type_name(&self) -> &str {
        &self.type_name
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}({})", self.type_name, self.namespace)
    }
}

/// The full name of one resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    kind: Kind,
    id: String,
}

impl Key {
    /// A key. The identifier must not be empty: an event without one is about its kind.
    pub fn new(kind: Kind, id: &str) -> Result<Key, EmptyName> {
        Ok(Key { kind, id: named("id", id)? })
    }

    /// The kind.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The identifier, which is unique within the kind.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}({}/{})", self.kind.type_name, self.kind.namespace, self.id)
    }
}

fn named(field: &'static str, name: &str) -> Result<String, EmptyName> {
    if name.is_empty() { Err(EmptyName(field)) } else { Ok(name.to_owned()) }
}

/// The field of a key that is empty.
#[derive(Debug, PartialEq, Eq)]
pub struct EmptyName(&'static str);

impl fmt::Display for EmptyName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "`{}` is empty", self.0)
    }
}

impl Error for EmptyName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_no_empty_part() {
        let message = |outcome: Result<Kind, EmptyName>| outcome.unwrap_err().to_string();
        assert_eq!(message(Kind::new("", "a")), "`namespace` is empty");
        assert_eq!(message(Kind::new("a", "")), "`type` is empty");
        let kind = Kind::new("system", "Routes.osbuild").unwrap();
        assert!(Key::new(kind.clone(), "").is_err());
        let key = Key::new(kind, "default").unwrap();
        assert_eq!(key.to_string(), "Routes.osbuild(system/default)");
    }
}
