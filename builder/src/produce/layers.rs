//! The node's root: one read-only file system per component, so that a change to one component
//! rebuilds one layer.

use super::build::{Build, Carried};
use super::compile::{self, CompiledKernel, Programs};
use super::debian;
use super::podimage::{Image, Layout};
use super::sandbox::{Compiler, Script};
use crate::engine::action::InputTree;
use crate::engine::digest::Digest;
use crate::error::{Context, Result};
use crate::plan::{Content, Locked, RootFile};
use osbuild_abi::{packages, paths, pods};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The output of the scripts that make layers.
const LAYER: &str = "layer.erofs";

/// A layer as a file system.
#[derive(Clone, Debug)]
pub struct BuiltLayer {
    /// The component, or `base`, `kernel-modules`, `pods`, `images` or `image`.
    pub name: String,
    /// The erofs image.
    pub image: Digest,
}

/// Makes the layer with all files except binaries and pods, and the list of the node's packages.
///
/// # Errors
/// A file that the recipe names cannot be read, or a package does not have it.
pub fn base(build: &Build<'_>) -> Result<BuiltLayer> {
    let mut layer = Layer::new("base");
    for file in &build.plan.files {
        layer.add(build, file)?;
    }
    let list = build.options.store.put_bytes(package_list(build)?.as_bytes())?;
    layer.tree.add_file(&at(paths::PACKAGES), list, false)?;
    layer.build(build)
}

/// The list of the packages that the node is made of.
fn package_list(build: &Build<'_>) -> Result<String> {
    let mut list = String::new();
    for (url, components) in &compile::packages(build)? {
        let components = components.iter().map(String::as_str);
        packages::write(&mut list, url, components).expect("a string accepts every write");
    }
    Ok(list)
}

/// Makes the layer with the binaries of one component in `/bin`.
pub fn binaries(build: &Build<'_>, component: &str, programs: &Programs) -> Result<BuiltLayer> {
    let mut layer = Layer::new(component);
    for (name, digest) in programs {
        layer.tree.add_file(&at(&format!("{}/{name}", paths::BIN)), *digest, true)?;
    }
    layer.build(build)
}

/// Makes the layer with the list of the kernel's modules.
pub fn kernel(build: &Build<'_>, kernel: &CompiledKernel) -> Result<BuiltLayer> {
    let mut layer = Layer::new("kernel-modules");
    layer.tree.add_file(&at(paths::KERNEL_MODULES), kernel.modules, false)?;
    layer.build(build)
}

/// Makes the layer with the static pods: manifests, and their list.
pub fn pods(build: &Build<'_>) -> Result<BuiltLayer> {
    let store = build.options.store;
    let mut layer = Layer::new("pods");
    let mut list = String::new();
    for pod in &build.plan.pods {
        let manifest = store.put_bytes(pod.manifest.as_bytes())?;
        let path = at(&format!("{}/{}.yaml", paths::POD_MANIFESTS, pod.name));
        layer.tree.add_file(&path, manifest, false)?;
        let written = pods::write(&mut list, &pod.name, pod.runs, &pod.containers)
            .and_then(|()| list.write_char('\n'));
        written.expect("a string accepts every write");
    }
    layer.tree.add_directory(&at(paths::POD_MANIFESTS))?;
    layer.tree.add_file(&at(paths::POD_LIST), store.put_bytes(list.as_bytes())?, false)?;
    // The images are mounted there.
    layer.tree.add_directory(&at(paths::IMAGES))?;
    layer.build(build)
}

/// Makes the layer with the images of pods.
pub fn images(build: &Build<'_>, images: Vec<(String, Image)>) -> Result<BuiltLayer> {
    let mut layout = Layout::default();
    for (name, image) in images {
        layout.add(&name, image);
    }
    let mut layer = Layer::new(paths::IMAGES_LAYER);
    layout.place(build.options.store, &mut layer.tree, &at(paths::IMAGES))?;
    layer.build(build)
}

/// Makes the layer with the image that an installer carries, and the certificate of its signer.
pub fn carried(build: &Build<'_>, carried: &Carried) -> Result<BuiltLayer> {
    let store = build.options.store;
    let mut layer = Layer::new("image");
    layer.tree.add_directory(&at(paths::INSTALL))?;
    if let Some(certificate) = &carried.certificate {
        let certificate = store.put_bytes(certificate)?;
        layer.tree.add_file(&at(paths::INSTALL_CERTIFICATE), certificate, false)?;
    }
    // Not below `root`: the script decompresses it into the layer.
    layer.tree.add_file("image.raw.zst", carried.image, false)?;
    layer.run(build, include_str!("carried.sh"))
}

/// The files of a layer.
struct Layer {
    name: String,
    /// The files below `root/`, for the script that makes the file system.
    tree: InputTree,
    /// A line for every file with an unusual mode.
    modes: String,
}

impl Layer {
    fn new(name: &str) -> Self {
        Layer { name: name.into(), tree: InputTree::new(), modes: String::new() }
    }

    /// Makes the file system.
    fn build(self, build: &Build<'_>) -> Result<BuiltLayer> {
        self.run(build, include_str!("layer.sh"))
    }

    fn run(self, build: &Build<'_>, script: &str) -> Result<BuiltLayer> {
        let Layer { name, tree: mut input, modes } = self;
        input.add_file("modes", build.options.store.put_bytes(modes.as_bytes())?, false)?;
        let source = format!("osbuild:layer:{name}");
        let id = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_URL, source.as_bytes());
        let made = build.run(Script {
            name: format!("layer {name}"),
            text: script,
            args: Vec::new(),
            env: BTreeMap::from([("UUID".into(), id.to_string())]),
            input,
            outputs: vec![LAYER.into()],
            compiler: Compiler::Root,
        })?;
        Ok(BuiltLayer { name, image: made.output(LAYER)? })
    }

    fn add(&mut self, build: &Build<'_>, file: &RootFile<Locked>) -> Result<()> {
        let store = build.options.store;
        let path = at(&file.path);
        let bytes = match &file.content {
            Content::Directory => {
                self.tree.add_directory(&path)?;
                self.mode(file, 0o755);
                return Ok(());
            }
            Content::Symlink(target) => return self.tree.add_symlink(&path, target),
            Content::File(name) => std::fs::read(build.options.project.join(name))
                .or_build(|| format!("cannot read `{name}`"))
                .map_err(|error| match file.path.as_str() {
                    paths::UPDATE_ROOT | paths::VOLUMES_ROOT => {
                        error.hint("`cargo osbuild keys new NAME` makes keys with a `root.json`")
                    }
                    paths::API_CLIENTS => {
                        error.hint("`cargo osbuild keys new NAME` makes keys with an `api.crt`")
                    }
                    _ => error,
                })?,
            Content::Text(text) => text.clone().into_bytes(),
            Content::Debian { package, path: name } => {
                self.tree.add_file(&path, debian::read(build, &package.lock, name)?, false)?;
                self.mode(file, 0o644);
                return Ok(());
            }
            Content::AppArmorProfile { source, parser } => {
                let profile = compile::apparmor(build, source, &parser.lock)?;
                self.tree.add_file(&path, profile, false)?;
                self.mode(file, 0o644);
                return Ok(());
            }
        };
        self.tree.add_file(&path, store.put_bytes(&bytes)?, false)?;
        self.mode(file, 0o644);
        Ok(())
    }

    fn mode(&mut self, file: &RootFile<Locked>, usual: u32) {
        if file.mode != usual {
            writeln!(self.modes, "{:04o} {}", file.mode, file.path)
                .expect("a string accepts every write");
        }
    }
}

/// The path among an action's inputs for a path on the node.
fn at(path: &str) -> String {
    format!("root{path}")
}
