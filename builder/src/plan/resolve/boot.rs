//! The boot program, which the firmware starts.

use super::Resolver;
use super::components::Place;
use crate::plan::BootProgram;
use crate::plan::keys::RecipeFile;

impl Resolver<'_> {
    pub(super) fn boot(&mut self, recipe: &RecipeFile) -> Option<BootProgram> {
        let named = recipe.boot.as_ref()?;
        self.note("boot.component", &named.spot);
        let (_, uefi) =
            self.components.section(Place::Host, named, &section!(uefi), &mut self.problems)?;
        Some(BootProgram {
            component: named.to_string(),
            package: uefi.package.as_ref()?.to_string(),
            bin: uefi.program.as_ref()?.to_string(),
        })
    }
}
