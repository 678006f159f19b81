//! The product of a recipe with `[programs]`: programs that run on the build machine and are in no
//! image.

use super::host_component::GoComponent;
use crate::plan::lock::Pins;
use crate::plan::print::Page;
use crate::plan::{LockState, Lockable, Locked, Product, Signing, Unlocked};

/// Programs for the build machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPrograms<L: LockState = Unlocked> {
    /// Their components, in order of name.
    pub components: Vec<ProgramComponent<L>>,
}

/// A component with the programs that it makes for the build machine, all of them by one
/// compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramComponent<L: LockState = Unlocked> {
    /// How it is compiled.
    pub go: GoComponent<L>,
    /// The names of the files in `out/<recipe>/bin/`, in order.
    pub files: Vec<String>,
}

impl<L: LockState> Product<L> for HostPrograms<L> {
    fn version(&self) -> Option<&str> {
        None
    }

    fn default_signing(&self) -> Option<&Signing> {
        None
    }

    fn go_components(&self) -> Vec<&GoComponent<L>> {
        self.components.iter().map(|component| &component.go).collect()
    }

    fn print_sections(&self, page: &mut Page<'_>) {
        page.programs(self);
    }
}

impl Lockable for HostPrograms {
    type Locked = HostPrograms<Locked>;

    fn lock(self, pins: &Pins<'_>) -> HostPrograms<Locked> {
        let lock = |component: ProgramComponent| ProgramComponent {
            go: component.go.lock(pins),
            files: component.files,
        };
        HostPrograms { components: self.components.into_iter().map(lock).collect() }
    }
}
