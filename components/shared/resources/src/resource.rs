//! Resources.

use crate::{Key, Labels, Phase, Secrets, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::SystemTime;

/// The setting itself, as bytes that only clients and controllers understand. Neither form has a
/// secret, so whatever shows a spec shows none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    /// An encoded message. Empty if the writer gave none.
    pub proto: Vec<u8>,
    /// The same as YAML, for people and for clients that do not know the message.
    pub yaml: String,
    /// The values of the fields that both forms hide.
    pub secrets: Secrets,
}

/// The controller or client that alone may write the resource. An empty name is nobody's: anyone
/// who gives no name either may write it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner(pub String);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.0.is_empty() { f.write_str("nobody") } else { write!(f, "`{}`", self.0) }
    }
}

/// The part of a resource that its writer decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its name.
    pub key: Key,
    /// Whether it is in use.
    pub phase: Phase,
    /// The finalizers, which controllers must remove before it can be destroyed.
    pub finalizers: BTreeSet<String>,
    /// The labels, with which queries select it.
    pub labels: Labels,
    /// The annotations: notes about it, which queries ignore.
    pub annotations: BTreeMap<String, String>,
    /// The setting.
    pub spec: Spec,
}

impl Content {
    /// A resource in use, without finalizers, labels and annotations.
    pub fn new(key: Key, spec: Spec) -> Content {
        Content {
            key,
            phase: Phase::Running,
            finalizers: BTreeSet::new(),
            labels: Labels::new(),
            annotations: BTreeMap::new(),
            spec,
        }
    }

    /// Whether it is in effect: until its last finalizer is gone, controllers have something to
    /// undo that may need it.
    pub fn is_in_effect(&self) -> bool {
        self.phase == Phase::Running || !self.finalizers.is_empty()
    }
}

/// A stored resource: its content, and the fields that the store sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The content, as its writer decided it.
    pub content: Content,
    /// How often it was written.
    pub version: Version,
    /// The owner, which alone may write it. Set when the resource is created.
    pub owner: Owner,
    /// When it was created.
    pub created: SystemTime,
    /// When it was last written.
    pub updated: SystemTime,
}

/// Bytes that a resource takes beside its texts: the structures of this module and the nodes of the
/// maps around them, rounded up.
const OVERHEAD: usize = 512;

/// The same for each entry of a map or set.
const ENTRY_OVERHEAD: usize = 64;

impl Content {
    /// The memory that a resource with this content takes, roughly.
    pub fn size(&self) -> usize {
        let Content { key, finalizers, labels, annotations, spec, .. } = self;
        let pairs = labels.iter().chain(annotations);
        let pairs = pairs.map(|(key, value)| key.len() + value.len() + ENTRY_OVERHEAD);
        let finalizers = finalizers.iter().map(|name| name.len() + ENTRY_OVERHEAD);
        let names = [key.kind().namespace(), key.kind().type_name(), key.id()].map(str::len);
        OVERHEAD
            + names.into_iter().chain(pairs).chain(finalizers).sum::<usize>()
            + spec.proto.len()
            + spec.yaml.len()
            + spec.secrets.size()
    }
}

impl Resource {
    /// The memory that the resource takes, roughly.
    pub fn size(&self) -> usize {
        self.content.size() + self.owner.0.len()
    }
}
