//! What a recipe takes from projects that go on releasing, read without a judgement on versions:
//! `osbuild update` has to be able to mend a recipe that the skew policy refuses.

use super::component::{Components, Place};
use super::document::Node;
use super::edit::{compiled, read};
use super::{BinaryName, Project, Version};
use crate::error::{Error, Kind, Problem, Result};

/// The module by whose versions Kubernetes is released.
pub const KUBERNETES: &str = "k8s.io/kubernetes";

/// What one recipe follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Go components, each once.
    pub go: Vec<GoUpstream>,
    /// The version of the Go toolchain.
    pub toolchain: Version,
    /// The kernel; none where no node is made.
    pub kernel: Option<KernelUpstream>,
}

/// A kernel that is built from a Debian package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelUpstream {
    /// The component.
    pub component: String,
    /// The Debian package with its source.
    pub package: String,
}

/// A component that is built from a Go module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoUpstream {
    /// The component.
    pub component: String,
    /// Its module.
    pub module: String,
    /// The version that the recipe names.
    pub version: Version,
    /// Which minor it is to be on.
    pub peg: Peg,
}

/// Which minor a component is to be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peg {
    /// The one that it is on.
    Own,
    /// The one that is pegged behind the newest Kubernetes.
    Kubernetes,
}

/// What `recipe` follows.
///
/// # Errors
/// The recipe or one of its components cannot be read.
pub fn upstream(project: &Project, recipe: &str) -> Result<Upstream> {
    let document = read(project, recipe)?;
    let mut problems = Vec::new();
    let mut components = Components::new(project);
    let mut go: Vec<GoUpstream> = Vec::new();
    for (place, name, asked) in compiled(&document) {
        let Some((component, version)) = asked.text_of("component").zip(asked.text_of("version"))
        else {
            continue;
        };
        let node = components.find(place, component, &mut problems);
        let module = node.as_ref().and_then(|node| node.get("go")?.text_of("module"));
        let (Some(module), Ok(version)) = (module, version.parse()) else { continue };
        let is_free = document
            .get("kubernetes")
            .is_none_or(|kubernetes| kubernetes.get("exception").is_none());
        let is_pegged = match place {
            Place::Lab => module == KUBERNETES,
            _ => name == BinaryName::Kubelet.file_name(),
        };
        let peg = if is_pegged && is_free { Peg::Kubernetes } else { Peg::Own };
        if go.iter().all(|other| other.component != component) {
            go.push(GoUpstream {
                component: component.to_owned(),
                module: module.to_owned(),
                version,
                peg,
            });
        }
    }
    for (component, version) in payloads(&document, &mut components, &mut problems) {
        let node = components.find(Place::Host, &component, &mut problems);
        let module = node.as_ref().and_then(|node| node.get("go")?.text_of("module"));
        let (Some(module), Some(Ok(version))) = (module, version.text().map(str::parse)) else {
            continue;
        };
        go.push(GoUpstream { component, module: module.to_owned(), version, peg: Peg::Own });
    }
    let kernel = document.get("kernel").and_then(|kernel| kernel.text_of("component")).and_then(
        |component| {
            let node = components.find(Place::Host, component, &mut problems)?;
            let package = node.get("kernel")?.text_of("package")?.to_owned();
            Some(KernelUpstream { component: component.to_owned(), package })
        },
    );
    let toolchain =
        document.get("toolchains").and_then(|toolchains| toolchains.text_of("go")?.parse().ok());
    match toolchain {
        _ if !problems.is_empty() => Err(Error::many(Kind::Usage, problems)),
        Some(toolchain) if kernel.is_some() || document.get("programs").is_some() => {
            Ok(Upstream { go, toolchain, kernel })
        }
        _ => Err(Error::usage(format!("recipe `{recipe}` names no kernel or no Go toolchain"))
            .hint(format!("cargo osbuild check {recipe}"))),
    }
}

/// The components whose programs images of pods carry, each with the version that the recipe names.
pub(super) fn payloads(
    recipe: &Node,
    components: &mut Components<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<(String, Node)> {
    let mut payloads = Vec::new();
    for (_, entry) in recipe.entries_of("pods") {
        let Some((pod, version)) = entry.node.text_of("component").zip(entry.node.get("version"))
        else {
            continue;
        };
        let pod = components.find(Place::Pods, pod, problems);
        let component =
            pod.as_ref().and_then(|pod| pod.get("image")?.get("payload")?.text_of("component"));
        payloads.extend(component.map(|component| (component.to_owned(), version.clone())));
    }
    payloads
}
