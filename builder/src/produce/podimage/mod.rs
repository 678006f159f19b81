//! Images of pods: built from a program and its payload, or read from a user's archive. One OCI
//! image layout has all of them.

mod archive;
mod built;
mod dynamic;
mod layout;

pub use archive::{from_archive, keep};
pub use built::{Content, Entry, Files, from_content, from_program};
pub use layout::{Descriptor, Image, Layout};

use super::build::Build;
use super::compile::{go_programs, rust_programs};
use crate::error::Result;
use crate::plan::{ImageFrom, Locked, Payload, PodImage};
use osbuild_abi::payload::{DYNAMIC, PROGRAMS};

/// Makes or reads the image of a pod, and returns it with its name.
///
/// # Errors
/// A program of it does not compile, or the archive is not the pinned one.
pub fn make(build: &Build<'_>, image: &PodImage<Locked>) -> Result<(String, Image)> {
    let (store, architecture) = (build.options.store, build.plan.architecture);
    let made = match &image.from {
        ImageFrom::Built { package, bin, payload } => {
            let programs = rust_programs(build, package, vec![bin.clone()])?;
            let installs = payload.as_deref().map(|payload| files(build, payload)).transpose()?;
            let program = store.read(&programs[bin])?;
            from_program(store, bin, &program, &installs.unwrap_or_default(), architecture)?
        }
        ImageFrom::Archive { path, digest } => {
            from_archive(store, &build.options.project.join(path), digest, architecture)?
        }
    };
    Ok((image.name.clone(), made))
}

/// The programs that an image installs on the node, by their paths in the image.
fn files(build: &Build<'_>, payload: &Payload<Locked>) -> Result<Files> {
    let store = build.options.store;
    let names = payload.go.packages.iter().map(|program| program.file.clone()).collect();
    let mut files = Files::new();
    for (name, program) in go_programs(build, &payload.go, names)? {
        files.insert(format!("{PROGRAMS}/{name}"), store.read(&program)?);
    }
    for program in &payload.debian {
        let folder = format!("{DYNAMIC}/{}", program.name);
        let debian = dynamic::program(build, program)?;
        files.extend(debian.into_iter().map(|(file, bytes)| (format!("{folder}/{file}"), bytes)));
    }
    Ok(files)
}
