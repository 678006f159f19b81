//! The upstream projects that a recipe follows, read without the skew policy: `osbuild update` must
//! be able to repair a recipe that the policy refuses.

mod edit;

pub use edit::{set_go_toolchain, set_version, version_lines};

use crate::error::{Error, Kind, Problem, Result};
use crate::plan::document::Located;
use crate::plan::keys::{GoTable, Name, PodEntry, RecipeFile};
use crate::plan::resolve::components::{Components, Place};
use crate::plan::resolve::{RECIPES, makes_programs};
use crate::plan::{BinaryName, Project, Version};

/// The Go module whose versions are the releases of Kubernetes.
pub const KUBERNETES: &str = "k8s.io/kubernetes";

/// The upstream projects of one recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// Go components, each once.
    pub go: Vec<GoUpstream>,
    /// The version of the Go toolchain.
    pub toolchain: Version,
    /// The kernel; `None` for programs.
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
    /// The minor that updates keep it on.
    pub peg: Peg,
}

/// The minor that updates keep a component on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peg {
    /// The minor of its current version.
    Own,
    /// The minor that is pegged behind the newest Kubernetes.
    Kubernetes,
    /// The minor that is as far behind the newest Kubernetes as its current one.
    Distance,
}

/// The upstream projects that `recipe` follows.
///
/// # Errors
/// The recipe or one of its components cannot be read.
pub fn upstream(project: &Project, recipe: &str) -> Result<Upstream> {
    let document = read(project, recipe)?;
    let mut problems = Vec::new();
    let mut components = Components::new(project);
    let go = go_components(&document, &mut components, &mut problems);
    let named = document.kernel.as_ref().and_then(|kernel| kernel.component.as_ref());
    let kernel = named.and_then(|named| {
        let component = components.find(Place::Host, named, &mut problems)?;
        let package = component.kernel.as_ref()?.package.as_ref()?.to_string();
        Some(KernelUpstream { component: named.to_string(), package })
    });
    let toolchain = document.toolchains.as_ref().and_then(|toolchains| toolchains.go.as_ref());
    match toolchain {
        _ if !problems.is_empty() => Err(Error::many(Kind::Usage, problems)),
        Some(toolchain) if kernel.is_some() || document.programs.is_some() => {
            Ok(Upstream { go, toolchain: toolchain.value, kernel })
        }
        _ => Err(Error::usage(format!("recipe `{recipe}` names no kernel or no Go toolchain"))
            .hint(format!("cargo osbuild check {recipe}"))),
    }
}

fn go_components(
    recipe: &RecipeFile,
    components: &mut Components<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<GoUpstream> {
    let section = recipe.kubernetes.as_ref();
    let is_free = section.is_some_and(|section| section.exception.is_some());
    let module = |go: &Located<GoTable>| go.module.as_ref().map(|module| module.to_string());
    let mut go: Vec<GoUpstream> = Vec::new();
    for entry in compiled(recipe) {
        let found = components.find(entry.place, entry.component, problems);
        let module = found.as_ref().and_then(|found| found.go.as_ref()).and_then(module);
        let (Some(module), Some(version)) = (module, entry.version) else { continue };
        let peg = match entry.place {
            // The clusters of the lab have the minors that a node may join.
            Place::Lab if module == KUBERNETES => Peg::Distance,
            _ if entry.is_kubelet && !is_free => Peg::Kubernetes,
            _ => Peg::Own,
        };
        let (component, version) = (entry.component.to_string(), version.value);
        if go.iter().all(|other| other.component != component) {
            go.push(GoUpstream { component, module, version, peg });
        }
    }
    for (component, version) in payloads(recipe, components, problems) {
        let found = components.find(Place::Host, &component, problems);
        let module = found.as_ref().and_then(|found| found.go.as_ref()).and_then(module);
        let Some(module) = module else { continue };
        // The control plane that the node makes keeps the minor of its kubelet.
        let peg = if module == KUBERNETES && !is_free { Peg::Kubernetes } else { Peg::Own };
        go.push(GoUpstream { component, module, version: version.value, peg });
    }
    go
}

/// The components whose programs images of pods carry, each with the version that the recipe names.
fn payloads(
    recipe: &RecipeFile,
    components: &mut Components<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<(String, Located<Version>)> {
    let entries = recipe.pods.iter().flat_map(|pods| pods.values());
    let payload = |entry: &Located<PodEntry>| {
        let PodEntry::Component(pod) = &entry.value else { return None };
        let (named, version) = (pod.component.as_ref()?, pod.version.as_ref()?);
        let component = components.find(Place::Pods, named, problems)?;
        let payload = component.image.as_ref()?.payload.as_ref()?;
        Some((payload.component.as_ref()?.to_string(), version.clone()))
    };
    entries.filter_map(payload).collect()
}

/// An entry of `[binaries]` or `[programs]`.
struct Compiled<'r> {
    /// `binaries` or `programs`.
    section: &'static str,
    /// Where its component is looked up.
    place: Place,
    /// Whether it is the kubelet of a node.
    is_kubelet: bool,
    /// Its component.
    component: &'r Located<Name>,
    /// Its upstream version, if it has one.
    version: Option<&'r Located<Version>>,
}

/// The entries of `[binaries]` and `[programs]`.
fn compiled(recipe: &RecipeFile) -> impl Iterator<Item = Compiled<'_>> {
    let binaries = recipe.binaries.iter();
    let binaries = binaries.flat_map(|section| {
        BinaryName::ALL.into_iter().filter_map(move |name| {
            let entry = section.entry(name)?;
            Some(Compiled {
                section: key!(RecipeFile.binaries),
                place: Place::Host,
                is_kubelet: name == BinaryName::Kubelet,
                component: entry.component.as_ref()?,
                version: entry.version.as_ref(),
            })
        })
    });
    let programs = recipe.programs.iter().flat_map(|section| section.values());
    let programs = programs.filter_map(|entry| {
        Some(Compiled {
            section: key!(RecipeFile.programs),
            place: Place::Lab,
            is_kubelet: false,
            component: entry.component.as_ref()?,
            version: entry.version.as_ref(),
        })
    });
    binaries.chain(programs)
}

/// A recipe with all that it inherits.
fn read(project: &Project, recipe: &str) -> Result<Located<RecipeFile>> {
    let mut problems = Vec::new();
    let document = match makes_programs(project, recipe) {
        true => RECIPES.read_part(project, recipe, &mut problems),
        false => RECIPES.read(project, recipe, &mut problems),
    };
    match document {
        Some(document) if problems.is_empty() => Ok(document),
        Some(_) => Err(Error::many(Kind::Usage, problems)),
        None => Err(Error::many(Kind::Usage, vec![RECIPES.absent(project, recipe)])),
    }
}
