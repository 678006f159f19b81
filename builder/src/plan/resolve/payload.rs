//! Images that a component makes from a program of this workspace, and the programs that such an
//! image installs on the node.

use super::Resolver;
use super::components::Place;
use super::texts;
use crate::error::Problem;
use crate::plan::document::{Located, Spot};
use crate::plan::keys::{ComponentImageTable, DebianProgramTable, Name, PayloadTable};
use crate::plan::{DebianProgram, FilePackage, ImageFrom, Payload, PodImage, Version};

impl Resolver<'_> {
    /// The image that a component makes. `spot` is where the recipe names the component, with the
    /// version of the programs that the image carries.
    pub(super) fn built(
        &mut self,
        image: &ComponentImageTable,
        spot: &Spot,
        version: Option<&Located<Version>>,
    ) -> Option<PodImage> {
        let payload = match (&image.payload, version) {
            (Some(payload), _) => Some(self.payload(payload, spot, version)?),
            (None, Some(version)) => {
                let problem = Problem::new(
                    "a pod with only a program of this workspace has no upstream version",
                );
                self.problems.push(problem.at(version.spot.place()).hint("remove `version`"));
                None
            }
            (None, None) => None,
        };
        let package = image.package.as_ref()?.to_string();
        let bin = image.program.as_ref()?.to_string();
        let name = image.name.as_ref()?.to_string();
        Some(PodImage {
            name,
            from: ImageFrom::Built { package, bin, payload: payload.map(Box::new) },
        })
    }

    fn payload(
        &mut self,
        payload: &Located<PayloadTable>,
        spot: &Spot,
        version: Option<&Located<Version>>,
    ) -> Option<Payload> {
        let named = payload.component.as_ref()?;
        let name = &*named.value;
        let (_, section) =
            self.components.section(Place::Host, named, &section!(go), &mut self.problems)?;
        let Some(version) = version else {
            let problem = Problem::new("this pod needs a `version`").at(spot.place());
            let cause = format!(
                "its image carries the programs of component `{name}` at a pinned upstream version"
            );
            self.problems.push(problem.cause(cause).hint("add `version = \"…\"` to the entry"));
            return None;
        };
        if let Some(cgo) = &section.libraries {
            let problem = Problem::new(format!("an image cannot carry component `{name}`"))
                .at(cgo.spot.place());
            self.problems.push(problem.cause(
                "it is linked with Debian's libraries, which only programs of the host can be",
            ));
        }
        let program = |(name, entry): (&Name, &Located<DebianProgramTable>)| {
            Some(DebianProgram {
                name: name.to_string(),
                package: FilePackage::named(entry.package.as_ref()?.to_string()),
                path: entry.path.as_ref()?.to_string(),
                libraries: texts(entry.libraries.as_ref())
                    .into_iter()
                    .map(FilePackage::named)
                    .collect(),
            })
        };
        let go = self.go_component(name, &section, version.value)?;
        let debian = payload.debian.iter().flat_map(|table| table.iter());
        let debian: Vec<DebianProgram> = debian.filter_map(program).collect();
        let is_made_twice =
            |program: &&DebianProgram| go.packages.iter().any(|other| other.file == program.name);
        if let Some(twice) = debian.iter().find(is_made_twice) {
            let message =
                format!("component `{name}` and a Debian package both make `{}`", twice.name);
            self.problem(&payload.spot, message);
        }
        Some(Payload { go, debian })
    }
}
