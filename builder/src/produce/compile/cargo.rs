//! Programs of this workspace: static ones with musl, and those for UEFI. A separate action
//! compiles the crates that they depend on, so that a change to the workspace does not recompile
//! them.

use super::workspace::{Manifests, Member};
use crate::engine::action::{ActionResult, InputTree};
use crate::engine::digest::Digest;
use crate::error::Result;
use crate::plan::Closure;
use crate::produce::build::Build;
use crate::produce::sandbox::{Compiler, Script};
use std::collections::{BTreeMap, BTreeSet};

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
    let manifests = build.options.workspace.manifests()?;
    let package = Package::find(build, &manifests, package, target)?;
    let input = package.input()?;
    build.run_both(package.dependencies(input.clone())?, &|dependencies| {
        package.programs(input.clone(), files, dependencies.output(DEPENDENCIES)?)
    })
}

/// One package of this workspace with the members and crates that it consists of.
struct Package<'a> {
    build: &'a Build<'a>,
    manifests: &'a Manifests,
    name: &'a str,
    /// The target triple.
    target: &'a str,
    closure: Closure,
}

impl<'a> Package<'a> {
    /// Finds the closure of `name` for `target`.
    ///
    /// # Errors
    /// The workspace has no such member, or its lock no such package.
    fn find(
        build: &'a Build<'a>,
        manifests: &'a Manifests,
        name: &'a str,
        target: &'a str,
    ) -> Result<Self> {
        let closure = manifests.versions.closure(&BTreeSet::from([name]))?;
        manifests.member(name)?;
        Ok(Package { build, manifests, name, target, closure })
    }

    /// The script that compiles the package's dependencies, with empty sources of ours.
    fn dependencies(&self, mut input: InputTree) -> Result<Script<'static>> {
        let store = self.build.options.store;
        for member in self.members() {
            input.add_tree(&format!("workspace/{}", member.folder), member.stub(store)?)?;
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
    fn programs(
        &self,
        mut input: InputTree,
        files: &[String],
        dependencies: Digest,
    ) -> Result<Script<'static>> {
        let store = self.build.options.store;
        input.add_file(DEPENDENCIES, dependencies, false)?;
        for member in self.members() {
            input.add_tree(&format!("workspace/{}", member.folder), member.sources(store)?)?;
        }
        Ok(Script {
            name: format!("{} {}", programs_of(self.name, files), self.build.plan.architecture),
            text: include_str!("cargo.sh"),
            args: files.to_vec(),
            env: self.environment(),
            input,
            outputs: files.iter().map(|file| output(file)).collect(),
            compiler: Compiler::Rust,
        })
    }

    /// The inputs of both scripts: crates, and the manifest and the lock of the workspace, reduced
    /// to what the package needs, so that no other change recompiles it.
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
        let root = self.manifests.reduced_root(&self.closure).to_string();
        let lock = self.manifests.reduced_lock(&self.closure).to_string();
        input.add_file("workspace/Cargo.toml", store.put_bytes(root.as_bytes())?, false)?;
        input.add_file("workspace/Cargo.lock", store.put_bytes(lock.as_bytes())?, false)?;
        Ok(input)
    }

    /// The members that it consists of.
    fn members(&self) -> impl Iterator<Item = &Member> {
        self.manifests.members(&self.closure)
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let target = self.target;
        let ours = self.closure.members.iter().cloned().collect::<Vec<_>>();
        let linker = format!("CARGO_TARGET_{}_LINKER", target.to_uppercase().replace('-', "_"));
        let mut environment = BTreeMap::from([
            ("TARGET".into(), target.into()),
            ("PACKAGE".into(), self.name.into()),
            ("OURS".into(), ours.join(" ")),
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

/// The programs `files` of a package in the name of a step. That of the package is enough if one of
/// them has it, without the `pod-` of pods. Otherwise the programs are named as well, because
/// another step may compile other ones of the package.
fn programs_of(package: &str, files: &[String]) -> String {
    let pod = package.strip_prefix("pod-").unwrap_or(package);
    let stem = |file: &String| file.strip_suffix(".efi").unwrap_or(file).to_owned();
    let stems: Vec<String> = files.iter().map(stem).collect();
    match stems.iter().any(|stem| stem == package || stem == pod) {
        true => package.to_owned(),
        false => format!("{package} {}", stems.join(" ")),
    }
}

/// The C compiler for `target` in the sandbox, which runs on amd64.
fn c_compiler(target: &str) -> &'static str {
    if target.starts_with("aarch64-") { "aarch64-linux-gnu-gcc" } else { "gcc" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_for_other_programs_of_a_package_have_other_names() {
        let name = |package, files: &[&str]| {
            programs_of(package, &files.iter().map(|&file| file.to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(name("mount", &["mount", "umount"]), "mount");
        assert_eq!(name("slotboot", &["slotboot.efi"]), "slotboot");
        assert_eq!(name("pod-probe", &["probe"]), "pod-probe");
        assert_eq!(name("pod-probe", &["ordinary"]), "pod-probe ordinary");
    }
}
