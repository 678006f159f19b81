//! Programs of the checks that are written in Go.

use crate::site::{Site, fill_once};
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Installs the program of a published module once, and returns its path.
///
/// # Errors
/// `go` fails.
pub fn install(site: &Site, (module, version): (&str, &str)) -> Result<PathBuf> {
    let name = module.rsplit('/').next().unwrap_or(module);
    let folder = fill_once(&site.tools().join(format!("{name}-{version}")), |folder| {
        let mut go = Command::new("go");
        go.env("GOBIN", folder).args(["install", &format!("{module}@{version}")]);
        site.finish(&format!("go-install-{name}"), &mut go).map(drop)
    })?;
    Ok(folder.join(name))
}

/// A module with one program.
pub struct GoModule {
    /// The program's name.
    pub name: &'static str,
    /// The words of the command `go` before `-o`: those that compile a program, or its tests.
    pub words: &'static [&'static str],
    /// Its files, by their names.
    pub files: [(&'static str, &'static str); 3],
}

impl GoModule {
    /// Compiles the program once, and returns its path.
    ///
    /// # Errors
    /// A file cannot be written, or `go` fails.
    pub fn compile(&self, site: &Site) -> Result<PathBuf> {
        let text = self.words.concat() + &self.files.map(|(_, text)| text).concat();
        let name = format!("{}-{}", self.name, &Digest::of(text.as_bytes()).hex()[..16]);
        let folder = fill_once(&site.tools().join(name), |folder| {
            for (name, text) in self.files {
                let path = folder.join(name);
                fs::write(&path, text).or_build(|| format!("cannot write `{}`", path.display()))?;
            }
            let mut go = Command::new("go");
            go.current_dir(folder).args(self.words).args(["-o", self.name, "."]);
            site.finish(&format!("go-{}", self.name), &mut go).map(drop)
        })?;
        Ok(folder.join(self.name))
    }
}
