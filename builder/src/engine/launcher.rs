//! The launcher: the programs that make the input root the `/` of a step on a service that runs
//! actions in a folder of its worker. They are bubblewrap(1), as here, and a static busybox(1) that
//! starts it, both from Debian packages. Decision 70 explains why.

use super::action::Action;
use super::bubblewrap::{self, Places};
use super::digest::Digest;
use super::fs_error::IoContext;
use super::key::Key;
use super::rules;
use super::sandbox::Root;
use super::store::Store;
use crate::error::Result;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The version of the launcher. Raise it when the same packages give other files.
const LAYOUT: u32 = 1;

/// The files of the packages, with their names in the launcher. They are in one folder without
/// links, because a service may allow none.
const FILES: [(&str, &str); 7] = [
    ("bin/busybox", "busybox"),
    ("usr/bin/bwrap", "bwrap"),
    ("lib64/ld-linux-x86-64.so.2", "ld.so"),
    ("lib/x86_64-linux-gnu/libc.so.6", "libc.so.6"),
    ("lib/x86_64-linux-gnu/libcap.so.2", "libcap.so.2"),
    ("lib/x86_64-linux-gnu/libpcre2-8.so.0", "libpcre2-8.so.0"),
    ("lib/x86_64-linux-gnu/libselinux.so.1", "libselinux.so.1"),
];

/// The folders of an input root with a launcher.
pub mod folder {
    /// The action's `/`.
    pub const ROOT: &str = "root";
    /// Its toolchains.
    pub const TOOLCHAINS: &str = "toolchain";
    /// Its inputs. The worker may link them from its cache, and with other modes and times.
    pub const INPUTS: &str = "inputs";
    /// The launcher.
    pub const LAUNCHER: &str = "launcher";
    /// The folder with `/build` and `/tmp`.
    pub const WORK: &str = "work";
    /// The action's `/build`, in [`WORK`].
    pub const BUILD: &str = "build";
    /// The action's `/tmp`, in [`WORK`].
    pub const TMP: &str = "tmp";
}

/// Starts a step from its `/build`: with copies of the inputs that have the modes and the time of
/// the rules, and that the step may change. Its arguments are that time and those of bubblewrap.
/// The shell waits for bubblewrap, which ends with it: the thread of a worker that started the
/// shell may end earlier.
const SCRIPT: &str = r#"
umask 022
launcher=../../launcher
busybox=$launcher/busybox
"$busybox" cp -dR ../../inputs/. . &&
    "$busybox" chmod 755 ../tmp &&
    "$busybox" find . -type d -exec "$busybox" chmod 755 {} + &&
    "$busybox" find . -type f -perm -100 -exec "$busybox" chmod 755 {} + &&
    "$busybox" find . -type f ! -perm -100 -exec "$busybox" chmod 644 {} + &&
    "$busybox" find . -type f -exec "$busybox" touch -d "@$1" {} + || exit
shift
"$launcher/ld.so" --library-path "$launcher" "$launcher/bwrap" "$@" </dev/null
exit $?
"#;

/// The unpacked launcher.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The key of its tree in the store.
    pub key: Digest,
    /// Its folder on this machine.
    pub path: PathBuf,
}

impl Launcher {
    /// The launcher of these packages, which need be neither in the store nor unpacked.
    pub fn of(store: &Store, packages: &[Digest]) -> Launcher {
        let key = Key::new("launcher").field("layout", LAYOUT);
        let key = key.list("package", packages.iter().map(Digest::hex)).digest();
        Launcher { key, path: store.tree_root(&key) }
    }

    /// Unpacks the launcher of these packages, which are in the store, once.
    ///
    /// # Errors
    /// A package is missing or malformed, a file is in none, or the store cannot be written.
    pub fn unpack(store: &Store, packages: &[Digest]) -> Result<Launcher> {
        let launcher = Launcher::of(store, packages);
        store.tree(&launcher.key, |to| {
            let scratch = store.scratch()?;
            let root = Root::begin(scratch.path()).at("make directories in", scratch.path())?;
            for package in packages {
                let path = store.path(package)?;
                let file = File::open(&path).at("read", &path)?;
                root.unpack(file).at("unpack", &path)?;
            }
            Launcher::take(scratch.path(), to)
        })?;
        Ok(launcher)
    }

    /// Copies the launcher's files from the root `from` of a Debian system to the folder `to`.
    ///
    /// # Errors
    /// A file is missing, or cannot be read or written.
    pub fn take(from: &Path, to: &Path) -> Result<()> {
        let root = Root::of(from).at("open", from)?;
        for (path, name) in FILES {
            let mut file = root.open(path).at("read", &from.join(path))?;
            let copy = to.join(name);
            let mut written = File::create(&copy).at("write", &copy)?;
            io::copy(&mut file, &mut written).at("write", &copy)?;
            fs::set_permissions(&copy, Permissions::from_mode(0o755)).at("write", &copy)?;
        }
        Ok(())
    }

    /// The command line that runs `action` in its `/build`, in an input root with the folders of
    /// [`folder`].
    pub fn command(action: &Action) -> Vec<String> {
        let place = |name: &str| Path::new("../..").join(name);
        let tools = place(folder::TOOLCHAINS);
        let places = Places {
            root: place(folder::ROOT),
            tmp: Path::new("..").join(folder::TMP),
            build: ".".into(),
            toolchains: action.toolchains.iter().map(|tool| tools.join(&tool.name)).collect(),
        };
        let busybox = place(folder::LAUNCHER).join("busybox");
        let since_epoch = rules::input_time().duration_since(UNIX_EPOCH).unwrap_or_default();
        let shell =
            [busybox.to_string_lossy().as_ref(), "sh", "-c", SCRIPT, "launcher"].map(str::to_owned);
        // No path among them is one of this machine, so all are text.
        let sandbox = bubblewrap::arguments(action, places).into_iter();
        let sandbox = sandbox.map(|word| word.to_string_lossy().into_owned());
        shell.into_iter().chain([since_epoch.as_secs().to_string()]).chain(sandbox).collect()
    }
}
