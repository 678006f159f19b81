//! The rights of a person at a console of the machine.

use super::Resolver;
use crate::plan::keys::{RecipeFile, Table};
use crate::plan::{Content, RootFile};
use osbuild_abi::paths;

impl Resolver<'_> {
    /// Whether a person at a console may give the node an address.
    pub(super) fn console_address(&mut self, recipe: &RecipeFile) -> bool {
        let Some(section) = &recipe.console else { return false };
        for (key, spot) in section.present() {
            self.note(format!("console.{key}"), spot);
        }
        let Some(address) = section.address.as_ref().filter(|address| address.value) else {
            return false;
        };
        if recipe.installs.is_some() {
            let message = "`address` has no effect with `[installs]`: the installer reads the \
                           consoles";
            self.problem(&address.spot, message);
        }
        true
    }
}

/// The file in the root of the node that permits it.
pub(super) fn console_file() -> RootFile {
    let (path, content) = (paths::CONSOLE_ADDRESS.to_owned(), Content::Text(String::new()));
    RootFile { path, mode: 0o644, content }
}
