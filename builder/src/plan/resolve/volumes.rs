//! Which documents on volumes configure the node. The recipe must also have the pod that reads
//! them.

use super::Resolver;
use crate::plan::Volumes;
use crate::plan::keys::{RecipeFile, Table};
use osbuild_abi::volumes::COMPONENT;

/// The name of the pod, which it shares with the other components that look for a document: a node
/// has one of them.
const POD: &str = "bootstrap";

impl Resolver<'_> {
    pub(super) fn volumes(&mut self, recipe: &RecipeFile) -> Option<Volumes> {
        let section = self.with_its_pod(
            recipe,
            (POD, COMPONENT),
            recipe.volumes.as_ref(),
            "volumes",
            "add `[volumes]` with the `root` of the key that signs documents, or remove the pod",
        )?;
        for (key, spot) in section.present() {
            self.note(format!("volumes.{key}"), spot);
        }
        let is_unsigned = section.unsigned.as_ref().is_some_and(|unsigned| unsigned.value);
        match (&section.root, is_unsigned) {
            (Some(root), false) => Some(Volumes::Signed(root.to_string())),
            (None, true) => {
                self.warnings.push(
                    "a person who connects a volume configures a new node: documents need no \
                     signature, as `unsigned` in `[volumes]` says, with Secure Boot as well"
                        .to_owned(),
                );
                Some(Volumes::Unsigned)
            }
            (Some(root), true) => {
                let message = "documents cannot be both signed, as `root` says, and `unsigned`";
                self.problem(&root.spot, message);
                None
            }
            (None, false) => {
                let message = "`[volumes]` needs the `root` of the key that signs documents, \
                               `keys/NAME/root.json`, or `unsigned = true`";
                self.problem(&section.spot, message);
                None
            }
        }
    }
}
