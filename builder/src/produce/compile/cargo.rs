//! Programs of this workspace: static ones with musl, and those for UEFI. A separate action
//! compiles the crates that they depend on, so that a change to the workspace does not recompile
//! them.

use crate::engine::action::{ActionResult, InputTree};
use crate::engine::digest::Digest;
use crate::engine::store::Store;
use crate::error::{Context, Error, Result};
use crate::plan::{Closure, closure};
use crate::produce::build::Build;
use crate::produce::sandbox::{Compiler, Script};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::{Table, Value};

/// The output of the first script: the compiled dependencies.
const DEPENDENCIES: &str = "dependencies.tar";

/// The path of a compiled program among the action's outputs.
pub fn output(program: &str) -> String {
    format!("out/{program}")
}

/// Compiles the programs `files` of a package of this workspace for the Rust target `target`.
///
/// # Errors
/// The workspace has no such package, or it does not compile.
pub fn compile(
    build: &Build<'_>,
    package: &str,
    target: &str,
    files: &[String],
) -> Result<ActionResult> {
    let package = Package::find(build, package, target)?;
    let dependencies = build.run(package.dependencies()?)?;
    let dependencies = dependencies.output(DEPENDENCIES)?;
    build.run(package.programs(files, dependencies)?)
}

/// One package of this workspace with the members and crates that it consists of.
struct Package<'a> {
    build: &'a Build<'a>,
    project: &'a Path,
    name: &'a str,
    /// The target triple.
    target: &'a str,
    closure: Closure,
    /// Folder of each member of the closure, relative to the project, by the member's name.
    folders: BTreeMap<String, String>,
    workspace: Table,
    lock: Table,
}

impl<'a> Package<'a> {
    /// Reads the workspace of the project and finds the closure of `name` for `target`.
    ///
    /// # Errors
    /// The workspace has no such member, or a file of it cannot be read.
    fn find(build: &'a Build<'a>, name: &'a str, target: &'a str) -> Result<Self> {
        let project = build.options.project;
        let text = std::fs::read_to_string(project.join("Cargo.lock"))
            .or_build(|| "cannot read `Cargo.lock`".into())?;
        let lock = text.parse().or_build(|| "`Cargo.lock` is not TOML".into())?;
        let workspace = table(&project.join("Cargo.toml"))?;
        let closure = closure(&text, &BTreeSet::from([name]))?;
        let mut folders = BTreeMap::new();
        for folder in strings(&workspace["workspace"]["members"]) {
            let manifest = table(&project.join(folder).join("Cargo.toml"))?;
            if let Some(member) = manifest["package"]["name"]
                .as_str()
                .filter(|member| closure.members.contains(*member))
            {
                folders.insert(member.to_owned(), folder.to_owned());
            }
        }
        if !folders.contains_key(name) {
            return Err(Error::usage(format!("the workspace has no package `{name}`")));
        }
        Ok(Package { build, project, name, target, closure, folders, workspace, lock })
    }

    /// The script that compiles the package's dependencies, with empty sources of ours.
    fn dependencies(&self) -> Result<Script<'static>> {
        let store = self.build.options.store;
        let mut input = self.input()?;
        let empty = store.put_bytes(b"")?;
        let main = store.put_bytes(b"fn main() {}\n")?;
        for folder in self.folders.values() {
            for (source, is_there) in self.targets(folder) {
                let stub = if source.ends_with("lib.rs") { empty } else { main };
                if is_there {
                    input.add_file(&format!("workspace/{folder}/{source}"), stub, false)?;
                }
            }
        }
        Ok(Script {
            name: format!("{} dependencies {}", self.name, self.build.plan.architecture),
            text: include_str!("cargo-dependencies.sh"),
            args: Vec::new(),
            env: self.environment(),
            input,
            outputs: vec![DEPENDENCIES.into()],
            compiler: Compiler::Rust,
        })
    }

    /// The script that compiles the programs `files`, with the compiled dependencies.
    fn programs(&self, files: &[String], dependencies: Digest) -> Result<Script<'static>> {
        let mut input = self.input()?;
        input.add_file(DEPENDENCIES, dependencies, false)?;
        for folder in self.folders.values() {
            self.add_sources(self.build.options.store, &mut input, Path::new(folder))?;
        }
        Ok(Script {
            name: format!("{} {}", self.name, self.build.plan.architecture),
            text: include_str!("cargo.sh"),
            args: files.to_vec(),
            env: self.environment(),
            input,
            outputs: files.iter().map(|file| output(file)).collect(),
            compiler: Compiler::Rust,
        })
    }

    /// The inputs of both scripts: crates, every `Cargo.toml`, and `Cargo.lock`, reduced to the
    /// entries that the package needs, so that no other change recompiles it.
    fn input(&self) -> Result<InputTree> {
        let store = self.build.options.store;
        let mut input = InputTree::new();
        input.add_file("source.sh", store.put_bytes(include_bytes!("cargo-source.sh"))?, false)?;
        for krate in &self.closure.crates {
            input.add_file(
                &format!("crates/{}-{}.crate", krate.name, krate.version),
                self.build.crate_digest(krate)?,
                false,
            )?;
        }
        let mut add = |path: &str, text: String| {
            input.add_file(&format!("workspace/{path}"), store.put_bytes(text.as_bytes())?, false)
        };
        add("Cargo.toml", self.reduced_workspace().to_string())?;
        add("Cargo.lock", self.reduced_lock().to_string())?;
        for folder in self.folders.values() {
            let mut manifest = table(&self.project.join(folder).join("Cargo.toml"))?;
            manifest.remove("dev-dependencies");
            add(&format!("{folder}/Cargo.toml"), manifest.to_string())?;
        }
        Ok(input)
    }

    fn reduced_workspace(&self) -> Table {
        let mut root = self.workspace.clone();
        if let Some(Value::Table(workspace)) = root.get_mut("workspace") {
            workspace.insert(
                "members".into(),
                Value::Array(self.folders.values().cloned().map(Value::String).collect()),
            );
            if let Some(Value::Table(dependencies)) = workspace.get_mut("dependencies") {
                dependencies.retain(|name, _| self.closure.has(name));
            }
        }
        let profiles = root
            .get_mut("profile")
            .and_then(Value::as_table_mut)
            .into_iter()
            .flat_map(|profiles| profiles.iter_mut());
        for packages in
            profiles.filter_map(|(_, profile)| profile.get_mut("package")?.as_table_mut())
        {
            packages.retain(|name, _| self.closure.has(name));
        }
        root
    }

    fn reduced_lock(&self) -> Table {
        let mut lock = self.lock.clone();
        if let Some(Value::Array(packages)) = lock.get_mut("package") {
            packages.retain(|package| {
                let text = |key: &str| package[key].as_str().unwrap_or_default();
                self.closure.has_version(text("name"), text("version"))
            });
        }
        lock
    }

    /// The files in which cargo looks for targets of a member, and whether each exists.
    fn targets(&self, folder: &str) -> Vec<(String, bool)> {
        let at = self.project.join(folder);
        let programs = std::fs::read_dir(at.join("src/bin")).into_iter().flatten().flatten();
        let programs =
            programs.map(|entry| format!("src/bin/{}", entry.file_name().to_string_lossy()));
        let fixed = ["build.rs", "src/lib.rs", "src/main.rs"].map(str::to_owned);
        let with = |source: String| (at.join(&source).is_file(), source);
        fixed
            .into_iter()
            .chain(programs)
            .map(with)
            .map(|(is_there, source)| (source, is_there))
            .collect()
    }

    /// Adds the files of a member, except tests and documents, which no program contains.
    fn add_sources(&self, store: &Store, input: &mut InputTree, folder: &Path) -> Result<()> {
        let cannot = || format!("cannot read `{}`", folder.display());
        for entry in std::fs::read_dir(self.project.join(folder)).or_build(cannot)? {
            let path = entry.or_build(cannot)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let relative = folder.join(&name);
            // Editors mark an open file with a dangling link.
            if path.is_symlink() && !path.exists() {
                continue;
            }
            if path.is_dir() {
                if !["tests", "benches", "fuzz", "examples", "target"].contains(&name.as_str()) {
                    self.add_sources(store, input, &relative)?;
                }
            } else if name != "Cargo.toml" && !name.ends_with(".md") {
                let bytes = std::fs::read(&path)
                    .or_build(|| format!("cannot read `{}`", path.display()))?;
                input.add_file(
                    &format!("workspace/{}", relative.display()),
                    store.put_bytes(&bytes)?,
                    false,
                )?;
            }
        }
        Ok(())
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let target = self.target;
        let linker = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
        let mut environment = BTreeMap::from([
            ("TARGET".into(), target.into()),
            ("PACKAGE".into(), self.name.into()),
            ("OURS".into(), self.folders.keys().cloned().collect::<Vec<_>>().join(" ")),
            (linker, "rust-lld".into()),
        ]);
        // Crates with C code look for a compiler named after musl, which Debian does not have. The
        // headers are those of the sandbox's C library. The crates use only what musl has too.
        if self.closure.has("cc") {
            environment
                .insert(format!("CC_{}", target.replace('-', "_")), c_compiler(target).into());
        }
        environment
    }
}

/// The C compiler for `target` in the sandbox, which runs on amd64.
fn c_compiler(target: &str) -> &'static str {
    if target.starts_with("aarch64-") { "aarch64-linux-gnu-gcc" } else { "gcc" }
}

fn strings(value: &Value) -> impl Iterator<Item = &str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn table(path: &Path) -> Result<Table> {
    let text =
        std::fs::read_to_string(path).or_build(|| format!("cannot read `{}`", path.display()))?;
    text.parse().or_build(|| format!("`{}` is not TOML", path.display()))
}
