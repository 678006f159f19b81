//! Compiles locked sources into programs with the scripts in this folder, and checks the programs.

mod apparmor;
pub mod binary;
mod cargo;
mod go;
pub mod kernel;
mod modules;
mod workspace;

pub use apparmor::apparmor;
pub use kernel::CompiledKernel;
pub use workspace::Workspace;

use super::build::Build;
use crate::engine::digest::Digest;
use crate::engine::key::Key;
use crate::error::Result;
use crate::plan::{
    BinaryName, Compile, GoComponent, Holders, HostComponent, HostPrograms, Locked, Product,
    ProgramComponent,
};
use std::collections::BTreeMap;

/// Checked programs by file name.
pub type Programs = BTreeMap<String, Digest>;

/// The packages of the node with the components that hold them.
///
/// # Errors
/// A manifest of the workspace, or its lock, cannot be read.
pub fn packages(build: &Build<'_>) -> Result<Holders> {
    build.plan.packages(&build.options.workspace.manifests()?.versions)
}

/// Compiles the binaries of one component of the host.
pub fn host_component(build: &Build<'_>, component: &HostComponent<Locked>) -> Result<Programs> {
    let files = component.binaries.iter().map(BinaryName::to_string).collect();
    match &component.build {
        Compile::Cargo { package, .. } => rust_programs(build, package, files),
        Compile::Go(go) => go_programs(build, go, files),
    }
}

/// Compiles the programs of one component for the build machine.
pub fn host_programs(
    build: &Build<'_, HostPrograms<Locked>>,
    component: &ProgramComponent<Locked>,
) -> Result<Programs> {
    go_programs(build, &component.go, component.files.clone())
}

/// Compiles a component that is a Go module, and checks its programs `files`.
pub fn go_programs<P: Product<Locked>>(
    build: &Build<'_, P>,
    component: &GoComponent<Locked>,
    files: Vec<String>,
) -> Result<Programs> {
    let made = build.run(go::script(build, component)?)?;
    let checked = |file: String| {
        let program = made.output(&go::output(&file))?;
        check(build, &file, program).map(|()| (file, program))
    };
    files.into_iter().map(checked).collect()
}

/// Compiles and checks the programs `files` of one package of this workspace, for the node.
pub fn rust_programs(build: &Build<'_>, package: &str, files: Vec<String>) -> Result<Programs> {
    let made = cargo::compile(build, package, build.plan.architecture.rust_musl(), &files)?;
    let checked = |file: String| {
        let program = made.output(&cargo::output(&file))?;
        check(build, &file, program).map(|()| (file, program))
    };
    files.into_iter().map(checked).collect()
}

/// Compiles and checks slotboot, the program that the firmware starts.
pub fn slotboot(build: &Build<'_>) -> Result<Digest> {
    let (boot, architecture) = (&build.plan.boot, build.plan.architecture);
    let files = [format!("{}.efi", boot.bin)];
    let made = cargo::compile(build, &boot.package, architecture.rust_uefi(), &files)?;
    let program = made.output(&cargo::output(&files[0]))?;
    binary::check_uefi(&files[0], &build.options.store.read(&program)?, architecture)?;
    Ok(program)
}

/// Checks a program, unless it has passed the same rules before.
fn check<P>(build: &Build<'_, P>, file: &str, program: Digest) -> Result<()> {
    let (store, architecture) = (build.options.store, build.plan.architecture);
    let key = Key::new("checked-binary")
        .field("rules", binary::rules())
        .field("architecture", architecture)
        .field("program", program);
    if store.recall_memo(&key).is_none() {
        binary::check(file, &store.read(&program)?, architecture)?;
        store.remember_memo(&key, &program)?;
    }
    Ok(())
}
