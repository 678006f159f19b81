//! Decides without cargo whether a program is up to date: cargo would take longer than most calls
//! of the program.
//!
//! cargo compares times: it compiles a program again if a source is newer, and lists the sources
//! beside the program (`PROGRAM.d`). This module does the same, and calls cargo if anything
//! differs: the settings, a source that is newer or gone, the program itself.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Prefixes of the variables that cargo, compilers and build scripts read.
const VARIABLES: [&str; 12] = [
    "CARGO",
    "RUST",
    "CC",
    "CXX",
    "CFLAGS",
    "CPPFLAGS",
    "AR",
    "LD",
    "HOST_",
    "TARGET_",
    "PKG_CONFIG",
    "AWS_LC",
];

/// Prefixes of variables that cargo itself sets when it runs a program.
const SET_BY_CARGO: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "LD_LIBRARY_PATH"];

/// cargo's settings in the current folder and each folder above it.
const SETTINGS: [&str; 2] = [".cargo/config.toml", ".cargo/config"];

/// The inputs of a program's compilation.
pub struct Fresh {
    program: PathBuf,
    root: PathBuf,
    /// The file with the inputs of the last compilation. Its time is that of the last call of
    /// cargo.
    stamp: PathBuf,
    /// Variables and settings files.
    settings: String,
    files: Vec<PathBuf>,
}

impl Fresh {
    /// The inputs of `program` in the checkout `root` if it were compiled in the folder `here` with
    /// this environment.
    pub fn new(
        program: &Path,
        root: &Path,
        here: &Path,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Self {
        let begins = |name: &OsString, with: &[&str]| {
            with.iter().any(|with| name.to_string_lossy().starts_with(with))
        };
        let wanted = |name: &OsString| begins(name, &VARIABLES) && !begins(name, &SET_BY_CARGO);
        let environment: BTreeSet<_> = environment.collect();
        let variable = |wanted: &str| {
            environment.iter().find(|(name, _)| name == wanted).map(|(_, path)| PathBuf::from(path))
        };
        let home = variable("CARGO_HOME").or_else(|| Some(variable("HOME")?.join(".cargo")));
        let folders = here.ancestors().flat_map(|folder| SETTINGS.map(|name| folder.join(name)));
        let user =
            home.iter().flat_map(|home| ["config.toml", "config"].map(|name| home.join(name)));
        let files: Vec<PathBuf> = folders.chain(user).filter(|file| file.is_file()).collect();
        let variables = environment.iter().filter(|(name, _)| wanted(name));
        let settings =
            variables.map(|(name, value)| format!("{name:?}={value:?}\n")).collect::<String>()
                + &format!("{files:?}\n");
        Fresh {
            program: program.to_owned(),
            root: root.to_owned(),
            stamp: program.with_extension("fresh"),
            settings,
            files,
        }
    }

    /// Whether the program is up to date.
    pub fn is_current(&self) -> bool {
        let Ok(time) = self.stamp.metadata().and_then(|stamp| stamp.modified()) else {
            return false;
        };
        let same = self
            .seen()
            .is_some_and(|seen| fs::read_to_string(&self.stamp).is_ok_and(|stamp| stamp == seen));
        same && self
            .sources()
            .is_some_and(|sources| sources.iter().all(|source| is_older(source, time)))
    }

    /// Must be called before cargo, so that a source that changes while cargo reads it is newer
    /// than this call.
    ///
    /// # Errors
    /// A file beside the program cannot be written.
    pub fn begin(&self) -> io::Result<Begun<'_>> {
        fs::create_dir_all(self.stamp.parent().expect("a program is in a folder"))?;
        let file = self.stamp.with_extension(format!("fresh-{}", std::process::id()));
        fs::write(&file, "")?;
        let began = file.metadata()?.modified()?;
        Ok(Begun { fresh: self, file, began })
    }

    /// The settings and the identity of the program; none without a program.
    fn seen(&self) -> Option<String> {
        let program = self.program.metadata().ok()?;
        Some(format!(
            "{}{} {:?} {}\n",
            self.settings,
            program.ino(),
            program.modified().ok()?,
            program.len()
        ))
    }

    /// Every file that determines the program: the compiler's inputs, manifests and the lock.
    fn sources(&self) -> Option<Vec<PathBuf>> {
        let listed = fs::read_to_string(self.program.with_extension("d")).ok()?;
        let mut sources = dependencies(&listed);
        if sources.is_empty() {
            return None;
        }
        let folders: BTreeSet<PathBuf> = sources
            .iter()
            .flat_map(|source| source.ancestors().skip(1))
            .map(Path::to_owned)
            .collect();
        let manifests = folders
            .iter()
            .filter(|folder| folder.starts_with(&self.root))
            .map(|folder| folder.join("Cargo.toml"));
        sources.extend(manifests.filter(|manifest| manifest.is_file()));
        sources.extend([self.root.join("Cargo.toml"), self.root.join("Cargo.lock")]);
        sources.extend(self.files.iter().cloned());
        Some(sources)
    }
}

/// A compilation in progress.
pub struct Begun<'a> {
    fresh: &'a Fresh,
    file: PathBuf,
    began: SystemTime,
}

impl Begun<'_> {
    /// Records that cargo has succeeded.
    ///
    /// # Errors
    /// A file beside the program cannot be written.
    pub fn done(self) -> io::Result<()> {
        let seen = self.fresh.seen().ok_or(io::ErrorKind::NotFound)?;
        fs::write(&self.file, seen)?;
        fs::File::options().write(true).open(&self.file)?.set_modified(self.began)?;
        fs::rename(&self.file, &self.fresh.stamp)
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        // `done` has renamed it.
        let _ = fs::remove_file(&self.file);
    }
}

fn is_older(source: &Path, than: SystemTime) -> bool {
    source.metadata().and_then(|source: Metadata| source.modified()).is_ok_and(|time| time < than)
}

/// The files behind the colon of cargo's makefile, in which a backslash escapes a space.
fn dependencies(text: &str) -> Vec<PathBuf> {
    let Some((_, files)) = text.lines().next().and_then(|line| line.split_once(": ")) else {
        return Vec::new();
    };
    let spaces = files.replace("\\ ", "\0");
    spaces
        .split(' ')
        .filter(|file| !file.is_empty())
        .map(|file| file.replace('\0', " ").into())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A folder with a source, a manifest, a lock and a program.
    fn project() -> tempfile::TempDir {
        let dir = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("p/src")).unwrap();
        for file in ["p/src/main.rs", "p/Cargo.toml", "Cargo.toml", "Cargo.lock"] {
            fs::write(at(file), "").unwrap();
        }
        let escaped = |path: PathBuf| path.display().to_string().replace(' ', "\\ ");
        fs::write(at("it.d"), format!("{}: {}\n", escaped(at("it")), escaped(at("p/src/main.rs"))))
            .unwrap();
        fs::write(at("it"), "").unwrap();
        // File times are as coarse as the kernel's tick.
        std::thread::sleep(Duration::from_millis(30));
        dir
    }

    fn fresh(dir: &Path, variable: &str) -> Fresh {
        Fresh::new(&dir.join("it"), dir, dir, [(variable.into(), "x".into())].into_iter())
    }

    #[test]
    fn a_program_is_current_until_an_input_changes() {
        let changes: [fn(&Path); 6] = [
            |dir| fs::write(dir.join("p/src/main.rs"), "").unwrap(),
            |dir| fs::remove_file(dir.join("p/src/main.rs")).unwrap(),
            |dir| fs::write(dir.join("p/Cargo.toml"), "").unwrap(),
            |dir| fs::write(dir.join("Cargo.lock"), "").unwrap(),
            |dir| fs::write(dir.join("it"), "another").unwrap(),
            |dir| {
                fs::create_dir(dir.join(".cargo")).unwrap();
                fs::write(dir.join(".cargo/config.toml"), "").unwrap();
            },
        ];
        for change in changes {
            let dir = project();
            assert!(!fresh(dir.path(), "RUSTFLAGS").is_current());
            fresh(dir.path(), "RUSTFLAGS").begin().unwrap().done().unwrap();
            std::thread::sleep(Duration::from_millis(30));
            assert!(fresh(dir.path(), "RUSTFLAGS").is_current());
            change(dir.path());
            assert!(!fresh(dir.path(), "RUSTFLAGS").is_current());
        }
    }

    #[test]
    fn only_variables_that_compilers_read_are_inputs() {
        let dir = project();
        fresh(dir.path(), "TERM").begin().unwrap().done().unwrap();
        assert!(
            fresh(dir.path(), "EDITOR").is_current()
                && fresh(dir.path(), "CARGO_PKG_NAME").is_current()
        );
        assert!(
            !fresh(dir.path(), "RUSTFLAGS").is_current()
                && !fresh(dir.path(), "CC_x86_64_unknown_linux_gnu").is_current()
        );
    }

    #[test]
    fn a_source_that_changes_during_the_compilation_is_noticed() {
        let dir = project();
        let fresh = fresh(dir.path(), "TERM");
        let begun = fresh.begin().unwrap();
        std::thread::sleep(Duration::from_millis(30));
        fs::write(dir.path().join("p/src/main.rs"), "").unwrap();
        begun.done().unwrap();
        assert!(!fresh.is_current());
    }

    #[test]
    fn a_failed_compilation_leaves_no_file() {
        let dir = project();
        drop(fresh(dir.path(), "TERM").begin().unwrap());
        assert!(!fresh(dir.path(), "TERM").is_current());
        assert!(
            dir.path().read_dir().unwrap().all(|entry| !entry
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains("fresh"))
        );
    }
}
