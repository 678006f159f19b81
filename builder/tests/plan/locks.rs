//! A lock against a plan.

use crate::{changed, expect, project, resolve};
use osbuild::error::Kind;
use osbuild::plan::{
    CratesLock, DebianPackage, DebianWish, GoLock, GoToolchain, Held, Lock, Moved, Packages, Plan,
    RustToolchain, Toolchains, moved, set_version,
};

fn package(wish: &DebianWish) -> DebianPackage {
    let DebianWish { package, architecture, .. } = wish.clone();
    DebianPackage { package, version: "1".into(), architecture, sha256: "00".into(), size: 1 }
}

/// A lock that pins what the plan wants.
fn lock(plan: &Plan) -> Lock {
    let wanted = &plan.wanted;
    let packages = |wishes: &[DebianWish]| Packages {
        asked: Vec::new(),
        packages: wishes.iter().map(package).collect(),
    };
    let asked = wanted.sandbox.iter().map(DebianWish::asked).collect();
    let go = wanted.go_modules.iter().map(|wish| GoLock {
        component: wish.component.clone(),
        module: wish.module.clone(),
        version: wish.version.clone(),
        asked: wish.digest(&wanted.go_toolchain),
        go_mod: None,
        modules: Vec::new(),
    });
    let rust = wanted.rust_toolchain.clone();
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
        wanted: wanted.digest(),
        suite: wanted.suite().map(str::to_owned),
        kernel_source: wanted.kernel_source.as_ref().map(package),
        stub: wanted.stub.as_ref().map(package),
        sandbox: Packages { asked, ..packages(&wanted.sandbox) },
        cross: packages(&wanted.cross),
        files: packages(&wanted.files),
        go: go.collect(),
        toolchain: Toolchains {
            go: GoToolchain {
                version: wanted.go_toolchain.clone(),
                sum: "h1:=".into(),
                sha256: "00".into(),
                size: 1,
            },
            rust,
        },
        crates: CratesLock { digest: wanted.crates_digest() },
    }
}

#[test]
fn a_lock_of_the_same_plan_is_taken() {
    let plan = resolve(&project());
    let lock = lock(&plan);
    assert_eq!(plan.lock(lock.clone()).unwrap().lock.get(), &lock);
}

#[test]
fn a_stale_lock_says_what_moved() {
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
fn a_change_that_no_line_of_the_lock_shows_makes_it_stale_too() {
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
    assert!(error.contains("containerd: `v2.2.9` is wanted, `v2.2.8` is locked"), "{error}");
}

#[test]
fn what_is_built_without_new_inputs_leaves_the_lock_alone() {
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
fn a_version_is_set_where_it_was_written_and_nothing_else_changes() {
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
fn an_update_says_what_moved() {
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
fn only_what_is_let_go_or_does_not_fit_is_not_held() {
    let plan = resolve(&project());
    let wanted = &plan.wanted;
    let (stub, kernel_source) =
        (wanted.stub.as_ref().unwrap(), wanted.kernel_source.as_ref().unwrap());
    let mut held = Held::by(Some(lock(&plan)));
    assert!(held.package(stub).is_some() && held.closure(&wanted.sandbox).is_some());
    assert!(held.package(&DebianWish { suite: Some("sid".into()), ..stub.clone() }).is_none());
    assert!(held.package(&DebianWish { version: Some("2".into()), ..stub.clone() }).is_none());
    assert!(held.closure(&wanted.sandbox[1..]).is_none());
    assert!(held.go(&wanted.go_modules[0], &wanted.go_toolchain).is_some());
    assert!(held.go(&wanted.go_modules[0], "1.27.0").is_none());
    assert!(held.go_toolchain("1.27.0").is_none());

    let sandboxed = wanted.sandbox[0].package.clone();
    held.free([stub.package.as_str(), &sandboxed]);
    assert!(held.package(stub).is_none() && held.package(kernel_source).is_some());
    assert!(held.closure(&wanted.sandbox).is_none());
    assert!(
        held.preferred().all(|package| package.package != sandboxed)
            && held.preferred().count() > 0
    );

    let mut fresh = lock(&plan);
    fresh.stub.as_mut().unwrap().version = "2".into();
    held.share(fresh);
    assert_eq!(held.package(stub).unwrap().version, "2");
    assert_eq!(held.package(kernel_source).unwrap().version, "1");
}

#[test]
fn the_time_of_a_lock_stays_until_something_that_is_fetched_moves() {
    let before = lock(&resolve(&project()));
    let held = Held::by(Some(before.clone()));
    let later = Lock { epoch: before.epoch + 86_400, ..before.clone() };
    let crates =
        Lock { crates: CratesLock { digest: "00".into() }, wanted: "00".into(), ..later.clone() };
    assert_eq!(held.keep_epoch(crates).epoch, before.epoch);
    let mut moved = later.clone();
    moved.kernel_source.as_mut().unwrap().sha256 = "01".into();
    assert_eq!(held.keep_epoch(moved).epoch, later.epoch);
}
