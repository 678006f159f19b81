//! Collects a dynamically linked program of a Debian package with its loader and all of its
//! libraries, as the node has none.

use super::Files;
use crate::error::{Error, Result};
use crate::plan::{Architecture, DebianProgram, LockState, Locked};
use crate::produce::build::Build;
use crate::produce::compile::binary::machine;
use crate::produce::debian::{self, Contents};
use crate::produce::supply::Extract;
use crate::produce::{bundle, locked};
use object::Endianness;
use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use osbuild_abi::payload::LOADER;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The loader and the libraries that a program or a library needs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Needs {
    /// The absolute path of its interpreter. Libraries usually have none.
    loader: Option<String>,
    /// File names of libraries.
    libraries: Vec<String>,
}

/// Returns the program, its loader with the name [`LOADER`], and its libraries with the names in
/// `DT_NEEDED`.
///
/// # Errors
/// A library is in none of the program's packages, or one of the packages is not needed.
pub fn program(build: &Build<'_>, program: &DebianProgram<Locked>) -> Result<Files> {
    let (store, architecture) = (build.options.store, build.plan.architecture);
    let own = [architecture.name(), &program.name, &program.path].map(str::to_owned);
    let names = program.packages().map(|package| package.name.clone());
    let sources = program.packages().map(|package| locked::package(&package.lock));
    let extract = Extract {
        name: format!("{} {architecture} with libraries", program.name),
        rule: "a program with its libraries, version 1",
        arguments: own.into_iter().chain(names).collect(),
        sources: sources.collect::<Result<_>>()?,
    };
    let found = build.extract(&extract, &|| {
        let mut packages = BTreeMap::new();
        for package in program.packages() {
            packages.insert(package.name.as_str(), debian::contents(store, &package.lock, "")?);
        }
        bundle::pack(&closure(program, &mut packages, architecture)?)
    })?;
    bundle::unpack(&store.read(&found)?)
}

/// Finds all direct and indirect libraries of the program in `packages`.
fn closure<L: LockState>(
    program: &DebianProgram<L>,
    packages: &mut BTreeMap<&str, Contents>,
    architecture: Architecture,
) -> Result<Files> {
    let DebianProgram { name, path, .. } = program;
    let package = program.package.name.as_str();
    let own = packages.get_mut(package).and_then(|package| package.files.remove(Path::new(path)));
    let own =
        own.ok_or_else(|| Error::build(format!("package `{package}` has no file `{path}`")))?;
    let first = needs(&own, architecture).ok_or_else(|| not_elf(path, architecture))?;
    let loader = first.loader.clone().ok_or_else(|| {
        Error::build(format!("`{path}` of package `{package}` is not a dynamic program"))
    })?;
    let loader = loader.rsplit('/').next().unwrap_or(&loader).to_owned();
    let mut files = Files::from([(name.clone(), own)]);
    let mut used = BTreeSet::from([package]);
    let mut open: Vec<(String, String)> =
        first.libraries.into_iter().map(|library| (library, name.clone())).collect();
    open.push((loader.clone(), name.clone()));
    while let Some((library, by)) = open.pop() {
        let to = if library == loader { LOADER } else { &library };
        if files.contains_key(to) {
            continue;
        }
        let found = packages
            .iter()
            .find_map(|(package, contents)| Some((*package, find(contents, &library)?)));
        let (from, bytes) = found.ok_or_else(|| missing(program, &library, &by))?;
        let needs = needs(bytes, architecture).ok_or_else(|| not_elf(&library, architecture))?;
        open.extend(needs.libraries.into_iter().map(|needed| (needed, library.clone())));
        files.insert(to.to_owned(), bytes.to_vec());
        used.insert(from);
    }
    match packages.keys().find(|package| !used.contains(**package)) {
        Some(idle) => {
            Err(Error::build(format!("package `{idle}` has nothing that `{name}` needs"))
                .hint(format!("remove `{idle}` from the `libraries` of `{name}`")))
        }
        None => Ok(files),
    }
}

fn missing<L: LockState>(program: &DebianProgram<L>, library: &str, by: &str) -> Error {
    let error = Error::build(format!(
        "`{}` needs `{library}`, which is in none of its packages",
        program.name
    ));
    let error = error.cause(format!("`{by}` needs it"));
    error.hint(format!(
        "find its package with `apt-file search {library}`, and add it to the `libraries` of `{}`",
        program.name
    ))
}

fn not_elf(file: &str, architecture: Architecture) -> Error {
    Error::build(format!("`{file}` is not a program or library for {architecture}"))
}

/// Finds the library with this file name in any folder of a package. A link points to a file in the
/// same folder.
fn find<'c>(contents: &'c Contents, name: &str) -> Option<&'c [u8]> {
    let named = |path: &&PathBuf| path.file_name().is_some_and(|file| file == name);
    let link = || {
        let (link, target) = contents.links.iter().find(|(path, _)| named(path))?;
        Some(link.with_file_name(target.file_name()?))
    };
    let path = contents.files.keys().find(named).cloned().or_else(link)?;
    contents.files.get(&path).map(Vec::as_slice)
}

/// The loader and the libraries that an ELF file for `architecture` needs; `None` for any other
/// file.
fn needs(bytes: &[u8], architecture: Architecture) -> Option<Needs> {
    let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != machine(architecture) {
        return None;
    }
    let mut needs = Needs::default();
    for segment in header.program_headers(endian, bytes).ok()? {
        if let Some(path) = segment.interpreter(endian, bytes).ok()? {
            needs.loader = Some(text(path)?);
        }
    }
    let sections = header.sections(endian, bytes).ok()?;
    if let Some((entries, strings)) = sections.dynamic(endian, bytes).ok()? {
        let strings = sections.strings(endian, bytes, strings).ok()?;
        for entry in
            entries.iter().filter(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED.0 as i32))
        {
            needs.libraries.push(text(entry.string(endian, strings).ok()?)?);
        }
    }
    Some(needs)
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::FilePackage;
    use proptest::prelude::*;
    use std::os::unix::fs::MetadataExt;

    const ARCHITECTURE: Architecture =
        if cfg!(target_arch = "x86_64") { Architecture::Amd64 } else { Architecture::Arm64 };

    /// A package with a program of this machine, and one with the libraries that `ldd` prints.
    fn packages() -> BTreeMap<&'static str, Contents> {
        let output = String::from_utf8(
            std::process::Command::new("ldd").arg("/bin/ls").output().unwrap().stdout,
        )
        .unwrap();
        let mut libraries = Contents::default();
        for path in output.split_whitespace().filter(|word| word.starts_with('/')) {
            let (name, real) = (PathBuf::from(&path[1..]), std::fs::canonicalize(path).unwrap());
            let file = name.with_file_name(real.file_name().unwrap());
            if file != name {
                libraries.links.insert(name, real.file_name().unwrap().into());
            }
            libraries.files.insert(file, std::fs::read(real).unwrap());
        }
        let program = Contents {
            files: [("bin/ls".into(), std::fs::read("/bin/ls").unwrap())].into(),
            ..Contents::default()
        };
        [("coreutils", program), ("libraries", libraries)].into()
    }

    fn ls(libraries: &[&str]) -> DebianProgram {
        let libraries = libraries.iter().copied().map(FilePackage::named).collect();
        DebianProgram {
            name: "ls".into(),
            package: FilePackage::named("coreutils"),
            path: "bin/ls".into(),
            libraries,
        }
    }

    #[test]
    fn a_program_runs_with_only_the_collected_libraries() {
        let files = closure(&ls(&["libraries"]), &mut packages(), ARCHITECTURE).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in &files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
            rustix::fs::chmod(folder.path().join(name), rustix::fs::Mode::RWXU).unwrap();
        }
        let mut loader = std::process::Command::new(folder.path().join(LOADER));
        loader
            .args(["--inhibit-cache", "--list", "--library-path"])
            .arg(folder.path())
            .arg(folder.path().join("ls"));
        let output = String::from_utf8(loader.output().unwrap().stdout).unwrap();
        let paths: Vec<&str> =
            output.split_whitespace().filter(|word| word.starts_with('/')).collect();
        assert!(paths.len() >= 2, "{output}");
        // The loader prints its own name as in the program, which is not its name in this folder.
        let here = |path: &&str| {
            std::fs::metadata(folder.path().join(Path::new(path).file_name().unwrap()))
        };
        let is_here = |path: &&str| {
            path.contains("/ld-")
                || here(path).is_ok_and(|here| here.ino() == std::fs::metadata(path).unwrap().ino())
        };
        assert!(paths.iter().all(is_here), "{output}");
    }

    #[test]
    fn a_missing_library_is_named_with_the_file_that_needs_it() {
        let mut packages = packages();
        packages
            .get_mut("libraries")
            .unwrap()
            .files
            .retain(|path, _| !path.to_string_lossy().contains("libc.so"));
        let error =
            closure(&ls(&["libraries"]), &mut packages, ARCHITECTURE).unwrap_err().to_string();
        assert!(
            error.contains("`ls` needs `libc.so.6`, which is in none of its packages"),
            "{error}"
        );
        assert!(error.contains("needs it"), "{error}");
    }

    #[test]
    fn a_package_that_is_not_needed_is_named() {
        let mut packages = packages();
        packages.insert("idle", Contents::default());
        let error = closure(&ls(&["libraries", "idle"]), &mut packages, ARCHITECTURE)
            .unwrap_err()
            .to_string();
        assert!(error.contains("package `idle` has nothing that `ls` needs"), "{error}");
    }

    #[test]
    fn static_foreign_and_missing_programs_are_refused() {
        let other = if ARCHITECTURE == Architecture::Amd64 {
            Architecture::Arm64
        } else {
            Architecture::Amd64
        };
        let refused = |program: &DebianProgram, packages: &mut BTreeMap<_, _>, architecture| {
            closure(program, packages, architecture).unwrap_err().to_string()
        };
        assert!(refused(&ls(&[]), &mut packages(), other).contains(
            "is not a program or library \
        for"
        ));
        let absent = DebianProgram { path: "bin/lss".into(), ..ls(&[]) };
        assert!(
            refused(&absent, &mut packages(), ARCHITECTURE)
                .contains("package `coreutils` has no file `bin/lss`")
        );
        let mut packages = packages();
        let library = find(&packages["libraries"], "libc.so.6").unwrap().to_vec();
        packages.get_mut("coreutils").unwrap().files.insert("bin/ls".into(), headerless(library));
        assert!(
            refused(&ls(&["libraries"]), &mut packages, ARCHITECTURE)
                .contains("is not a dynamic program")
        );
    }

    /// An ELF file without a segment that names an interpreter.
    fn headerless(mut bytes: Vec<u8>) -> Vec<u8> {
        // The number of program headers (ELF-64 Object File Format, figure 2).
        bytes[56..58].fill(0);
        bytes
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_a_panic(garbage: Vec<u8>, at in 0usize..4096, byte: u8) {
            let mut program = std::fs::read("/bin/true").unwrap();
            program[at] = byte;
            let _ = needs(&program, ARCHITECTURE);
            let _ = needs(&garbage, ARCHITECTURE);
        }
    }
}
