//! Programs of Go modules, compiled offline from locked zip files. `go` itself checks every sum.

use crate::engine::action::InputTree;
use crate::engine::digest::Digest;
use crate::engine::store::Store;
use crate::error::{Error, Result};
use crate::plan::{
    Architecture, Cgo, GoComponent, GoLock, GoOutput, GoRequirement, Lock, Locked, Product,
};
use crate::produce::build::Build;
use crate::produce::fetch::{escaped, wrapper_program};
use crate::produce::sandbox::{Compiler, Script};
use crate::produce::supply::Extract;
use crate::produce::{bundle, emptied_module, locked};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The script that compiles programs, and the one that then compiles test programs too.
const PROGRAMS: &str = include_str!("go.sh");
const PROGRAMS_AND_TESTS: &str = concat!(include_str!("go.sh"), include_str!("go_tests.sh"));

/// The path of a compiled program among the action's outputs.
pub fn output(file: &str) -> String {
    format!("out/{file}")
}

/// The script that compiles every program of one component.
///
/// # Errors
/// The store lacks a locked source, or cannot be written.
pub fn script<P: Product<Locked>>(
    build: &Build<'_, P>,
    component: &GoComponent<Locked>,
) -> Result<Script<'static>> {
    let GoComponent {
        name, module, packages, tests, tags, ldflags, cgo, empty_packages, lock, ..
    } = component;
    let (plan, store) = (build.plan, build.options.store);
    let architecture = plan.architecture;
    let mut input = proxy(store, lock)?;
    if let Some(go_mod) = &lock.go_mod {
        around(store, &mut input, lock, go_mod, &GoRequirement::of(component, architecture))?;
    }
    if !empty_packages.is_empty() {
        for (path, bytes) in emptied(build, component)? {
            input.add_file(&format!("around/{path}"), store.put_bytes(&bytes)?, false)?;
        }
    }
    if cgo.is_some() {
        sysroot(&mut input, plan.lock.get())?;
    }
    let mut env = environment(architecture, cgo.as_ref());
    for (name, value) in [
        ("MODULE", module.clone()),
        ("VERSION", component.go_version()),
        ("ESCAPED", escaped(module)),
    ] {
        env.insert(name.into(), value);
    }
    env.insert("TAGS".into(), tags.join(","));
    env.insert("LDFLAGS".into(), ldflags.join(" "));
    let argument = |GoOutput { file, package }: &GoOutput| format!("{file}={package}");
    let arguments = |outputs: &[GoOutput]| outputs.iter().map(argument).collect::<Vec<_>>();
    if !tests.is_empty() {
        env.insert("TESTS".into(), arguments(tests).join(" "));
    }
    Ok(Script {
        name: format!("{name} {architecture}"),
        text: if tests.is_empty() { PROGRAMS } else { PROGRAMS_AND_TESTS },
        args: arguments(packages),
        env,
        input,
        outputs: packages.iter().chain(tests).map(|program| output(&program.file)).collect(),
        compiler: Compiler::Go,
    })
}

/// A module proxy as a tree of files (`go help goproxy`), with only the locked versions.
fn proxy(store: &Store, lock: &GoLock) -> Result<InputTree> {
    let mut input = InputTree::new();
    for module in &lock.modules {
        let start = format!("proxy/{}/@v/{}", escaped(&module.path), escaped(&module.version));
        let info = format!("{{\"Version\":\"{}\"}}\n", module.version);
        input.add_file(&format!("{start}.info"), store.put_bytes(info.as_bytes())?, false)?;
        for (blob, extension) in [(&module.zip, "zip"), (&module.go_mod, "mod")] {
            if let Some(blob) = blob {
                input.add_file(&format!("{start}.{extension}"), locked::blob(blob)?, false)?;
            }
        }
    }
    Ok(input)
}

/// Adds the module around the component: a `main.go` that imports its programs, and the sums of
/// every locked module.
fn around(
    store: &Store,
    input: &mut InputTree,
    lock: &GoLock,
    go_mod: &str,
    requirement: &GoRequirement,
) -> Result<()> {
    let sums = lock.modules.iter().fold(String::new(), |mut text, module| {
        for (sum, what) in [(&module.sum, ""), (&module.mod_sum, "/go.mod")] {
            if let Some(sum) = sum {
                writeln!(text, "{} {}{what} {sum}", module.path, module.version)
                    .expect("a string accepts every write");
            }
        }
        text
    });
    for (name, text) in
        [("go.mod", go_mod), ("go.sum", &sums), ("main.go", &wrapper_program(requirement))]
    {
        input.add_file(&format!("around/{name}"), store.put_bytes(text.as_bytes())?, false)?;
    }
    Ok(())
}

/// The files of the component's own module, by path, without the content of its empty packages.
fn emptied<P: Product<Locked>>(
    build: &Build<'_, P>,
    component: &GoComponent<Locked>,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let (store, empty) = (build.options.store, &component.empty_packages);
    let zip = own_zip(&component.lock)?;
    let extract = Extract {
        name: format!("{} sources", component.name),
        rule: "a module without the content of some packages, version 1",
        arguments: empty.clone(),
        sources: vec![zip],
    };
    let files = build
        .extract(&extract, &|| bundle::pack(&emptied_module::files(&store.path(&zip)?, empty)?))?;
    bundle::unpack(&store.read(&files)?)
}

/// The zip file of the component's own module.
fn own_zip(lock: &GoLock) -> Result<Digest> {
    let own = lock.modules.iter().find(|module| module.path == lock.module);
    let zip = own.and_then(|module| module.zip.as_ref());
    let zip = zip.ok_or_else(|| {
        Error::lock(format!("the lock has no zip file of the module `{}`", lock.module))
    })?;
    locked::blob(zip)
}

/// Adds the packages with the C library and its headers, for programs that need C.
fn sysroot(input: &mut InputTree, lock: &Lock) -> Result<()> {
    for package in &lock.cross.packages {
        let name = format!("sysroot/{}.deb", package.package);
        input.add_file(&name, locked::package(package)?, false)?;
    }
    Ok(())
}

fn environment(architecture: Architecture, cgo: Option<&Cgo>) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([
        ("GOOS".into(), "linux".into()),
        ("GOARCH".into(), architecture.go().to_owned()),
        ("GNU".into(), architecture.gnu().into()),
        ("CGO_ENABLED".into(), if cgo.is_some() { "1" } else { "0" }.into()),
    ]);
    if cgo.is_some() {
        env.insert("CC".into(), format!("{}-gcc", architecture.gnu()));
    }
    env
}
