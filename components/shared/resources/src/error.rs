//! Why the store refuses a call.

use crate::{Key, Owner, Phase, Version};
use std::collections::BTreeSet;
use std::fmt;

/// Why a call changes nothing. The store checks in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no such resource.
    NotFound(Key),
    /// There is one already.
    AlreadyExists(Key),
    /// Another owner alone may write it.
    Owned(Key, Owner),
    /// It was written since the caller read it.
    VersionConflict {
        /// The resource.
        key: Key,
        /// The version that the caller expects; `None` for an undefined one.
        expected: Option<Version>,
        /// The current version.
        actual: Version,
    },
    /// It is not in the phase that the caller expects.
    PhaseConflict(Key, Phase),
    /// It still has these finalizers.
    PendingFinalizers(Key, BTreeSet<String>),
    /// The bookmark is of another process, or the history does not reach back to it.
    InvalidBookmark,
    /// The store is full.
    Exhausted(Limit),
}

/// The limit that a call would exceed, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Resources.
    Resources(usize),
    /// Kinds that had a resource.
    Kinds(usize),
    /// Bytes of resources.
    Bytes(usize),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Limit::Resources(most) => write!(f, "{most} resources"),
            Limit::Kinds(most) => write!(f, "resources of {most} kinds"),
            Limit::Bytes(most) => write!(f, "{most} bytes of resources"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Error::NotFound(key) => write!(f, "{key} does not exist"),
            Error::AlreadyExists(key) => write!(f, "{key} already exists"),
            Error::Owned(key, owner) => write!(f, "{key} is owned by {owner}"),
            Error::VersionConflict { key, expected, actual } => {
                let expected = expected.map_or(Version::UNDEFINED.into(), |v| v.to_string());
                write!(f, "{key} has version {actual}, not {expected}")
            }
            Error::PhaseConflict(key, expected) => write!(f, "{key} is not {expected}"),
            Error::PendingFinalizers(key, finalizers) => {
                let names: Vec<&str> = finalizers.iter().map(String::as_str).collect();
                write!(f, "{key} has pending finalizers: {}", names.join(", "))
            }
            Error::InvalidBookmark => f.write_str("invalid watch bookmark"),
            Error::Exhausted(limit) => write!(f, "the store is full: it has room for {limit}"),
        }
    }
}

impl std::error::Error for Error {}
