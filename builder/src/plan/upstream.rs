//! What a recipe takes from projects that go on releasing, read without a judgement on versions: `osbuild update` has to be able to
//! mend a recipe that the skew policy refuses.

use super::component::{Components, Place};
use super::document::Node;
use super::edit::read;
use super::{BinaryName, Project, Version};
use crate::error::{Error, Kind, Problem, Result};

/// What one recipe follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Go components, each once.
    pub go: Vec<GoUpstream>,
    /// The version of the Go toolchain.
    pub toolchain: Version,
    /// The component of the kernel.
    pub kernel: String,
    /// The Debian package with the kernel's source.
    pub kernel_package: String,
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
    for name in BinaryName::ALL {
        let Some(binary) = document.get("binaries").and_then(|binaries| binaries.get(name.file_name())) else { continue };
        let Some((component, version)) = binary.text_of("component").zip(binary.text_of("version")) else { continue };
        let node = components.find(Place::Host, component, &mut problems);
        let module = node.as_ref().and_then(|node| node.get("go")?.text_of("module"));
        let (Some(module), Ok(version)) = (module, version.parse()) else { continue };
        let is_free = document.get("kubernetes").is_none_or(|kubernetes| kubernetes.get("exception").is_none());
        let peg = if name == BinaryName::Kubelet && is_free { Peg::Kubernetes } else { Peg::Own };
        if go.iter().all(|other| other.component != component) {
            go.push(GoUpstream { component: component.to_owned(), module: module.to_owned(), version, peg });
        }
    }
    for (component, version) in payloads(&document, &mut components, &mut problems) {
        let node = components.find(Place::Host, &component, &mut problems);
        let module = node.as_ref().and_then(|node| node.get("go")?.text_of("module"));
        let (Some(module), Some(Ok(version))) = (module, version.text().map(str::parse)) else { continue };
        go.push(GoUpstream { component, module: module.to_owned(), version, peg: Peg::Own });
    }
    let kernel = document.get("kernel").and_then(|kernel| kernel.text_of("component")).unwrap_or_default();
    let node = components.find(Place::Host, kernel, &mut problems);
    let package = node.as_ref().and_then(|node| node.get("kernel")?.text_of("package"));
    let toolchain = document.get("toolchains").and_then(|toolchains| toolchains.text_of("go")?.parse().ok());
    match (package, toolchain) {
        _ if !problems.is_empty() => Err(Error::many(Kind::Usage, problems)),
        (Some(package), Some(toolchain)) => {
            Ok(Upstream { go, toolchain, kernel: kernel.to_owned(), kernel_package: package.to_owned() })
        }
        _ => Err(Error::usage(format!("recipe `{recipe}` names no kernel or no Go toolchain"))
            .hint(format!("cargo osbuild check {recipe}"))),
    }
}

/// The components whose programs images of pods carry, each with the version that the recipe names.
pub(super) fn payloads(recipe: &Node, components: &mut Components<'_>, problems: &mut Vec<Problem>) -> Vec<(String, Node)> {
    let mut payloads = Vec::new();
    for (_, entry) in recipe.entries_of("pods") {
        let Some((pod, version)) = entry.node.text_of("component").zip(entry.node.get("version")) else { continue };
        let pod = components.find(Place::Pods, pod, problems);
        let component = pod.as_ref().and_then(|pod| pod.get("image")?.get("payload")?.text_of("component"));
        payloads.extend(component.map(|component| (component.to_owned(), version.clone())));
    }
    payloads
}
