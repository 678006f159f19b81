//! Images that a component makes of a program of this workspace, and what such a program installs
//! on the node.

use super::Resolver;
use super::binaries::{go_build, texts};
use crate::error::Problem;
use crate::plan::component::Place;
use crate::plan::document::{Entry, Node};
use crate::plan::{DebianProgram, ImageFrom, Payload, PodImage};

impl Resolver<'_> {
    /// The image that `component` makes. `asked` is where the recipe names the component, with the
    /// version of what the image carries.
    pub(super) fn built(&mut self, component: &Node, asked: &Node) -> Option<PodImage> {
        let image = component.get("image")?;
        let version = asked.get("version");
        let payload = match (image.get("payload"), version) {
            (Some(payload), _) => Some(self.payload(payload, asked, version)?),
            (None, Some(version)) => {
                let problem = Problem::new(
                    "a pod of this workspace's programs alone has no upstream version",
                );
                self.problems.push(problem.at(version.spot.place()).hint("take out `version`"));
                None
            }
            (None, None) => None,
        };
        let (package, bin) =
            (image.text_of("package")?.to_owned(), image.text_of("program")?.to_owned());
        Some(PodImage {
            name: image.text_of("name")?.to_owned(),
            from: ImageFrom::Built { package, bin, payload },
        })
    }

    fn payload(&mut self, payload: &Node, asked: &Node, version: Option<&Node>) -> Option<Payload> {
        let named = payload.get("component")?;
        let name = named.text()?;
        let component =
            self.components.get(Place::Host, name, "go", &named.spot, &mut self.problems)?;
        let Some(version) = version else {
            let problem = Problem::new("this pod needs a `version`").at(asked.spot.place());
            let why = format!(
                "its image carries the programs of component `{name}`, at a pinned upstream version"
            );
            self.problems.push(problem.cause(why).hint("`version = \"…\"` beside `component`"));
            return None;
        };
        if let Some(cgo) = component.get("go")?.get("libraries") {
            let problem = Problem::new(format!("component `{name}` cannot be carried by an image"))
                .at(cgo.spot.place());
            self.problems.push(problem.cause(
                "it is linked with Debian's libraries, which is for the host's programs alone",
            ));
        }
        let program = |(name, entry): (&String, &Entry)| {
            Some(DebianProgram {
                name: name.clone(),
                package: entry.node.text_of("package")?.to_owned(),
                path: entry.node.text_of("path")?.to_owned(),
                libraries: texts(entry.node.get("libraries")),
            })
        };
        let build = go_build(component.get("go")?, version.text()?)?;
        let debian: Vec<DebianProgram> = payload.entries_of("debian").filter_map(program).collect();
        if let Some(twice) = debian
            .iter()
            .find(|program| build.packages.iter().any(|other| other.file == program.name))
        {
            self.problem(
                &payload.spot,
                format!("component `{name}` and a Debian package both make `{}`", twice.name),
            );
        }
        Some(Payload { component: name.to_owned(), build, debian })
    }
}
