//! Names of resources.

use std::error::Error;
use std::fmt;

/// Bytes of each part of a key. A watch keeps the names of what it watches, which need not exist.
const MAX_NAME: usize = 1024;

/// A type of resources in a namespace. Each kind has its own history.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    namespace: String,
    type_name: String,
}

impl Kind {
    /// A kind. Both names have from one to 1024 bytes.
    pub fn new(namespace: &str, type_name: &str) -> Result<Kind, InvalidName> {
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
    /// A key. The identifier has from one to 1024 bytes: an event without one is about its kind.
    pub fn new(kind: Kind, id: &str) -> Result<Key, InvalidName> {
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

fn named(field: &'static str, name: &str) -> Result<String, InvalidName> {
    match name.len() {
        0 => Err(InvalidName::Empty(field)),
        1..=MAX_NAME => Ok(name.to_owned()),
        _ => Err(InvalidName::TooLong(field)),
    }
}

/// The field of a key that is no name, and why.
#[derive(Debug, PartialEq, Eq)]
pub enum InvalidName {
    /// It is empty.
    Empty(&'static str),
    /// It has more than 1024 bytes.
    TooLong(&'static str),
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            InvalidName::Empty(field) => write!(f, "`{field}` is empty"),
            InvalidName::TooLong(field) => write!(f, "`{field}` has more than {MAX_NAME} bytes"),
        }
    }
}

impl Error for InvalidName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_no_empty_and_no_long_part() {
        let message = |outcome: Result<Kind, InvalidName>| outcome.unwrap_err().to_string();
        assert_eq!(message(Kind::new("", "a")), "`namespace` is empty");
        assert_eq!(message(Kind::new("a", "")), "`type` is empty");
        assert!(Kind::new(&"a".repeat(1024), "a").is_ok());
        let long = Kind::new(&"a".repeat(1025), "a");
        assert_eq!(message(long), "`namespace` has more than 1024 bytes");
        let kind = Kind::new("system", "Routes.osbuild").unwrap();
        assert!(Key::new(kind.clone(), "").is_err());
        let key = Key::new(kind, "default").unwrap();
        assert_eq!(key.to_string(), "Routes.osbuild(system/default)");
    }
}
