//! The node's root: one read-only layer a component, so that a change to one costs that one.

use super::compile::Sandbox;
use super::podimage::Layout;
use crate::engine::action::{Action, InputTree};
use crate::engine::deb;
use crate::engine::digest::Digest;
use crate::engine::store::Store;
use crate::error::{Context, Error, Result};
use crate::plan::{Content, DebianPackage, Locked, Plan, RootFile};
use osbuild_abi::{paths, pods};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The output of a layer's action.
pub const LAYER: &str = "layer.erofs";

/// One layer of the root.
#[derive(Clone)]
pub struct Layer {
    /// The component, or `base` or `pods`.
    pub name: String,
    tree: InputTree,
    modes: String,
}

impl Layer {
    fn new(name: &str) -> Self {
        Layer { name: name.into(), tree: InputTree::new(), modes: String::new() }
    }

    /// The layer with everything but binaries and pods.
    ///
    /// # Errors
    /// A file that the recipe names cannot be read, or a package does not hold what is asked of it.
    pub fn base(store: &Store, project: &Path, plan: &Plan<Locked>) -> Result<Self> {
        let mut layer = Layer::new("base");
        for file in &plan.files {
            layer.add(store, project, plan, file)?;
        }
        Ok(layer)
    }

    /// The layer with the binaries of one component, by the file's name in `/bin`.
    pub fn binaries(component: &str, binaries: &BTreeMap<String, Digest>) -> Result<Self> {
        let mut layer = Layer::new(component);
        for (name, digest) in binaries {
            layer.tree.add_file(&at(&format!("{}/{name}", paths::BIN)), *digest, true)?;
        }
        Ok(layer)
    }

    /// The layer with the declared pods: manifests, their list, and the images.
    pub fn pods(store: &Store, plan: &Plan<Locked>, images: &Layout) -> Result<Self> {
        let mut layer = Layer::new("pods");
        let mut list = String::new();
        for pod in &plan.pods {
            let manifest = store.put_bytes(pod.manifest.as_bytes())?;
            layer.tree.add_file(
                &at(&format!("{}/{}.yaml", paths::POD_MANIFESTS, pod.name)),
                manifest,
                false,
            )?;
            let written = pods::write(&mut list, &pod.name, pod.runs_once, &pod.containers)
                .and_then(|()| list.write_char('\n'));
            written.expect("a string takes every write");
        }
        layer.tree.add_directory(&at(paths::POD_MANIFESTS))?;
        layer.tree.add_file(&at(paths::POD_LIST), store.put_bytes(list.as_bytes())?, false)?;
        images.place(store, &mut layer.tree, &at(paths::IMAGES))?;
        Ok(layer)
    }

    /// The action that makes the layer with the image that an installer carries: `image`,
    /// compressed by zstd, and the certificate of whoever signed it.
    pub fn carried(
        store: &Store,
        sandbox: &Sandbox,
        image: Digest,
        certificate: Option<&[u8]>,
    ) -> Result<Action> {
        let mut layer = Layer::new("image");
        layer.tree.add_directory(&at(paths::INSTALL))?;
        if let Some(certificate) = certificate {
            layer.tree.add_file(
                &at(paths::INSTALL_CERTIFICATE),
                store.put_bytes(certificate)?,
                false,
            )?;
        }
        let mut input = layer.tree.clone();
        input.add_file("image.raw.zst", image, false)?;
        layer.script(store, sandbox, include_str!("carried.sh"), input)
    }

    /// The action that makes its file system.
    pub fn action(&self, store: &Store, sandbox: &Sandbox) -> Result<Action> {
        self.script(store, sandbox, include_str!("layer.sh"), self.tree.clone())
    }

    fn script(
        &self,
        store: &Store,
        sandbox: &Sandbox,
        script: &str,
        mut input: InputTree,
    ) -> Result<Action> {
        input.add_file("modes", store.put_bytes(self.modes.as_bytes())?, false)?;
        let id = uuid::Uuid::new_v5(
            &uuid::Uuid::NAMESPACE_URL,
            format!("osbuild:layer:{}", self.name).as_bytes(),
        );
        let env = BTreeMap::from([("UUID".into(), id.to_string())]);
        sandbox.script(store, format!("layer {}", self.name), script, &[], env, input, &[LAYER])
    }

    fn add(
        &mut self,
        store: &Store,
        project: &Path,
        plan: &Plan<Locked>,
        file: &RootFile,
    ) -> Result<()> {
        let path = at(&file.path);
        let bytes = match &file.content {
            Content::Directory => {
                self.tree.add_directory(&path)?;
                self.mode(file, 0o755);
                return Ok(());
            }
            Content::Symlink(target) => return self.tree.add_symlink(&path, target),
            Content::File(name) => std::fs::read(project.join(name))
                .or_build(|| format!("cannot read `{name}`"))
                .map_err(|error| match file.path.as_str() {
                    paths::UPDATE_ROOT => {
                        error.hint("`cargo osbuild keys new NAME` makes keys with a `root.json`")
                    }
                    _ => error,
                })?,
            Content::Text(text) => text.clone().into_bytes(),
            Content::Debian { package, path } => {
                from_package(store, locked_file(plan, package)?, path)?
            }
        };
        self.tree.add_file(&path, store.put_bytes(&bytes)?, false)?;
        self.mode(file, 0o644);
        Ok(())
    }

    fn mode(&mut self, file: &RootFile, usual: u32) {
        if file.mode != usual {
            writeln!(self.modes, "{:04o} {}", file.mode, file.path)
                .expect("a string takes every write");
        }
    }
}

/// The locked package of this name that has files for the root or for images of pods.
pub fn locked_file<'p>(plan: &'p Plan<Locked>, package: &str) -> Result<&'p DebianPackage> {
    let locked = plan.lock.get().files.packages.iter().find(|locked| locked.package == package);
    let stale = || {
        Error::lock(format!("the lock has no package `{package}`"))
            .hint(format!("cargo osbuild lock {}", plan.recipe))
    };
    locked.ok_or_else(stale)
}

/// Where a path of the node stands among an action's inputs.
fn at(path: &str) -> String {
    format!("root{path}")
}

/// The bytes of a file of a package, or of all files of a folder of it, one behind the other in the
/// order of their names.
pub fn from_package(store: &Store, package: &DebianPackage, path: &str) -> Result<Vec<u8>> {
    let deb = store.path(&store.locked(&package.sha256)?)?;
    let files = files_below(&deb, path)
        .or_build(|| format!("cannot read package `{}`", package.package))?;
    if files.is_empty() {
        return Err(Error::build(format!("package `{}` has nothing at `{path}`", package.package)));
    }
    Ok(files.into_values().flatten().collect())
}

/// The regular files of a package at or below `path`, by name.
fn files_below(package: &Path, path: &str) -> std::io::Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(deb::data(File::open(package)?)?).entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let name = name.strip_prefix(".").map_or(name.clone(), Path::to_owned);
        if entry.header().entry_type().is_file() && name.starts_with(path) {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes)?;
            files.insert(name, bytes);
        }
    }
    Ok(files)
}
