//! Installs and launches this machine's own dynamically linked programs, with its loader and its
//! libraries.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use osbuild_abi::payload::LOADER;
use pod_cni::install::{Sources, install};
use tempfile::TempDir;

const LAUNCHER: &str = env!("CARGO_BIN_EXE_cni");

/// An image's payload, and the folders of a node.
struct World {
    folder: TempDir,
}

impl World {
    /// One static program, `cat` with its libraries, and one configuration.
    fn new() -> Self {
        let world = World { folder: tempfile::tempdir().unwrap() };
        for folder in ["programs", "dynamic/cat", "recipe", "plugins", "net.d"] {
            fs::create_dir_all(world.path(folder)).unwrap();
        }
        fs::write(world.path("programs/bridge"), "a plugin").unwrap();
        fs::write(world.path("recipe/10-bridge.conflist"), "{}").unwrap();
        let cat = world.path("dynamic/cat");
        fs::copy("/bin/cat", cat.join("cat")).unwrap();
        for library in libraries("/bin/cat") {
            let is_loader = library.file_name().unwrap().to_string_lossy().starts_with("ld-");
            let name =
                if is_loader { Path::new(LOADER) } else { Path::new(library.file_name().unwrap()) };
            fs::copy(&library, cat.join(name)).unwrap();
        }
        world
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Installs, and returns the names of what changed.
    fn install(&self) -> Vec<String> {
        let [programs, dynamic, configurations] =
            ["programs", "dynamic", "recipe"].map(|path| self.path(path));
        let sources = Sources {
            programs: &programs,
            dynamic: &dynamic,
            launcher: Path::new(LAUNCHER),
            configurations: &configurations,
        };
        let changed = install(&sources, &self.path("plugins"), &self.path("net.d"))
            .unwrap_or_else(|failure| panic!("{failure}"));
        changed
            .iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(self.path("plugins/cat")).args(arguments).env_clear().output().unwrap()
    }
}

/// The libraries of a program of this machine, as its loader lists them (ldd(1)).
fn libraries(program: &str) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap().stdout;
    let output = String::from_utf8(output).unwrap();
    let paths = output.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(PathBuf::from).collect()
}

#[test]
fn a_dynamic_program_runs_with_its_own_libraries() {
    let world = World::new();
    world.install();
    let ran = world.run(&["/proc/self/maps"]);
    assert!(ran.status.success(), "{ran:?}");
    let maps = String::from_utf8(ran.stdout).unwrap();
    let mapped: BTreeSet<&str> = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|path| path.starts_with('/'))
        .collect();
    let folder = fs::canonicalize(world.path("plugins/.cat")).unwrap();
    assert!(mapped.len() >= 3, "{maps}");
    for path in mapped {
        assert!(Path::new(path).starts_with(&folder), "{path} is not in {}", folder.display());
    }
}

#[test]
fn the_launcher_passes_on_arguments_and_the_exit_code() {
    let world = World::new();
    world.install();
    let ran = world.run(&["--no-such-flag"]);
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    // It gets its own name as argument 0.
    assert!(String::from_utf8(ran.stderr).unwrap().starts_with("cat: unrecognized option"));
}

#[test]
fn files_that_are_up_to_date_are_not_touched() {
    let world = World::new();
    assert_eq!(world.install(), ["bridge", ".cat", "cat", "10-bridge.conflist"]);
    let inode = || fs::metadata(world.path("plugins/.cat/cat")).unwrap().ino();
    let before = inode();
    assert_eq!(world.install(), [""; 0]);
    assert_eq!(inode(), before);
}

#[test]
fn obstacles_are_replaced_but_a_links_target_is_kept() {
    let world = World::new();
    fs::write(world.path("kept"), "kept").unwrap();
    fs::create_dir_all(world.path("plugins/bridge/folder")).unwrap();
    symlink(world.path("kept"), world.path("plugins/cat")).unwrap();
    symlink(world.path("kept"), world.path("plugins/.new-cat")).unwrap();
    fs::write(world.path("plugins/.cat"), "a file").unwrap();
    fs::create_dir(world.path("net.d/10-bridge.conflist")).unwrap();
    assert_eq!(world.install(), ["bridge", ".cat", "cat", "10-bridge.conflist"]);
    assert_eq!(fs::read_to_string(world.path("kept")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(world.path("plugins/bridge")).unwrap(), "a plugin");
    assert!(world.run(&["/dev/null"]).status.success());
    let names: BTreeSet<_> = fs::read_dir(world.path("plugins"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, [".cat", "bridge", "cat"].map(Into::into).into());
}

#[test]
fn a_new_release_replaces_the_old_one_without_breaking_open_files() {
    let world = World::new();
    world.install();
    let mut open = File::open(world.path("plugins/bridge")).unwrap();
    fs::write(world.path("programs/bridge"), "newer!!!").unwrap();
    fs::write(world.path("dynamic/cat/libnew.so"), "a library").unwrap();
    assert_eq!(world.install(), ["bridge", ".cat"]);
    assert!(world.path("plugins/.cat/libnew.so").is_file());
    fs::remove_file(world.path("dynamic/cat/libnew.so")).unwrap();
    assert_eq!(world.install(), [".cat"]);
    assert!(!world.path("plugins/.cat/libnew.so").exists());
    let mut old = String::new();
    open.read_to_string(&mut old).unwrap();
    assert_eq!(old, "a plugin");
}

#[test]
fn wrong_modes_are_corrected() {
    let world = World::new();
    world.install();
    let mode = |path: &str| fs::metadata(world.path(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(
        [mode("plugins/bridge"), mode("plugins/.cat/cat"), mode("net.d/10-bridge.conflist")],
        [0o755, 0o755, 0o644]
    );
    fs::set_permissions(world.path("plugins/bridge"), fs::Permissions::from_mode(0o4777)).unwrap();
    assert_eq!(world.install(), ["bridge"]);
    assert_eq!(mode("plugins/bridge"), 0o755);
}

#[test]
fn without_a_payload_and_a_configuration_nothing_is_installed() {
    let world = World::new();
    for folder in ["programs", "dynamic", "recipe"] {
        fs::remove_dir_all(world.path(folder)).unwrap();
    }
    assert_eq!(world.install(), [""; 0]);
}
