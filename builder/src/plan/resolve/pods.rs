//! The static pods of a plan and the images that they run.

use super::Resolver;
use crate::error::{Problem, in_words};
use crate::plan::component::{Place, relative};
use crate::plan::document::{Entry, Node};
use crate::plan::manifest::{self, Manifest};
use crate::plan::nearest::nearest;
use crate::plan::{ImageFrom, Pod, PodImage};
use osbuild_abi::paths;

/// The component whose pod installs network plugins.
const CNI_COMPONENT: &str = "cni";

impl Resolver<'_> {
    pub(super) fn pods(&mut self, recipe: &Node) -> Vec<Pod> {
        let entries: Vec<(String, Entry)> =
            recipe.entries_of("pods").map(|(name, entry)| (name.clone(), entry.clone())).collect();
        let networked = brings_network(recipe);
        let pods: Vec<Pod> =
            entries.iter().filter_map(|(name, entry)| self.pod(name, entry, networked)).collect();
        for (index, pod) in pods.iter().enumerate() {
            let other = pods[..index].iter().find(|other| {
                pod.images.iter().any(|image| other.images.iter().any(|it| clash(it, image)))
            });
            let entry = entries.iter().find(|(name, _)| *name == pod.name);
            if let (Some(other), Some((_, entry))) = (other, entry) {
                self.problem(
                    &entry.key,
                    format!(
                        "`{}` and `{}` call different images by one name",
                        other.name, pod.name
                    ),
                );
            }
        }
        pods
    }

    /// The image of every pod's sandbox.
    pub(super) fn pause(&mut self, recipe: &Node) -> Option<PodImage> {
        let named = recipe.get("pause")?;
        self.note("pause.component", &named.spot);
        let component = self.components.get(
            Place::Pods,
            named.text()?,
            "image",
            &named.spot,
            &mut self.problems,
        )?;
        self.built(&component, named)
    }

    /// `networked` says whether the node has a network plugin without a cluster.
    fn pod(&mut self, name: &str, entry: &Entry, networked: bool) -> Option<Pod> {
        self.note(format!("pods.{name}"), &entry.key);
        let (named, from, image) = match entry.node.get("component") {
            Some(named) => {
                let component = self.components.get(
                    Place::Pods,
                    named.text()?,
                    "pod",
                    &named.spot,
                    &mut self.problems,
                )?;
                let (manifest, from) = match entry.node.get("manifest") {
                    Some(own) => (own.clone(), entry.node.spot.file()),
                    None => (component.get("pod")?.get("manifest")?.clone(), component.spot.file()),
                };
                (manifest, from.to_owned(), Some(self.built(&component, &entry.node)?))
            }
            None => (entry.node.get("manifest")?.clone(), entry.node.spot.file().to_owned(), None),
        };
        let path = relative(&from, named.text()?);
        let Some(text) = self.project.text(&path, &mut self.problems) else {
            self.problem(&named.spot, format!("no manifest `{path}`"));
            return None;
        };
        let manifest = match manifest::read(text) {
            Ok(manifest) => manifest,
            Err(causes) => {
                let problem = Problem::new(format!("`{path}` is not the manifest of a static pod"))
                    .at(named.spot.place());
                self.problems.push(causes.into_iter().fold(problem, Problem::cause));
                return None;
            }
        };
        let images = match image {
            Some(image) => vec![image],
            None => self.archives(&entry.node, &manifest)?,
        };
        self.is_whole(name, &path, &named, &manifest, &images);
        if !manifest.host_network && !networked {
            let why = format!("pod `{name}` has no `hostNetwork: true` in `{path}`");
            self.warnings
                .push(format!("{why}: it waits until a cluster gives the node a network plugin, and READY waits with it"));
        }
        let text = text.to_owned();
        let Manifest { containers, runs_once, .. } = manifest;
        Some(Pod { name: name.to_owned(), manifest: text, containers, runs_once, images })
    }

    /// The images of a user's pod: `image` with its digest when the manifest names one, or `images`
    /// by name.
    fn archives(&mut self, node: &Node, manifest: &Manifest) -> Option<Vec<PodImage>> {
        let archive = |from: &str, path: &Node, digest: &Node| {
            Some(ImageFrom::Archive {
                path: relative(from, path.text()?),
                digest: digest.text()?.to_owned(),
            })
        };
        match (node.get("image"), node.get("digest"), node.get("images")) {
            (Some(image), Some(digest), None) => {
                let [name] = &manifest.images[..] else {
                    let problem = Problem::new("`image` is for a manifest that names one image")
                        .at(image.spot.place());
                    let found = in_words(manifest.images.iter().map(String::as_str));
                    self.problems.push(
                        problem
                            .cause(format!("this one names {found}"))
                            .hint("list them in `images`, each by its name"),
                    );
                    return None;
                };
                self.is_there(image);
                Some(vec![PodImage {
                    name: name.clone(),
                    from: archive(image.spot.file(), image, digest)?,
                }])
            }
            (None, None, Some(images)) => {
                images
                    .table()?
                    .values()
                    .filter_map(|entry| entry.node.get("archive"))
                    .for_each(|path| self.is_there(path));
                let image = |(name, entry): (&String, &Entry)| {
                    let node = &entry.node;
                    let from =
                        archive(node.spot.file(), node.get("archive")?, node.get("digest")?)?;
                    Some(PodImage { name: name.clone(), from })
                };
                Some(images.table()?.iter().filter_map(image).collect())
            }
            _ => {
                let problem =
                    Problem::new("a pod with a `manifest` needs `image` and `digest`, or `images`")
                        .at(node.spot.place());
                self.problems
                    .push(problem.cause("a node fetches no image: those of its static pods are inside it, pinned by digest"));
                None
            }
        }
    }

    /// An archive is a file of the project, of any size, a layout a folder.
    fn is_there(&mut self, named: &Node) {
        let Some(path) = named.text().map(|path| relative(named.spot.file(), path)) else { return };
        if !self.project.has(&path) && !self.project.has_folder(&path) {
            let near =
                nearest(&path, self.project.paths()).map(|near| format!("did you mean `{near}`?"));
            let problem = Problem::new(format!("no file or folder `{path}` in the project"))
                .at(named.spot.place());
            let problem = problem.cause("the image of a pod is an OCI archive or an OCI layout");
            self.problems.push(Problem { hint: near, ..problem });
        }
    }

    /// The manifest and what the recipe gives it must fit each other.
    fn is_whole(
        &mut self,
        name: &str,
        path: &str,
        named: &Node,
        manifest: &Manifest,
        images: &[PodImage],
    ) {
        if manifest.name != name {
            let problem =
                Problem::new(format!("pod `{name}` is called `{}` in its manifest", manifest.name))
                    .at(named.spot.place());
            self.problems.push(
                problem.cause(format!("`metadata.name` of `{path}` must be its key in `[pods]`")),
            );
        }
        for image in &manifest.images {
            if !images.iter().any(|given| given.name == *image) {
                let problem =
                    Problem::new(format!("`{path}` runs `{image}`, which nothing provides"))
                        .at(named.spot.place());
                let near = nearest(image, images.iter().map(|image| image.name.as_str()))
                    .map(|near| format!("did you mean `{near}`?"));
                self.problems.push(Problem { hint: near, ..problem });
            }
        }
        for image in images.iter().filter(|given| !manifest.images.contains(&given.name)) {
            self.problem(
                &named.spot,
                format!("`{path}` does not run `{}`, which is provided for it", image.name),
            );
        }
    }
}

/// The node finds an image by its name alone.
fn clash(one: &PodImage, other: &PodImage) -> bool {
    one.name == other.name && one.from != other.from
}

/// Whether the recipe has the pod that installs network plugins, and a network configuration for
/// it.
fn brings_network(recipe: &Node) -> bool {
    let installs = recipe
        .entries_of("pods")
        .any(|(_, entry)| entry.node.text_of("component") == Some(CNI_COMPONENT));
    let configuration =
        |path: &str| path.strip_prefix(paths::CNI).is_some_and(|rest| rest.starts_with('/'));
    installs && recipe.entries_of("files").any(|(path, _)| configuration(path))
}
