//! Mounts: `[[mounts]]`. Their names and values are those of the specs of `osbuild.v1`.

use crate::bounded::bounded;
use osbuild_protocol::{MAX_MOUNTS, Mount};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    target: String,
    r#type: String,
    source: String,
    #[serde(default)]
    options: Vec<String>,
}

/// Reads mounts of which none is at or below another one.
pub fn mounts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Mount>, D::Error> {
    let mut mounts: Vec<Mount> = Vec::new();
    for Entry { target, r#type, source, options } in Vec::<Entry>::deserialize(deserializer)? {
        let options = options.iter().map(String::as_str);
        let mount = Mount::parse(&target, &r#type, &source, options)
            .map_err(|refusal| D::Error::custom(refusal.reason))?;
        let mut others = mounts.iter().map(Mount::target);
        if let Some(other) = others.find(|other| other.overlaps(mount.target())) {
            return Err(D::Error::custom(format!(
                "`{target}` overlaps with the mount at `{other}`"
            )));
        }
        mounts.push(mount);
    }
    bounded(mounts, MAX_MOUNTS, "mounts")
}
