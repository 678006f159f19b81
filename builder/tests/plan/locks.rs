//! A lock against a plan.

use crate::{changed, expect, project, resolve};
use osbuild::error::Kind;
use osbuild::plan::{
    CratesLock, DebianPackage, DebianRequirement, GoLock, GoToolchain, Lock, Moved, Packages, Plan,
    PreviousLock, RustToolchain, Toolchains, moved, set_version,
};

fn package(required: &DebianRequirement) -> DebianPackage {
    let DebianRequirement { package, architecture, release, .. } = required.clone();
    let (version, sha256) = ("1".into(), "00".into());
    DebianPackage { package, version, architecture, sha256, size: 1, release }
}

/// A lock that pins what the plan requires.
pub fn lock(plan: &Plan) -> Lock {
    let required = &plan.requirements;
    let packages = |required: &[DebianRequirement]| Packages {
        asked: Vec::new(),
        packages: required.iter().map(package).collect(),
    };
    let closure = |required: &[DebianRequirement]| Packages {
        asked: required.iter().map(DebianRequirement::asked).collect(),
        ..packages(required)
    };
    let go = required.go_modules.iter().map(|go| GoLock {
        component: go.component.clone(),
        module: go.module.clone(),
        version: go.version.clone(),
        asked: go.digest(&required.go_toolchain),
        go_mod: None,
        modules: Vec::new(),
    });
    let rust = required.rust_toolchain.clone();
    let rust = rust.map(|rust| RustToolchain {
        version: rust.version,
        targets: rust.targets,
        sha256: "00".into(),
        size: 1,
    });
    Lock {
        version: Lock::VERSION,
        recipe: plan.recipe.clone(),
        epoch: 1_790_000_000,
        requirements: required.digest(),
        kernel_source: required.kernel_source.as_ref().map(package),
        stub: required.stub.as_ref().map(package),
        sandbox: closure(&required.sandbox),
        launcher: closure(&required.launcher),
        pahole: closure(&required.pahole),
        cross: packages(&required.cross),
        files: packages(&required.files),
        go: go.collect(),
        toolchain: Toolchains {
            go: GoToolchain {
                version: required.go_toolchain.clone(),
                sum: "h1:=".into(),
                sha256: "00".into(),
                size: 1,
            },
            rust,
        },
        crates: CratesLock { digest: required.crates_digest(), sizes: Vec::new() },
    }
}

#[test]
fn a_lock_of_the_same_plan_is_accepted() {
    let plan = resolve(&project());
    let lock = lock(&plan);
    assert_eq!(plan.lock(lock.clone()).unwrap().lock.get(), &lock);
}

#[test]
fn a_lock_without_a_launcher_is_accepted_and_a_new_one_keeps_its_epoch() {
    let plan = resolve(&project());
    let new = Lock { epoch: 1_800_000_000, ..lock(&plan) };
    let older = Lock { launcher: Packages::default(), ..lock(&plan) };
    let previous = PreviousLock::of(Some(older.clone()));
    assert!(previous.closure(&plan.requirements.launcher).is_none());
    assert_eq!(previous.keep_epoch(new.clone()), Lock { epoch: older.epoch, ..new.clone() });
    let other = Lock { files: Packages::default(), sandbox: Packages::default(), ..new };
    assert_eq!(previous.keep_epoch(other).epoch, 1_800_000_000);
    assert!(plan.lock(older).is_ok());
}

#[test]
fn a_stale_lock_lists_the_differences() {
    let before = lock(&resolve(&project()));
    let changes = [
        ("recipes/base.toml", "\"1.4.3\"", "\"1.4.4\""),
        ("recipes/base.toml", "[\"bash\"]", "[\"bash\", \"curl\"]"),
        ("recipes/base.toml", "\"1.26.8\"", "\"1.26.9\""),
        ("Cargo.lock", "checksum = \"c", "checksum = \"d"),
    ];
    let error = resolve(&changed(&changes)).lock(before).map(|_| ()).unwrap_err();
    assert_eq!(error.kind, Kind::Lock);
    expect("stale-lock.txt", &format!("{error}\n"));
}

#[test]
fn a_change_that_no_entry_of_the_lock_shows_makes_it_stale() {
    let before = lock(&resolve(&project()));
    let tags = ("components/runc/component.toml", "\"seccomp\", ", "");
    assert_eq!(resolve(&changed(&[tags])).lock(before).map(|_| ()).unwrap_err().kind, Kind::Lock);
}

#[test]
fn a_lock_edited_by_hand_is_stale() {
    let plan = resolve(&project());
    let mut edited = lock(&plan);
    edited.go[0].version = "v2.2.8".into();
    let error = plan.lock(edited).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("containerd: `v2.2.9` is required, `v2.2.8` is locked"), "{error}");
}

#[test]
fn a_change_without_new_inputs_keeps_the_lock_valid() {
    let before = lock(&resolve(&project()));
    let file = ("recipes/base.toml", "127.0.0.1 localhost", "127.0.0.1 localhost node");
    let option = ("recipes/small.toml", "LOG_BUF_SHIFT = 17", "LOG_BUF_SHIFT = 18");
    assert!(resolve(&changed(&[file, option])).lock(before).is_ok());
}

#[test]
fn the_lock_of_another_recipe_is_refused() {
    let plan = resolve(&project());
    let other = Lock { recipe: "large".into(), ..lock(&plan) };
    let other = plan.lock(other).map(|_| ()).unwrap_err();
    expect("other-lock.txt", &format!("{other}\n"));
}

#[test]
fn a_version_is_set_where_it_is_written_and_nothing_else_changes() {
    let project = project();
    let files = set_version(&project, "small", "containerd", "2.2.10".parse().unwrap()).unwrap();
    let before = String::from_utf8(project.files["recipes/base.toml"].clone()).unwrap();
    assert_eq!(
        files.into_iter().collect::<Vec<_>>(),
        [("recipes/base.toml".to_owned(), before.replace("2.2.9", "2.2.10"))]
    );
    assert!(set_version(&project, "small", "runc", "1.4.3".parse().unwrap()).unwrap().is_empty());
    assert!(set_version(&project, "small", "mount", "1.4.3".parse().unwrap()).unwrap().is_empty());
}

#[test]
fn an_update_lists_what_changed() {
    let before = lock(&resolve(&project()));
    let mut after = before.clone();
    after.kernel_source.as_mut().unwrap().version = "2".into();
    after.sandbox.packages.remove(0);
    after.go.retain(|go| go.component != "runc");
    let moved: Vec<String> = moved(&before, &after)
        .into_iter()
        .map(|Moved { name, from, to }| {
            format!("{name}: {} -> {}", from.unwrap_or_default(), to.unwrap_or_default())
        })
        .collect();
    assert_eq!(
        moved,
        ["bash for amd64: 1 -> ", "linux-source-6.12 for amd64: 1 -> 2", "runc: v1.4.3 -> "]
    );
}

#[test]
fn only_released_and_unfit_entries_are_not_kept() {
    let plan = resolve(&project());
    let required = &plan.requirements;
    let (stub, kernel_source) =
        (required.stub.as_ref().unwrap(), required.kernel_source.as_ref().unwrap());
    let mut previous = PreviousLock::of(Some(lock(&plan)));
    assert!(previous.package(stub).is_some() && previous.closure(&required.sandbox).is_some());
    assert!(
        previous
            .package(&DebianRequirement { version: Some("2".into()), ..stub.clone() })
            .is_none()
    );
    assert!(previous.closure(&required.sandbox[1..]).is_none());
    assert!(previous.go(&required.go_modules[0], &required.go_toolchain).is_some());
    assert!(previous.go(&required.go_modules[0], "1.27.0").is_none());
    assert!(previous.go_toolchain("1.27.0").is_none());

    let sandboxed = required.sandbox[0].package.clone();
    previous.release([stub.package.as_str(), &sandboxed]);
    assert!(previous.package(stub).is_none() && previous.package(kernel_source).is_some());
    assert!(previous.closure(&required.sandbox).is_none());
    assert!(
        previous.preferred().all(|package| package.package != sandboxed)
            && previous.preferred().count() > 0
    );

    let mut fresh = lock(&plan);
    fresh.stub.as_mut().unwrap().version = "2".into();
    previous.add(fresh);
    assert_eq!(previous.package(stub).unwrap().version, "2");
    assert_eq!(previous.package(kernel_source).unwrap().version, "1");
}

#[test]
fn the_epoch_of_a_lock_stays_until_a_source_changes() {
    let before = lock(&resolve(&project()));
    let previous = PreviousLock::of(Some(before.clone()));
    let later = Lock { epoch: before.epoch + 86_400, ..before.clone() };
    let crates = Lock {
        crates: CratesLock { digest: "00".into(), sizes: Vec::new() },
        requirements: "00".into(),
        ..later.clone()
    };
    assert_eq!(previous.keep_epoch(crates).epoch, before.epoch);
    let mut moved = later.clone();
    moved.kernel_source.as_mut().unwrap().sha256 = "01".into();
    assert_eq!(previous.keep_epoch(moved).epoch, later.epoch);
}

#[test]
fn the_modules_of_a_component_depend_on_its_empty_packages() {
    let place = "components/runc/component.toml";
    let emptied =
        "module = \"github.com/opencontainers/runc\"\nempty-packages = [\"libct/specconv\"]";
    let plan =
        resolve(&changed(&[(place, "module = \"github.com/opencontainers/runc\"", emptied)]));
    let runc = |plan: &Plan| {
        let mut modules = plan.requirements.go_modules.iter();
        modules.find(|go| go.component == "runc").unwrap().clone()
    };
    let previous = PreviousLock::of(Some(lock(&resolve(&project()))));
    assert!(previous.go(&runc(&plan), &plan.requirements.go_toolchain).is_none());
    assert!(plan.print().contains("empty-packages = [\"libct/specconv\"]"), "{}", plan.print());
}
