//! Modules of the kernel that the node shall have built in: `[[kernel-modules]]`.

use crate::bounded::bounded;
use osbuild_protocol::{KernelModule, MAX_MODULES, ModuleName};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
}

/// Reads modules, of which no two have the same name.
pub fn modules<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<KernelModule>, D::Error> {
    let mut modules: Vec<KernelModule> = Vec::new();
    for Entry { name } in Vec::<Entry>::deserialize(deserializer)? {
        let parsed = ModuleName::parse(&name);
        let module = parsed.map(KernelModule::new);
        let module = module.map_err(|refusal| D::Error::custom(refusal.reason))?;
        if modules.contains(&module) {
            return Err(D::Error::custom(format!("the kernel module `{name}` is there twice")));
        }
        modules.push(module);
    }
    bounded(modules, MAX_MODULES, "kernel modules")
}
