//! What the firmware starts, of a plan.

use super::Resolver;
use crate::plan::BootProgram;
use crate::plan::component::Place;
use crate::plan::document::Node;

impl Resolver<'_> {
    pub(super) fn boot(&mut self, recipe: &Node) -> Option<BootProgram> {
        let named = recipe.get("boot")?;
        self.note("boot.component", &named.spot);
        let component = self.components.get(
            Place::Host,
            named.text()?,
            "uefi",
            &named.spot,
            &mut self.problems,
        )?;
        let uefi = component.get("uefi")?;
        let text = |key: &str| uefi.text_of(key).map(str::to_owned);
        Some(BootProgram {
            component: named.text()?.to_owned(),
            package: text("package")?,
            bin: text("program")?,
        })
    }
}
