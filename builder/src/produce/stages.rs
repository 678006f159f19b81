//! The stages between sources and image: each runs its actions and returns what the next stage
//! takes.

use super::action::ActionResult;
use super::compile::{Sandbox, binary, cargo, go, kernel};
use super::digest::Digest;
use super::executor::Executor;
use super::image;
use super::podimage::{Files, Image, Layout, dynamic, from_archive, from_program};
use super::root::{LAYER, Layer};
use super::store::Store;
use crate::error::Result;
use crate::plan::{
    Architecture, BinaryName, Compile, GoComponent, HostComponent, HostPrograms, ImageFrom, Locked,
    Payload, Plan, PodImage, ProgramComponent,
};
use osbuild_abi::payload::{DYNAMIC, PROGRAMS};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Kind of the store's memo that a binary was checked for an architecture.
const CHECKED: &str = "checked-binary";

/// What every stage needs.
pub struct Stages<'a> {
    /// Runs actions.
    pub executor: &'a Executor,
    /// Keeps their results.
    pub store: &'a Store,
    /// What actions see.
    pub sandbox: &'a Sandbox,
    /// The root of the project.
    pub project: &'a Path,
    /// What is built.
    pub plan: &'a Plan<Locked>,
}

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct CompiledKernel {
    /// `bzImage` or `Image`.
    pub image: Digest,
    /// What `uname -r` says.
    pub release: String,
}

/// What an installer carries: the image of another recipe.
#[derive(Clone, Debug)]
pub struct Carried {
    /// The image, compressed by zstd.
    pub image: PathBuf,
    /// The certificate of whoever signed it, in PEM; none if nobody did.
    pub certificate: Option<Vec<u8>>,
}

/// The programs of one component by file name, each checked.
pub type Programs = BTreeMap<String, Digest>;

/// A layer of the root as a file system.
#[derive(Clone, Debug)]
pub struct BuiltLayer {
    /// Its name.
    pub name: String,
    /// The erofs image.
    pub image: Digest,
}

impl Stages<'_> {
    /// Configures the kernel, compares the configuration with what was asked for, and compiles it.
    pub fn kernel(&self) -> Result<CompiledKernel> {
        let configured =
            self.executor.run(&kernel::configure(self.store, self.sandbox, self.plan)?)?;
        let config = configured.output(kernel::CONFIG)?;
        let text =
            |digest: Digest| Ok(String::from_utf8_lossy(&self.store.read(&digest)?).into_owned());
        kernel::compare(&self.plan.kernel, &text(config)?, || {
            text(configured.output(kernel::KCONFIG)?)
        })?;
        let compiled =
            self.executor.run(&kernel::compile(self.store, self.sandbox, self.plan, config)?)?;
        let release = text(compiled.output(kernel::RELEASE)?)?.trim().to_owned();
        Ok(CompiledKernel { image: compiled.output(kernel::KERNEL)?, release })
    }

    /// Compiles the binaries of one component.
    pub fn component(&self, component: &HostComponent<Locked>) -> Result<Programs> {
        let names = component.binaries.iter().map(BinaryName::to_string).collect::<Vec<_>>();
        match &component.build {
            Compile::Cargo { package, .. } => self.package(package, &names),
            Compile::Go(go) => self.go_programs(go, names),
        }
    }

    /// Compiles a component of a Go module, and gives these of its programs.
    fn go_programs(&self, component: &GoComponent<Locked>, names: Vec<String>) -> Result<Programs> {
        let action = go::compile(self.store, self.sandbox, self.plan, component)?;
        let result = self.executor.run(&action)?;
        names
            .into_iter()
            .map(|name| self.checked(result.output(&go::output(&name))?, name))
            .collect()
    }

    /// Compiles programs of one package of this workspace.
    fn package(&self, package: &str, programs: &[String]) -> Result<Programs> {
        let result = self.compiled(package, self.plan.architecture.rust_musl(), programs)?;
        programs
            .iter()
            .map(|name| self.checked(result.output(&cargo::output(name))?, name.clone()))
            .collect()
    }

    fn compiled(&self, package: &str, target: &str, files: &[String]) -> Result<ActionResult> {
        let package = cargo::Package::find(self.project, package, target)?;
        let dependencies = self
            .executor
            .run(&package.dependencies(self.store, self.sandbox, self.plan)?)?
            .output(cargo::DEPENDENCIES)?;
        self.executor.run(&package.compile(
            self.store,
            self.sandbox,
            self.plan,
            files,
            dependencies,
        )?)
    }

    /// Compiles what the firmware starts.
    pub fn boot_program(&self) -> Result<Digest> {
        let (boot, architecture) = (&self.plan.boot, self.plan.architecture);
        let file = format!("{}.efi", boot.bin);
        let result =
            self.compiled(&boot.package, architecture.rust_uefi(), std::slice::from_ref(&file))?;
        let program = result.output(&cargo::output(&file))?;
        binary::check_uefi(&file, &self.store.read(&program)?, architecture)?;
        Ok(program)
    }

    fn checked(&self, program: Digest, name: String) -> Result<(String, Digest)> {
        checked(self.store, self.plan.architecture, program, name)
    }

    /// Makes or reads the image of a pod.
    pub fn pod_image(&self, image: &PodImage<Locked>) -> Result<(String, Image)> {
        let made = match &image.from {
            ImageFrom::Built { package, bin, payload } => {
                let programs = self.package(package, std::slice::from_ref(bin))?;
                let payload = payload
                    .as_ref()
                    .map(|payload| self.payload(payload))
                    .transpose()?
                    .unwrap_or_default();
                from_program(
                    self.store,
                    bin,
                    &self.store.read(&programs[bin])?,
                    &payload,
                    self.plan.architecture,
                )?
            }
            ImageFrom::Archive { path, digest } => {
                from_archive(self.store, &self.project.join(path), digest, self.plan.architecture)?
            }
        };
        Ok((image.name.clone(), made))
    }

    /// What an image's program installs on the node, by its path in the image.
    fn payload(&self, payload: &Payload<Locked>) -> Result<Files> {
        let names = payload.go.packages.iter().map(|program| program.file.clone()).collect();
        let mut files = Files::new();
        for (name, program) in self.go_programs(&payload.go, names)? {
            files.insert(format!("{PROGRAMS}/{name}"), self.store.read(&program)?);
        }
        for program in &payload.debian {
            let debian = dynamic::program(self.store, self.plan, program)?;
            files.extend(
                debian
                    .into_iter()
                    .map(|(file, bytes)| (format!("{DYNAMIC}/{}/{file}", program.name), bytes)),
            );
        }
        Ok(files)
    }

    /// Makes the layer with everything but binaries and pods.
    pub fn base_layer(&self) -> Result<BuiltLayer> {
        self.layer(&Layer::base(self.store, self.project, self.plan)?)
    }

    /// Makes the layer with the binaries of one component.
    pub fn component_layer(&self, component: &str, programs: &Programs) -> Result<BuiltLayer> {
        self.layer(&Layer::binaries(component, programs)?)
    }

    /// Makes the layer with the declared pods and their images.
    pub fn pods_layer(&self, images: Vec<(String, Image)>) -> Result<BuiltLayer> {
        let mut layout = Layout::default();
        for (name, image) in images {
            layout.add(&name, image);
        }
        self.layer(&Layer::pods(self.store, self.plan, &layout)?)
    }

    /// Makes the layer with the image that an installer carries.
    pub fn carried_layer(&self, carried: &Carried) -> Result<BuiltLayer> {
        let image = self.store.put_file(&carried.image)?;
        let action =
            Layer::carried(self.store, self.sandbox, image, carried.certificate.as_deref())?;
        Ok(BuiltLayer {
            name: "image".to_owned(),
            image: self.executor.run(&action)?.output(LAYER)?,
        })
    }

    fn layer(&self, layer: &Layer) -> Result<BuiltLayer> {
        let image = self.executor.run(&layer.action(self.store, self.sandbox)?)?.output(LAYER)?;
        Ok(BuiltLayer { name: layer.name.clone(), image })
    }

    /// Makes DATA's file system.
    pub fn data(&self) -> Result<Digest> {
        self.executor
            .run(&image::data(self.store, self.sandbox, &self.plan.board)?)?
            .output(image::DATA)
    }
}

/// Compiles the programs of one component for the build machine.
pub fn host_programs(
    executor: &Executor,
    store: &Store,
    sandbox: &Sandbox,
    plan: &Plan<Locked, HostPrograms<Locked>>,
    component: &ProgramComponent<Locked>,
) -> Result<Programs> {
    let result = executor.run(&go::compile(store, sandbox, plan, &component.go)?)?;
    let checked = |file: &String| {
        checked(store, plan.architecture, result.output(&go::output(file))?, file.clone())
    };
    component.files.iter().map(checked).collect()
}

/// Checks a binary once, and gives it back.
fn checked(
    store: &Store,
    architecture: Architecture,
    program: Digest,
    name: String,
) -> Result<(String, Digest)> {
    // What older rules have let pass is looked at again.
    let key =
        Digest::of(format!("{} {architecture} {}", binary::rules(), program.hex()).as_bytes());
    if store.recall_memo(CHECKED, &key).is_none() {
        binary::check(&name, &store.read(&program)?, architecture)?;
        store.remember_memo(CHECKED, &key, &program)?;
    }
    Ok((name, program))
}
