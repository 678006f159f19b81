//! The lock: every input of a plan by digest, as `recipes/<recipe>.lock` has it.

mod changes;
mod crates;
mod debian_release;
mod pin;
mod previous;
mod purl;
mod requirements;
mod source;

pub use changes::{Moved, moved, moved_crates, moved_releases};
pub use crates::{CargoLock, Closure};
pub use debian_release::DebianRelease;
pub use pin::Pins;
pub use previous::PreviousLock;
pub use purl::Purl;
pub use requirements::{
    Crate, DebianRequirement, GoRequirement, Requirements, RustRequirement, crates_digest,
};
pub use source::{Source, SourceKind};

use super::document::parse_as;
use super::print::quote;
use crate::error::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

/// The first line of a lock.
const HEADER: &str = "# Every input of this recipe, by digest. `osbuild lock` writes this file, \
                      and `osbuild update` moves it.\n";

/// A lock file, `recipes/<recipe>.lock`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Lock {
    /// Version of this format.
    pub version: u32,
    /// The recipe that it belongs to.
    pub recipe: String,
    /// Seconds since 1970: the time of everything that is built (`SOURCE_DATE_EPOCH`).
    pub epoch: u64,
    /// [`Requirements::digest`] of the plan that was locked.
    #[serde(rename = "wanted")]
    pub requirements: String,
    /// The kernel's source; `None` for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_source: Option<DebianPackage>,
    /// systemd's UEFI stub; `None` for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stub: Option<DebianPackage>,
    /// The sandbox's root with all its dependencies.
    pub sandbox: Packages,
    /// The programs that make a folder of a worker the `/` of a step there, with all dependencies.
    /// No product depends on them. Older locks lack them.
    #[serde(default, skip_serializing_if = "Packages::is_empty")]
    pub launcher: Packages,
    /// The program that writes the kernel's types (BTF), with all its dependencies; empty if the
    /// kernel has none.
    #[serde(default, skip_serializing_if = "Packages::is_empty")]
    pub pahole: Packages,
    /// Libraries of the node's architecture.
    pub cross: Packages,
    /// Packages with files for the root or for images of pods.
    pub files: Packages,
    /// Go modules, one entry a component.
    pub go: Vec<GoLock>,
    /// Toolchains.
    pub toolchain: Toolchains,
    /// Crates.
    pub crates: CratesLock,
}

/// A list of Debian packages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packages {
    /// The requirements, where the list also has their dependencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// The packages, in order of name.
    pub packages: Vec<DebianPackage>,
}

/// A Debian package of one version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DebianPackage {
    /// Its name.
    pub package: String,
    /// Its version.
    pub version: String,
    /// Its architecture, or `all`.
    pub architecture: String,
    /// SHA-256 of the `.deb` in hexadecimal.
    pub sha256: String,
    /// Size of the `.deb` in bytes.
    pub size: u64,
    /// The release of Debian that it is from.
    #[serde(default, skip_serializing_if = "DebianRelease::is_default")]
    pub release: DebianRelease,
}

/// The modules of one Go component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GoLock {
    /// The component.
    pub component: String,
    /// Its module.
    pub module: String,
    /// Its version, with `v`.
    pub version: String,
    /// [`GoRequirement::digest`] of its requirement.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub asked: String,
    /// The go.mod of the module that requires it; `None` for a main module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go_mod: Option<String>,
    /// Every module that the build reads, including itself, in order of path and version.
    pub modules: Vec<GoModule>,
}

/// A Go module of one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GoModule {
    /// Its path.
    pub path: String,
    /// Its version, with `v`.
    pub version: String,
    /// The `h1:` of its zip file as in go.sum; `None` where only its go.mod is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sum: Option<String>,
    /// The `h1:` of its go.mod as in go.sum, if go.sum has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mod_sum: Option<String>,
    /// The zip file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zip: Option<Blob>,
    /// The go.mod.
    #[serde(rename = "mod", default, skip_serializing_if = "Option::is_none")]
    pub go_mod: Option<Blob>,
}

/// Bytes by digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Blob {
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
}

/// The toolchains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Toolchains {
    /// Go's.
    pub go: GoToolchain,
    /// Rust's; `None` where it compiles nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rust: Option<RustToolchain>,
}

/// The Go toolchain, which is a module (`golang.org/toolchain`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GoToolchain {
    /// Its version: `1.26.8`.
    pub version: String,
    /// The `h1:` of its zip file.
    pub sum: String,
    /// SHA-256 of its zip file in hexadecimal.
    pub sha256: String,
    /// Size of its zip file in bytes.
    pub size: u64,
}

/// The Rust toolchain with the standard library of some targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RustToolchain {
    /// Its version: `1.95.0`.
    pub version: String,
    /// The targets.
    pub targets: Vec<String>,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
}

/// The crates of the node's programs. `Cargo.lock` pins each of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CratesLock {
    /// [`Requirements::crates_digest`].
    pub digest: String,
    /// The sizes of all of them, in order of name and version. `Cargo.lock` has none, and without
    /// its size nobody can name a crate that is not there yet. Older locks lack them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<CrateSize>,
}

/// The size of a crate's archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CrateSize {
    /// The crate's name.
    #[serde(rename = "crate")]
    pub name: String,
    /// Its version.
    pub version: String,
    /// In bytes.
    pub size: u64,
}

impl Lock {
    /// The version of the format that is read and written.
    pub const VERSION: u32 = 1;

    /// The path of a recipe's lock in the project.
    pub fn path(recipe: &str) -> String {
        format!("recipes/{recipe}.lock")
    }

    /// Reads a lock file. `path` is for messages.
    ///
    /// # Errors
    /// It is not a lock of this version. The error is of kind [`Kind::Lock`].
    pub fn parse(path: &str, text: &str) -> Result<Self> {
        let lock: Lock = parse_as(Kind::Lock, path, text).map_err(|error| {
            error.hint("`cargo osbuild lock` writes locks; do not edit them by hand")
        })?;
        if lock.version != Self::VERSION {
            let error = Error::lock(format!(
                "`{path}` is a lock of version {}, and this osbuild reads version {}",
                lock.version,
                Self::VERSION
            ));
            return Err(error.hint(format!("run `cargo osbuild lock {}`", lock.recipe)));
        }
        Ok(lock)
    }

    /// The lock as a file, with one line for each pinned input. [`Lock::parse`] reads it back.
    pub fn print(&self) -> String {
        let Lock {
            version,
            recipe,
            epoch,
            requirements,
            kernel_source,
            stub,
            sandbox,
            launcher,
            pahole,
            cross,
            files,
            go,
            toolchain,
            crates,
        } = self;
        let optional =
            |list: &Packages, name| Some(list).filter(|l| !l.is_empty()).map(|l| l.print(name));
        let lists = [
            Some(sandbox.print("sandbox")),
            optional(launcher, "launcher"),
            optional(pahole, "pahole"),
            Some(cross.print("cross")),
            Some(files.print("files")),
        ];
        let go: Vec<String> = go.iter().map(GoLock::print).collect();
        let single = [("kernel-source", kernel_source), ("stub", stub)];
        let single = single.map(|(key, package)| {
            package.as_ref().map(|package| format!("{key} = {}\n", package.inline()))
        });
        [
            HEADER.to_owned(),
            format!("version = {version}\nrecipe = {}\n", quote(recipe)),
            format!("epoch = {epoch}\nwanted = {}\n", quote(requirements)),
            single.into_iter().flatten().collect(),
            lists.into_iter().flatten().collect(),
            go.concat(),
            toolchain.print(),
            crates.print(),
        ]
        .concat()
    }
}

impl CratesLock {
    /// The size of a crate's archive in bytes, if the lock has it.
    pub fn size(&self, krate: &Crate) -> Option<u64> {
        let wanted = (&krate.name, &krate.version);
        let found = self.sizes.binary_search_by(|one| (&one.name, &one.version).cmp(&wanted));
        found.ok().map(|index| self.sizes[index].size)
    }

    fn print(&self) -> String {
        let line = |CrateSize { name, version, size }: &CrateSize| {
            let [name, version] = [name, version].map(|text| quote(text));
            format!("    {{ crate = {name}, version = {version}, size = {size} }},\n")
        };
        let sizes = match self.sizes.is_empty() {
            true => String::new(),
            false => format!("sizes = [\n{}]\n", self.sizes.iter().map(line).collect::<String>()),
        };
        format!("\n[crates]\ndigest = {}\n{sizes}", quote(&self.digest))
    }
}

impl Packages {
    /// Whether it has no packages.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty()
    }

    /// Whether it has this package.
    pub fn has(&self, package: &DebianPackage) -> bool {
        self.packages.contains(package)
    }

    fn print(&self, name: &str) -> String {
        let lines: Vec<String> =
            self.packages.iter().map(|package| format!("    {},\n", package.inline())).collect();
        let asked: Vec<String> = self.asked.iter().map(|name| quote(name)).collect();
        let asked = if asked.is_empty() {
            String::new()
        } else {
            format!("asked = [{}]\n", asked.join(", "))
        };
        format!("\n[{name}]\n{asked}packages = [\n{}]\n", lines.concat())
    }
}

impl DebianPackage {
    fn inline(&self) -> String {
        let DebianPackage { package, version, architecture, sha256, size, release } = self;
        let [package, version, architecture, sha256] =
            [package, version, architecture, sha256].map(|text| quote(text));
        let release = match release.is_default() {
            true => String::new(),
            false => format!(", release = {}", quote(release.name())),
        };
        format!(
            "{{ package = {package}, version = {version}, architecture = {architecture}, \
             sha256 = {sha256}, size = {size}{release} }}"
        )
    }
}

impl Toolchains {
    fn print(&self) -> String {
        let Toolchains { go, rust } = self;
        [
            format!(
                "\n[toolchain.go]\nversion = {}\nsum = {}\n",
                quote(&go.version),
                quote(&go.sum)
            ),
            format!("sha256 = {}\nsize = {}\n", quote(&go.sha256), go.size),
            rust.as_ref().map_or_else(String::new, RustToolchain::print),
        ]
        .concat()
    }
}

impl RustToolchain {
    fn print(&self) -> String {
        let targets: Vec<String> = self.targets.iter().map(|target| quote(target)).collect();
        [
            format!(
                "\n[toolchain.rust]\nversion = {}\ntargets = [{}]\n",
                quote(&self.version),
                targets.join(", ")
            ),
            format!("sha256 = {}\nsize = {}\n", quote(&self.sha256), self.size),
        ]
        .concat()
    }
}

impl GoLock {
    fn print(&self) -> String {
        let [component, module, version] =
            [&self.component, &self.module, &self.version].map(|text| quote(text));
        let go_mod = match &self.go_mod {
            // A string of several lines: a change of one module is then a change of one line.
            Some(text) => format!(
                "go-mod = \"\"\"\n{}\"\"\"\n",
                text.replace('\\', "\\\\").replace('"', "\\\"")
            ),
            None => String::new(),
        };
        let modules: Vec<String> =
            self.modules.iter().map(|module| format!("    {},\n", module.inline())).collect();
        let head =
            format!("\n[[go]]\ncomponent = {component}\nmodule = {module}\nversion = {version}\n");
        let asked = if self.asked.is_empty() {
            String::new()
        } else {
            format!("asked = {}\n", quote(&self.asked))
        };
        format!("{head}{asked}{go_mod}modules = [\n{}]\n", modules.concat())
    }
}

impl GoModule {
    fn inline(&self) -> String {
        let head = format!("path = {}, version = {}", quote(&self.path), quote(&self.version));
        let sum = |(key, sum): (&str, &Option<String>)| {
            sum.as_ref().map(|sum| format!("{key} = {}", quote(sum)))
        };
        let sums = [("sum", &self.sum), ("mod-sum", &self.mod_sum)].map(sum);
        let blob = |(key, blob): (&str, &Option<Blob>)| {
            blob.as_ref().map(|blob| format!("{key} = {}", blob.inline()))
        };
        let blobs = [("zip", &self.zip), ("mod", &self.go_mod)].map(blob);
        let parts: Vec<String> =
            [Some(head)].into_iter().chain(sums).chain(blobs).flatten().collect();
        format!("{{ {} }}", parts.join(", "))
    }
}

impl Blob {
    fn inline(&self) -> String {
        format!("{{ sha256 = {}, size = {} }}", quote(&self.sha256), self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn package(package: &str) -> DebianPackage {
        let [version, architecture, sha256] =
            ["1:2.5.4-1+deb12u1~x", "arm64", "ab"].map(str::to_owned);
        let release = DebianRelease::default();
        DebianPackage { package: package.into(), version, architecture, sha256, size: 7, release }
    }

    fn lock(go_mod: Option<String>) -> Lock {
        let blob = Blob { sha256: "cd".into(), size: 9 };
        let module = |zip: Option<Blob>, sum: Option<&str>| GoModule {
            path: "example.org/m".into(),
            version: "v1.0.0+incompatible".into(),
            sum: sum.map(str::to_owned),
            mod_sum: Some("h1:b/c+=".into()),
            zip,
            go_mod: Some(blob.clone()),
        };
        let modules = vec![module(Some(blob.clone()), Some("h1:a=")), module(None, None)];
        let packages = |asked: &[&str]| Packages {
            asked: asked.iter().map(|name| name.to_string()).collect(),
            packages: vec![package("gcc"), package("libstdc++-12-dev")],
        };
        Lock {
            version: Lock::VERSION,
            recipe: "qemu-amd64".into(),
            epoch: 1_790_000_000,
            requirements: "ef".into(),
            kernel_source: Some(package("linux-source-6.12")),
            stub: Some(package("systemd-boot-efi")),
            sandbox: packages(&["gcc"]),
            launcher: packages(&["bubblewrap"]),
            pahole: Packages {
                asked: vec!["pahole".into()],
                packages: vec![DebianPackage {
                    release: DebianRelease::Trixie,
                    ..package("pahole")
                }],
            },
            cross: Packages::default(),
            files: packages(&[]),
            go: vec![GoLock {
                component: "kubelet".into(),
                module: "k8s.io/kubernetes".into(),
                version: "v1.35.8".into(),
                asked: "04".into(),
                go_mod,
                modules,
            }],
            toolchain: Toolchains {
                go: GoToolchain {
                    version: "1.26.8".into(),
                    sum: "h1:x=".into(),
                    sha256: "01".into(),
                    size: 1,
                },
                rust: Some(RustToolchain {
                    version: "1.95.0".into(),
                    targets: vec!["a".into(), "b".into()],
                    sha256: "02".into(),
                    size: 2,
                }),
            },
            crates: CratesLock {
                digest: "03".into(),
                sizes: vec![CrateSize { name: "libc".into(), version: "0.2.1".into(), size: 3 }],
            },
        }
    }

    #[test]
    fn each_pinned_input_has_its_own_line() {
        let text = lock(None).print();
        assert_eq!(text.lines().filter(|line| line.contains("{ package = \"gcc\",")).count(), 3);
        assert_eq!(
            text.lines().filter(|line| line.trim_start().starts_with("{ path =")).count(),
            2
        );
    }

    #[test]
    fn sources_are_listed_once() {
        let lock = lock(None);
        let names: Vec<String> = lock.sources(&[]).into_iter().map(|source| source.name).collect();
        assert_eq!(names.iter().filter(|name| name.starts_with("gcc ")).count(), 1);
        assert_eq!(names.len(), 9, "{names:?}");
    }

    #[test]
    fn another_version_and_an_unknown_key_are_refused() {
        let newer = Lock { version: 2, ..lock(None) }.print();
        assert!(
            Lock::parse("recipes/a.lock", &newer).unwrap_err().to_string().contains("version 2")
        );
        let misspelt = lock(None).print().replace("kernel-source", "kernel-sauce");
        let error = Lock::parse("recipes/a.lock", &misspelt).unwrap_err();
        assert_eq!(error.kind, Kind::Lock);
        assert_eq!(error.problems[0].place.as_ref().unwrap().line, 6);
    }

    proptest! {
        #[test]
        fn a_printed_lock_is_read_back(
            go_mod in proptest::option::of("[ -~\n\t]*"),
            is_of_a_node: bool,
        ) {
            let mut lock = lock(go_mod);
            if !is_of_a_node {
                (lock.kernel_source, lock.stub, lock.toolchain.rust) = (None, None, None);
                lock.crates.sizes.clear();
                lock.launcher = Packages::default();
            }
            prop_assert_eq!(Lock::parse("recipes/a.lock", &lock.print()), Ok(lock));
        }

        #[test]
        fn any_text_is_read_without_panic(text in ".*") {
            let _ = Lock::parse("recipes/a.lock", &text);
        }
    }
}
