//! A project with a lock, whose sources are a few bytes each, and with a store of its own.

use osbuild::checkout::Checkout;
use osbuild::engine::digest::Digest;
use osbuild::engine::store::Store;
use osbuild::plan::{
    AnyPlan, Blob, Crate, CrateSize, CratesLock, Date, DebianPackage, DebianRequirement, GoLock,
    GoModule, GoRequirement, GoToolchain, Lock, Packages, Plan, RustToolchain, Source, Strictness,
    Toolchains, resolve, resolve_programs,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// The day for which plans are made here. The program's output must not depend on the day of the
/// test.
const TODAY: Date = Date { year: 2026, month: 11, day: 21 };

/// The only recipe of the project that has a board.
pub const RECIPE: &str = "small";

/// A project in a folder of its own.
pub struct Scratch {
    folder: TempDir,
    environment: Vec<(&'static str, String)>,
    /// The contents of some sources, by name.
    supplies: BTreeMap<String, Vec<u8>>,
}

/// The outcome of a run of the program.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        Ran::from(command.output().unwrap())
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Scratch {
    /// The small project of the plan's tests, with its lock. It can reach no server until
    /// [`Scratch::set`] names one.
    pub fn new() -> Self {
        let scratch = Scratch {
            folder: tempfile::tempdir().unwrap(),
            environment: Vec::new(),
            supplies: BTreeMap::new(),
        };
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan/project"), &scratch.project());
        for year in ["2026", "2027"] {
            scratch.edit(
                "components/kubelet/releases.toml",
                &format!("end-of-life = {year}"),
                "end-of-life = 2999",
            );
        }
        scratch.edit("Cargo.lock", &"c".repeat(64), &scratch.blob("crate libc").sha256);
        let archive = Digest::of_file(&scratch.project().join("recipes/hello.tar")).unwrap();
        scratch.edit("recipes/small.toml", &"0".repeat(64), &archive.hex());
        scratch.relock();
        scratch
    }

    /// A path in the scratch folder.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// The project's root.
    pub fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// Replaces every occurrence of a text in a file of the project.
    pub fn edit(&self, file: &str, before: &str, after: &str) {
        let path = self.project().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(before), "{file} has no {before:?}");
        fs::write(path, text.replace(before, after)).unwrap();
    }

    /// The text of a file of the project.
    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.project().join(file)).unwrap()
    }

    /// Sets a variable of the program's environment.
    pub fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.environment.push((name, value.into()));
    }

    /// Sets the contents of the source `name`, from the next lock on.
    pub fn supply(&mut self, name: &str, bytes: Vec<u8>) {
        self.supplies.insert(name.to_owned(), bytes);
    }

    /// Runs the program in the project.
    pub fn osbuild(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.command(&[], args))
    }

    /// The command that runs the program in the project; `before` are the words of another program
    /// that starts it.
    pub fn command(&self, before: &[&str], args: &[&str]) -> Command {
        let mut words = before.iter().chain([&env!("CARGO_BIN_EXE_osbuild")]).chain(args);
        let mut command = Command::new(words.next().expect("there is a program"));
        command
            .args(words)
            .env_clear()
            .env("HOME", self.path("home"))
            .env("XDG_CACHE_HOME", self.path("cache"));
        command
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.project());
        command
    }

    /// The recipe's plan.
    pub fn plan(&self) -> Plan {
        let project = Checkout { root: self.project() }.read().unwrap();
        resolve(&project, RECIPE, TODAY, Strictness::Build)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The recipe's lock.
    pub fn lock(&self) -> Lock {
        Lock::parse(&Lock::path(RECIPE), &self.read(&Lock::path(RECIPE))).unwrap()
    }

    /// Writes a lock.
    pub fn write_lock(&self, lock: &Lock) {
        fs::write(self.project().join(Lock::path(&lock.recipe)), lock.print()).unwrap();
    }

    /// Writes a lock of the plan as it is now.
    pub fn relock(&self) {
        self.write_lock(&self.lock_of(&self.plan()));
    }

    /// Adds a recipe of programs with its lock, and puts its sources into the store.
    pub fn add_programs(&self, recipe: &str, text: &str) {
        fs::write(self.project().join(format!("recipes/{recipe}.toml")), text).unwrap();
        let project = Checkout { root: self.project() }.read().unwrap();
        let plan = resolve_programs(&project, recipe).unwrap_or_else(|error| panic!("{error}"));
        self.write_lock(&self.lock_of(&plan));
        let store = Store::open(self.path("cache/osbuild")).unwrap();
        names(&plan).iter().for_each(|name| assert!(store.put_bytes(&self.bytes(name)).is_ok()));
    }

    /// Makes a store that has every source except `absent`.
    pub fn fill_store_without(&self, absent: &str) {
        self.fill_store(|name| name != absent);
    }

    /// Makes a store that has the sources whose name is `wanted`.
    pub fn fill_store(&self, wanted: impl Fn(&str) -> bool) {
        let _ = fs::remove_dir_all(self.path("cache"));
        let store = Store::open(self.path("cache/osbuild")).unwrap();
        let names = names(&self.plan());
        let put = names.iter().filter(|name| wanted(name));
        put.for_each(|name| assert!(store.put_bytes(&self.bytes(name)).is_ok()));
    }

    /// Those of the sources that the store has, by name.
    pub fn stored_sources(&self) -> Vec<String> {
        let store = Store::open(self.path("cache/osbuild")).unwrap();
        let is_there = |name: &String| store.contains(&Digest::of(&self.bytes(name)));
        names(&self.plan()).into_iter().filter(is_there).collect()
    }

    /// Whether the store has this file.
    pub fn has_stored(&self, digest: &Digest) -> bool {
        Store::open(self.path("cache/osbuild")).unwrap().contains(digest)
    }

    /// The hashes of the files in the store that have this size in bytes.
    pub fn stored_of_size(&self, size: u64) -> Vec<String> {
        let folders = self.path("cache/osbuild/cas/sha256").read_dir().unwrap().flatten();
        let files = folders.flat_map(|folder| folder.path().read_dir().unwrap().flatten());
        let sized = files.filter(|file| file.metadata().unwrap().len() == size);
        sized.map(|file| file.file_name().into_string().unwrap()).collect()
    }

    /// Every source that the lock and the recipe name.
    pub fn sources(&self) -> Vec<Source> {
        self.plan().lock(self.lock()).unwrap().sources()
    }

    /// A lock of the plan, in which the contents of each source are [`Scratch::bytes`] of its name.
    fn lock_of(&self, plan: &dyn AnyPlan) -> Lock {
        let required = plan.requirements();
        let package = |requirement: &DebianRequirement| self.package(requirement);
        let packages = |requirements: &[DebianRequirement]| Packages {
            asked: Vec::new(),
            packages: requirements.iter().map(package).collect(),
        };
        let closure = |requirements: &[DebianRequirement]| Packages {
            asked: requirements.iter().map(DebianRequirement::asked).collect(),
            ..packages(requirements)
        };
        let (go, rust) = (self.blob("toolchain go"), self.blob("toolchain rust"));
        Lock {
            version: Lock::VERSION,
            recipe: plan.recipe().into(),
            epoch: 1_790_000_000,
            requirements: required.digest(),
            kernel_source: required.kernel_source.as_ref().map(package),
            stub: required.stub.as_ref().map(package),
            sandbox: closure(&required.sandbox),
            launcher: closure(&required.launcher),
            pahole: closure(&required.pahole),
            cross: packages(&required.cross),
            files: packages(&required.files),
            go: required
                .go_modules
                .iter()
                .map(|requirement| self.component(requirement, &required.go_toolchain))
                .collect(),
            toolchain: Toolchains {
                go: GoToolchain {
                    version: required.go_toolchain.clone(),
                    sum: "h1:=".into(),
                    sha256: go.sha256,
                    size: go.size,
                },
                rust: required.rust_toolchain.clone().map(|rust_toolchain| RustToolchain {
                    version: rust_toolchain.version,
                    targets: rust_toolchain.targets,
                    sha256: rust.sha256,
                    size: rust.size,
                }),
            },
            crates: CratesLock {
                digest: required.crates_digest(),
                sizes: required.crates.iter().map(|krate| self.size(krate)).collect(),
            },
        }
    }

    /// The contents of the source `name`.
    fn bytes(&self, name: &str) -> Vec<u8> {
        self.supplies
            .get(name)
            .cloned()
            .unwrap_or_else(|| format!("the bytes of {name}\n").into_bytes())
    }

    fn blob(&self, name: &str) -> Blob {
        let digest = Digest::of(&self.bytes(name));
        Blob { sha256: digest.hex(), size: digest.size() }
    }

    fn size(&self, krate: &Crate) -> CrateSize {
        let size = self.blob(&format!("crate {}", krate.name)).size;
        CrateSize { name: krate.name.clone(), version: krate.version.clone(), size }
    }

    fn package(&self, requirement: &DebianRequirement) -> DebianPackage {
        let Blob { sha256, size } = self.blob(&requirement.package);
        DebianPackage {
            package: requirement.package.clone(),
            version: "1".into(),
            architecture: requirement.architecture.clone(),
            sha256,
            size,
            release: requirement.release,
        }
    }

    fn component(&self, requirement: &GoRequirement, toolchain: &str) -> GoLock {
        let module = GoModule {
            path: requirement.module.clone(),
            version: requirement.version.clone(),
            sum: Some("h1:=".into()),
            mod_sum: Some("h1:=".into()),
            zip: Some(self.blob(&requirement.module)),
            go_mod: Some(self.blob(&format!("go.mod of {}", requirement.module))),
        };
        GoLock {
            component: requirement.component.clone(),
            module: requirement.module.clone(),
            version: requirement.version.clone(),
            asked: requirement.digest(toolchain),
            go_mod: None,
            modules: vec![module],
        }
    }
}

/// The names of all sources of a plan.
fn names(plan: &dyn AnyPlan) -> Vec<String> {
    let required = plan.requirements();
    let tools = [&required.sandbox, &required.launcher, &required.pahole];
    let lists = tools.into_iter().chain([&required.cross, &required.files]).flatten();
    let debian = [&required.kernel_source, &required.stub]
        .into_iter()
        .flatten()
        .chain(lists)
        .map(|requirement| requirement.package.clone());
    let go = required.go_modules.iter().flat_map(|requirement| {
        [requirement.module.clone(), format!("go.mod of {}", requirement.module)]
    });
    let rest = ["toolchain go", "toolchain rust", "crate libc"].map(str::to_owned);
    debian.chain(go).chain(rest).collect()
}

/// Copies a folder with all that is in it.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => fs::write(target, fs::read(entry.path()).unwrap()).unwrap(),
        }
    }
}
