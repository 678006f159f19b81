//! The workspace of the project, whose packages are the node's own programs. A build compiles
//! several of them, and they share most of their members: each file is read once.

use crate::engine::action::InputTree;
use crate::engine::store::Store;
use crate::error::{Context, Error, Result};
use crate::plan::{CargoLock, Closure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use toml::{Table, Value};

/// Folders of a member that no program contains.
const UNUSED_FOLDERS: [&str; 5] = ["tests", "benches", "fuzz", "examples", "target"];

/// The workspace of a project. Its clones share the files that one of them has read.
#[derive(Clone, Debug)]
pub struct Workspace {
    project: PathBuf,
    manifests: Arc<Mutex<Option<Arc<Manifests>>>>,
}

/// The manifests of a workspace and its lock, as they are in the project.
#[derive(Debug)]
pub(super) struct Manifests {
    /// The versions that the lock names.
    pub(super) versions: CargoLock,
    root: Table,
    lock: Table,
    /// The members by the name of their package.
    members: BTreeMap<String, Member>,
}

/// A package of a workspace.
#[derive(Debug)]
pub(super) struct Member {
    /// Its folder in the project.
    pub(super) folder: String,
    path: PathBuf,
    manifest: Table,
    sources: Mutex<Option<InputTree>>,
}

impl Workspace {
    /// The workspace of `project`, of which nothing is read yet.
    pub fn of(project: &Path) -> Self {
        Workspace { project: project.to_owned(), manifests: Arc::default() }
    }

    /// Its manifests and its lock.
    ///
    /// # Errors
    /// A file is not there, or is not TOML.
    pub(super) fn manifests(&self) -> Result<Arc<Manifests>> {
        let mut known = self.manifests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(manifests) = &*known {
            return Ok(manifests.clone());
        }
        let manifests = Arc::new(Manifests::read(&self.project)?);
        Ok(known.insert(manifests).clone())
    }
}

impl Manifests {
    fn read(project: &Path) -> Result<Self> {
        let text = text(&project.join("Cargo.lock"))?;
        let lock = text.parse().or_build(|| "`Cargo.lock` is not TOML".into())?;
        let root = table(&project.join("Cargo.toml"))?;
        let folders = root.get("workspace").and_then(|workspace| workspace.get("members"));
        let folders = folders.and_then(Value::as_array).into_iter().flatten();
        let members = folders.filter_map(Value::as_str).map(|folder| Member::read(project, folder));
        let members = members.collect::<Result<_>>()?;
        Ok(Manifests { versions: CargoLock::parse(&text)?, root, lock, members })
    }

    /// The members of a closure.
    pub(super) fn members<'s>(&'s self, closure: &'s Closure) -> impl Iterator<Item = &'s Member> {
        self.members.iter().filter(|(name, _)| closure.members.contains(*name)).map(|(_, it)| it)
    }

    /// The member with the package `name`.
    ///
    /// # Errors
    /// The workspace has none.
    pub(super) fn member(&self, name: &str) -> Result<&Member> {
        self.members
            .get(name)
            .ok_or_else(|| Error::usage(format!("the workspace has no package `{name}`")))
    }

    /// The manifest of the workspace, reduced to what the packages of `closure` need.
    pub(super) fn reduced_root(&self, closure: &Closure) -> Table {
        let mut root = self.root.clone();
        if let Some(Value::Table(workspace)) = root.get_mut("workspace") {
            let folders = self.members(closure).map(|member| member.folder.clone());
            let folders = folders.map(Value::String).collect();
            workspace.insert("members".into(), Value::Array(folders));
            if let Some(Value::Table(dependencies)) = workspace.get_mut("dependencies") {
                dependencies.retain(|name, _| closure.has(name));
            }
        }
        let profiles = root.get_mut("profile").and_then(Value::as_table_mut).into_iter();
        for (_, profile) in profiles.flat_map(Table::iter_mut) {
            if let Some(Value::Table(packages)) = profile.get_mut("package") {
                packages.retain(|name, _| closure.has(name));
            }
        }
        root
    }

    /// The lock, reduced to the packages of `closure`.
    pub(super) fn reduced_lock(&self, closure: &Closure) -> Table {
        let is_needed = |package: &&Value| {
            let text = |key: &str| package[key].as_str().unwrap_or_default();
            closure.has_version(text("name"), text("version"))
        };
        let reduced = |(name, value): (&String, &Value)| {
            let value = match value {
                Value::Array(packages) if name == "package" => {
                    Value::Array(packages.iter().filter(is_needed).cloned().collect())
                }
                other => other.clone(),
            };
            (name.clone(), value)
        };
        self.lock.iter().map(reduced).collect()
    }
}

impl Member {
    /// Reads the manifest of the member in `folder`, and returns the member with its name.
    fn read(project: &Path, folder: &str) -> Result<(String, Self)> {
        let path = project.join(folder);
        let mut manifest = table(&path.join("Cargo.toml"))?;
        manifest.remove("dev-dependencies");
        let package = manifest.get("package").and_then(|package| package.get("name"));
        let name = package.and_then(Value::as_str).map(str::to_owned);
        let name =
            name.ok_or_else(|| Error::build(format!("`{folder}/Cargo.toml` names no package")))?;
        let folder = folder.to_owned();
        Ok((name, Member { folder, path, manifest, sources: Mutex::default() }))
    }

    /// Its manifest and its sources, which are put into `store`, without tests and documents.
    ///
    /// # Errors
    /// A file cannot be read, or the store cannot be written.
    pub(super) fn sources(&self, store: &Store) -> Result<InputTree> {
        let mut known = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sources) = &*known {
            return Ok(sources.clone());
        }
        let mut sources = self.manifest(store)?;
        add_sources(store, &mut sources, &self.path, "")?;
        Ok(known.insert(sources).clone())
    }

    /// Its manifest with empty sources in place of its own, which is enough to compile all that it
    /// depends on.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(super) fn stub(&self, store: &Store) -> Result<InputTree> {
        let mut stub = self.manifest(store)?;
        for target in self.targets() {
            let text = if target.ends_with("lib.rs") { "" } else { "fn main() {}\n" };
            stub.add_file(&target, store.put_bytes(text.as_bytes())?, false)?;
        }
        Ok(stub)
    }

    /// A tree with its manifest, without what only its tests depend on.
    fn manifest(&self, store: &Store) -> Result<InputTree> {
        let mut tree = InputTree::new();
        let manifest = store.put_bytes(self.manifest.to_string().as_bytes())?;
        tree.add_file("Cargo.toml", manifest, false).map(|()| tree)
    }

    /// The files of its targets, where cargo looks for them.
    fn targets(&self) -> impl Iterator<Item = String> {
        let programs = fs::read_dir(self.path.join("src/bin")).into_iter().flatten().flatten();
        let programs = programs.map(|entry| format!("src/bin/{}", entry.file_name().display()));
        let fixed = ["build.rs", "src/lib.rs", "src/main.rs"].map(str::to_owned);
        fixed.into_iter().chain(programs).filter(|target| self.path.join(target).is_file())
    }
}

/// Adds the files of a folder, whose path in the tree is `within`, except its manifest, tests and
/// documents.
fn add_sources(store: &Store, tree: &mut InputTree, folder: &Path, within: &str) -> Result<()> {
    let cannot = || format!("cannot read `{}`", folder.display());
    for entry in fs::read_dir(folder).or_build(cannot)? {
        let path = entry.or_build(cannot)?.path();
        // Editors mark an open file with a dangling link.
        if path.is_symlink() && !path.exists() {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let inner = format!("{within}{name}");
        if path.is_dir() {
            if !UNUSED_FOLDERS.contains(&&*name) {
                add_sources(store, tree, &path, &format!("{inner}/"))?;
            }
        } else if name != "Cargo.toml" && !name.ends_with(".md") {
            let bytes = fs::read(&path).or_build(|| format!("cannot read `{}`", path.display()))?;
            tree.add_file(&inner, store.put_bytes(&bytes)?, false)?;
        }
    }
    Ok(())
}

fn table(path: &Path) -> Result<Table> {
    text(path)?.parse().or_build(|| format!("`{}` is not TOML", path.display()))
}

fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).or_build(|| format!("cannot read `{}`", path.display()))
}
