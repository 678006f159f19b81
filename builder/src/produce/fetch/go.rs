//! Fetches Go modules with `go` into a temporary module cache, which then has exactly the modules
//! that the build reads.

use super::client::{Client, Ended};
use crate::engine::store::Store;
use crate::error::{Context, Error, Result};
use crate::plan::{GoModule, GoRequirement};
use crate::produce::emptied_module;
use crate::report::Step;
use base64::Engine;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The module of Go toolchains.
pub const TOOLCHAIN: &str = "golang.org/toolchain";

/// The modules that a component's build reads.
pub struct Modules {
    /// The go.mod of the wrapper module, if the component needs one.
    pub go_mod: Option<String>,
    /// The modules, in order of path and version.
    pub modules: Vec<GoModule>,
}

/// Fetches all modules that the build of `requirement` reads and puts them into the store. `go_mod`
/// is the locked go.mod of the wrapper module; without one it is generated. `folder` is an empty
/// scratch folder.
///
/// # Errors
/// The proxy does not have a module, or its bytes do not match go.sum or the checksum database.
pub fn modules(
    store: &Store,
    folder: &Path,
    requirement: &GoRequirement,
    go_mod: Option<&str>,
    toolchain: &str,
    step: &Step,
) -> Result<Modules> {
    let go = Go::new(folder, toolchain)?;
    let main = go.download(&format!("{}@{}", requirement.module, requirement.version), step)?;
    let go_mod = if requirement.wrapper {
        Some(go.list_wrapped(folder, &main, requirement, go_mod, step)?)
    } else {
        let main = match requirement.empty_packages.is_empty() {
            true => main,
            false => go.emptied(folder, requirement)?,
        };
        go.list(&main, requirement, "readonly", step)?;
        None
    };
    let modules = without_toolchain(collect(store, &go.cache().join("cache/download"))?);
    Ok(Modules { go_mod, modules })
}

/// Fetches a Go toolchain, which is a module without a go.sum line, and puts its zip file into the
/// store.
pub fn toolchain(store: &Store, folder: &Path, version: &str, step: &Step) -> Result<GoModule> {
    let go = Go::local(folder)?;
    let name = format!("v0.0.1-go{version}.linux-amd64");
    go.download(&format!("{TOOLCHAIN}@{name}"), step)?;
    let found = collect(store, &go.cache().join("cache/download"))?;
    let module = found.into_iter().find(|module| module.version == name);
    module.ok_or_else(|| Error::build(format!("the Go module proxy gave no toolchain {version}")))
}

/// The path of a module in the proxy protocol: an upper-case letter becomes `!` and the lower-case
/// letter.
pub fn escaped(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for letter in path.chars() {
        if letter.is_ascii_uppercase() {
            escaped.push('!');
        }
        escaped.push(letter.to_ascii_lowercase());
    }
    escaped
}

fn unescaped(path: &str) -> String {
    let mut parts = path.split('!');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut whole, part| {
        let mut letters = part.chars();
        whole.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        whole.push_str(letters.as_str());
        whole
    })
}

/// `go` with a separate module cache, in an empty module of its own: in the user's folder it would
/// obey and change a go.mod there, or in a folder above.
pub(super) struct Go {
    folder: PathBuf,
    toolchain: String,
}

impl Go {
    /// The user's own `go`, in a scratch folder.
    pub(super) fn local(folder: &Path) -> Result<Self> {
        Self::new(folder, "local")
    }

    fn new(folder: &Path, toolchain: &str) -> Result<Self> {
        std::fs::write(folder.join("go.mod"), "module osbuild\n")
            .or_build(|| "cannot write a go.mod".into())?;
        Ok(Go { folder: folder.to_owned(), toolchain: toolchain.to_owned() })
    }

    fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    /// A call of it in its own module.
    pub(super) fn client(&self) -> Client<'static> {
        let toolchain = if self.toolchain == "local" {
            "local".into()
        } else {
            format!("go{}+auto", self.toolchain)
        };
        Client::new("go")
            .within(&self.folder)
            .env("GOMODCACHE", self.cache())
            .env("GOTOOLCHAIN", toolchain)
            .env("GOFLAGS", "")
            .env("GOWORK", "off")
    }

    /// Returns the folder of the unpacked module.
    pub(super) fn download(&self, module: &str, step: &Step) -> Result<PathBuf> {
        let Ended { text, failure } =
            self.client().args(["mod", "download", "-json", module]).shown(step).finish()?;
        let response = serde_json::from_str::<serde_json::Value>(&text);
        if let Some(error) = failure {
            // The JSON has the reason, unless `go` failed before it wrote any.
            let reason =
                response.ok().and_then(|response| response["Error"].as_str().map(str::to_owned));
            return Err(reason
                .iter()
                .flat_map(|reason| reason.lines())
                .fold(error, |error, line| error.cause(line.trim())));
        }
        let response = response.or_build(|| "`go mod download` did not write JSON".into())?;
        let folder = response["Dir"]
            .as_str()
            .ok_or_else(|| Error::build(format!("`go mod download` did not unpack `{module}`")))?;
        Ok(folder.into())
    }

    /// Loads the packages of `requirement`, so that the module cache gets all modules that they
    /// need.
    fn list(
        &self,
        folder: &Path,
        requirement: &GoRequirement,
        mode: &str,
        step: &Step,
    ) -> Result<()> {
        let client = self
            .client()
            .within(folder)
            .env("GOOS", "linux")
            .env("GOARCH", &requirement.architecture);
        let client = client.env("CGO_ENABLED", if requirement.cgo { "1" } else { "0" });
        let packages = requirement.packages.iter().chain(&requirement.tests);
        let packages = packages.map(|output| output.package.as_str());
        let tags = format!("-tags={}", requirement.tags.join(","));
        let client =
            client.args(["list", "-deps", &format!("-mod={mode}"), &tags, "-f", "{{.ImportPath}}"]);
        // Modules that only tests import are needed only where a test program is made.
        let client = if requirement.tests.is_empty() { client } else { client.args(["-test"]) };
        client.args(packages).shown(step).run().map(drop)
    }

    /// Does the same inside a wrapper module around `main`, and returns its go.mod.
    fn list_wrapped(
        &self,
        folder: &Path,
        main: &Path,
        requirement: &GoRequirement,
        go_mod: Option<&str>,
        step: &Step,
    ) -> Result<String> {
        let around = folder.join("around");
        std::fs::create_dir_all(&around)
            .or_build(|| "cannot make a folder for a Go module".into())?;
        let text = match go_mod {
            Some(text) => text.to_owned(),
            None => {
                let upstream = std::fs::read_to_string(main.join("go.mod"))
                    .or_build(|| format!("cannot read the go.mod of `{}`", requirement.module))?;
                wrapper(&upstream, requirement)
            }
        };
        std::fs::write(around.join("go.mod"), text).or_build(|| "cannot write a go.mod".into())?;
        std::fs::write(around.join("main.go"), wrapper_program(requirement))
            .or_build(|| "cannot write a Go file".into())?;
        self.list(&around, requirement, "mod", step)?;
        std::fs::read_to_string(around.join("go.mod")).or_build(|| "cannot read a go.mod".into())
    }

    /// Writes the downloaded module without the content of its empty packages, and returns its
    /// folder.
    fn emptied(&self, folder: &Path, requirement: &GoRequirement) -> Result<PathBuf> {
        let GoRequirement { module, version, empty_packages, .. } = requirement;
        let zip = format!("cache/download/{}/@v/{version}.zip", escaped(module));
        let emptied = folder.join("emptied");
        for (path, bytes) in emptied_module::files(&self.cache().join(zip), empty_packages)? {
            let path = emptied.join(path);
            std::fs::create_dir_all(path.parent().unwrap_or(&emptied))
                .and_then(|()| std::fs::write(&path, bytes))
                .or_build(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(emptied)
    }
}

/// The program of the wrapper module: it imports the packages of `requirement`, so that the module
/// requires them.
pub fn wrapper_program(requirement: &GoRequirement) -> String {
    let imports = requirement
        .packages
        .iter()
        .chain(&requirement.tests)
        .map(|output| format!("import _ \"{}\"\n", output.package))
        .collect::<String>();
    format!("package main\n\n{imports}\nfunc main() {{}}\n")
}

/// The go.mod of a wrapper module around Kubernetes: it replaces the staging modules with the
/// versions that were published with it.
fn wrapper(upstream: &str, requirement: &GoRequirement) -> String {
    let go = upstream.lines().find(|line| line.starts_with("go ")).unwrap_or("go 1.24");
    let staged = requirement.version.strip_prefix("v1.").unwrap_or(&requirement.version);
    let replaces = upstream
        .lines()
        .filter_map(|line| line.trim().split_once(" => ./staging/"))
        .map(|(module, _)| {
            let module = module.trim_start_matches("replace ").trim();
            format!("replace {module} => {module} v0.{staged}\n")
        });
    let replaces = replaces.collect::<String>();
    format!(
        "module osbuild/{}\n\n{go}\n\nrequire {} {}\n\n{replaces}",
        requirement.component, requirement.module, requirement.version
    )
}

/// Puts every zip and go.mod of a download cache into the store.
fn collect(store: &Store, downloads: &Path) -> Result<Vec<GoModule>> {
    let mut found = BTreeMap::<(String, String), GoModule>::new();
    let mut folders = vec![downloads.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).or_build(|| format!("cannot read `{}`", folder.display()))?
        {
            let path = entry.or_build(|| format!("cannot read `{}`", folder.display()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Some((key, extension)) = module_of(downloads, &path) {
                let empty = || GoModule {
                    path: key.0.clone(),
                    version: key.1.clone(),
                    sum: None,
                    mod_sum: None,
                    zip: None,
                    go_mod: None,
                };
                add(store, found.entry(key.clone()).or_insert_with(empty), &path, extension)?;
            }
        }
    }
    Ok(found.into_values().collect())
}

/// Removes the toolchain, which `go` downloads only if its own version differs. The lock has it
/// separately.
fn without_toolchain(mut modules: Vec<GoModule>) -> Vec<GoModule> {
    modules.retain(|module| module.path != TOOLCHAIN);
    modules
}

/// Parses path, version and extension from `PATH/@v/VERSION.EXTENSION`.
fn module_of<'p>(downloads: &Path, file: &'p Path) -> Option<((String, String), &'p str)> {
    let extension =
        file.extension()?.to_str().filter(|extension| ["zip", "mod"].contains(extension))?;
    let (path, version) = file.strip_prefix(downloads).ok()?.to_str()?.split_once("/@v/")?;
    let version = unescaped(version.strip_suffix(extension)?.strip_suffix('.')?);
    Some(((unescaped(path), version), extension))
}

fn add(store: &Store, module: &mut GoModule, file: &Path, extension: &str) -> Result<()> {
    let blob = super::blob(&store.put_file(file)?);
    if extension == "zip" {
        let sum = file.with_extension("ziphash");
        module.sum = Some(
            std::fs::read_to_string(&sum)
                .or_build(|| format!("cannot read `{}`", sum.display()))?
                .trim()
                .to_owned(),
        );
        module.zip = Some(blob);
    } else {
        let text = std::fs::read(file).or_build(|| format!("cannot read `{}`", file.display()))?;
        module.mod_sum = Some(mod_sum(&text));
        module.go_mod = Some(blob);
    }
    Ok(())
}

/// The `h1:` hash of a go.mod, which is that of a list with only this file
/// (golang.org/x/mod/sumdb/dirhash).
fn mod_sum(text: &[u8]) -> String {
    let list = format!("{:x}  go.mod\n", Sha256::digest(text));
    format!("h1:{}", base64::engine::general_purpose::STANDARD.encode(Sha256::digest(list)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_upper_case_letters_are_restored() {
        assert_eq!(escaped("github.com/Microsoft/go-winio"), "github.com/!microsoft/go-winio");
        assert_eq!(unescaped("github.com/!microsoft/go-winio"), "github.com/Microsoft/go-winio");
    }

    #[test]
    fn the_sum_of_a_go_mod_matches_go_sum() {
        let text = b"module github.com/google/uuid\n";
        assert_eq!(mod_sum(text), "h1:TIyPZe4MgqvfeYDBFedMoGGpEw/LqOeaOT+nhxU+yHo=");
    }

    #[test]
    fn a_lock_does_not_depend_on_the_version_of_the_users_go() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        let downloads = folder.path().join("download");
        for path in [
            "example.org/!m/@v/v1.0.0.mod",
            "golang.org/toolchain/@v/v0.0.1-go1.26.8.linux-amd64.mod",
        ] {
            std::fs::create_dir_all(downloads.join(path).parent().unwrap()).unwrap();
            std::fs::write(downloads.join(path), "module m\n").unwrap();
        }
        let modules = without_toolchain(collect(&store, &downloads).unwrap());
        assert_eq!(
            modules.iter().map(|module| module.path.as_str()).collect::<Vec<_>>(),
            ["example.org/M"]
        );
    }

    #[test]
    fn staging_modules_are_replaced_with_published_ones() {
        let requirement = GoRequirement {
            component: "kubelet".into(),
            module: "k8s.io/kubernetes".into(),
            version: "v1.35.8".into(),
            wrapper: true,
            packages: Vec::new(),
            tests: Vec::new(),
            tags: Vec::new(),
            cgo: false,
            empty_packages: Vec::new(),
            architecture: "amd64".into(),
        };
        let text = wrapper(
            "module k8s.io/kubernetes\n\ngo 1.25.0\n\nreplace (\n\tk8s.io/api => \
             ./staging/src/k8s.io/api\n)\n",
            &requirement,
        );
        assert_eq!(
            text,
            "module osbuild/kubelet\n\ngo 1.25.0\n\nrequire k8s.io/kubernetes v1.35.8\n\nreplace \
             k8s.io/api => k8s.io/api v0.35.8\n"
        );
    }
}
