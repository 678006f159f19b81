//! Makes a lock: asks each ecosystem what there is now, fetches it, and writes down its digests.

use super::{debian, go, rust, From};
use crate::error::{Error, Result};
use crate::plan::{
    Architecture, CratesLock, DebianPackage, DebianWish, GoLock, GoToolchain, Lock, Packages, Plan, RustToolchain, Toolchains, Unlocked,
};
use crate::produce::store::Store;
use crate::report::{Outcome, Report};

/// Pins all that `plan` wants at `epoch`, in seconds since 1970. What it fetches is in the store afterwards.
///
/// # Errors
/// `from` is not the registries, an archive lacks what is wanted, or the network does.
pub fn pin(store: &Store, report: &Report, plan: &Plan<Unlocked>, epoch: u64, from: &From) -> Result<Lock> {
    if !matches!(from, From::Registries) {
        return Err(Error::usage("a lock is made from what the registries have now").hint("run `osbuild lock` without `--offline`"));
    }
    let wanted = &plan.wanted;
    let single = |packages: Vec<DebianPackage>| packages.into_iter().next().expect("one package was asked for and found");
    let archives = Archives::open(store, report, plan)?;
    Ok(Lock {
        version: 1,
        recipe: plan.recipe.clone(),
        epoch,
        wanted: wanted.digest(),
        kernel_source: single(archives.newest(std::slice::from_ref(&wanted.kernel_source))?),
        stub: single(archives.newest(std::slice::from_ref(&wanted.stub))?),
        sandbox: Packages { packages: archives.closure(&wanted.sandbox)? },
        cross: Packages { packages: archives.newest(&wanted.cross)? },
        files: Packages { packages: archives.newest(&wanted.files)? },
        go: go_components(store, report, plan)?,
        toolchain: toolchains(store, report, plan)?,
        crates: CratesLock { digest: wanted.crates_digest() },
    })
}

/// Debian's archive for the architectures that a plan names.
struct Archives(Vec<(Architecture, debian::Archive)>);

impl Archives {
    fn open(store: &Store, report: &Report, plan: &Plan<Unlocked>) -> Result<Self> {
        let step = report.step("lists");
        let mut architectures = vec![Architecture::Amd64, plan.architecture];
        architectures.dedup();
        let folder = store.state("apt")?;
        let archives = architectures.into_iter().map(|architecture| {
            let archive = debian::Archive::new(&folder, architecture);
            archive.update(&step)?;
            Ok((architecture, archive))
        });
        let archives = Archives(archives.collect::<Result<_>>()?);
        step.done("what the archive has", None, Outcome::Ran);
        Ok(archives)
    }

    fn of(&self, wishes: &[DebianWish]) -> Option<&debian::Archive> {
        let architecture = Architecture::named(&wishes.first()?.architecture).unwrap_or(Architecture::Amd64);
        self.0.iter().find(|(ours, _)| *ours == architecture).map(|(_, archive)| archive)
    }

    fn newest(&self, wishes: &[DebianWish]) -> Result<Vec<DebianPackage>> {
        self.of(wishes).map_or(Ok(Vec::new()), |archive| archive.newest(&names(wishes)))
    }

    fn closure(&self, wishes: &[DebianWish]) -> Result<Vec<DebianPackage>> {
        self.of(wishes).map_or(Ok(Vec::new()), |archive| archive.closure(&names(wishes)))
    }
}

/// Names as apt takes them: `NAME`, `NAME=VERSION` or `NAME/SUITE`.
fn names(wishes: &[DebianWish]) -> Vec<String> {
    let name = |wish: &DebianWish| match (&wish.version, &wish.suite) {
        (Some(version), _) => format!("{}={version}", wish.package),
        (None, Some(suite)) => format!("{}/{suite}", wish.package),
        (None, None) => wish.package.clone(),
    };
    wishes.iter().map(name).collect()
}

fn go_components(store: &Store, report: &Report, plan: &Plan<Unlocked>) -> Result<Vec<GoLock>> {
    let pin = |wish: &crate::plan::GoWish| {
        let step = report.step(format!("modules {}", wish.component));
        let found = go::modules(store, store.scratch()?.path(), wish, None, &plan.wanted.go_toolchain, &step)?;
        step.done(&format!("{} modules", found.modules.len()), None, Outcome::Ran);
        let (component, module, version) = (wish.component.clone(), wish.module.clone(), wish.version.clone());
        Ok(GoLock { component, module, version, go_mod: found.go_mod, modules: found.modules })
    };
    plan.wanted.go_modules.iter().map(pin).collect()
}

fn toolchains(store: &Store, report: &Report, plan: &Plan<Unlocked>) -> Result<Toolchains> {
    let step = report.step("toolchains");
    let version = plan.wanted.go_toolchain.clone();
    let module = go::toolchain(store, store.scratch()?.path(), &version, &step)?;
    let (Some(sum), Some(zip)) = (module.sum, module.zip) else {
        return Err(Error::build(format!("the Go module proxy gave no zip file of toolchain {version}")));
    };
    let go = GoToolchain { version, sum, sha256: zip.sha256, size: zip.size };
    let wish = &plan.wanted.rust_toolchain;
    let digest = rust::toolchain(store, store.scratch()?.path(), wish, &step)?;
    let rust = RustToolchain { version: wish.version.clone(), targets: wish.targets.clone(), sha256: digest.hex(), size: digest.size() };
    step.done(&format!("go {}, rust {}", go.version, rust.version), Some(go.size + rust.size), Outcome::Ran);
    Ok(Toolchains { go, rust })
}
