//! Authorities that the node's own programs trust: `[[trusted-roots]]`. Their names and values are
//! those of the specs of `osbuild.v1`.

use crate::bounded::bounded;
use osbuild_protocol::{Authorities, MAX_ROOTS, Refusal, RootName, TrustedRoot};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    certificates: String,
}

impl Entry {
    fn root(&self) -> Result<TrustedRoot, Refusal> {
        TrustedRoot::new(RootName::parse(&self.name)?, Authorities::from_pem(&self.certificates)?)
    }
}

/// Reads authorities, of which no two have the same name.
pub fn roots<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TrustedRoot>, D::Error> {
    let mut roots: Vec<TrustedRoot> = Vec::new();
    for entry in Vec::<Entry>::deserialize(deserializer)? {
        let root = entry.root().map_err(|refusal| D::Error::custom(refusal.reason))?;
        if roots.iter().any(|other| other.name() == root.name()) {
            let name = root.name();
            return Err(D::Error::custom(format!("the authorities `{name}` are there twice")));
        }
        roots.push(root);
    }
    bounded(roots, MAX_ROOTS, "trusted roots")
}
