//! Whether a program is what cargo would make now, found without cargo, which takes longer for that
//! than most calls of the program.
//!
//! cargo goes by times: it compiles again what is older than one of its sources, and lists these
//! beside the program (`PROGRAM.d`). This does the same, and whatever looks different is a question
//! for cargo: other settings, a source that is newer or gone, another program.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How the names of variables begin that cargo, its compilers and what they call look at.
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

/// Those among them that cargo sets itself when it runs a program.
const CARGOS_OWN: [&str; 3] = ["CARGO_PKG_", "CARGO_MANIFEST_", "LD_LIBRARY_PATH"];

/// Where cargo looks for settings, in each folder above the current one.
const SETTINGS: [&str; 2] = [".cargo/config.toml", ".cargo/config"];

/// What a program was made with.
pub struct Fresh {
    program: PathBuf,
    root: PathBuf,
    /// The file that holds what was seen, and is as old as the last call of cargo.
    stamp: PathBuf,
    /// Variables and files of settings.
    settings: String,
    files: Vec<PathBuf>,
}

impl Fresh {
    /// What the program `program` of the checkout `root` would be made with in the folder `here`
    /// and this environment.
    pub fn look(
        program: &Path,
        root: &Path,
        here: &Path,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> Self {
        let begins = |name: &OsString, with: &[&str]| {
            with.iter().any(|with| name.to_string_lossy().starts_with(with))
        };
        let wanted = |name: &OsString| begins(name, &VARIABLES) && !begins(name, &CARGOS_OWN);
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

    /// Whether cargo would leave the program as it is.
    pub fn is_so(&self) -> bool {
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

    /// To be called before cargo is: a source that changes while cargo reads it is newer than this.
    ///
    /// # Errors
    /// The file of what is seen cannot be made.
    pub fn begin(&self) -> io::Result<Begun<'_>> {
        fs::create_dir_all(self.stamp.parent().expect("a program is in a folder"))?;
        let file = self.stamp.with_extension(format!("fresh-{}", std::process::id()));
        fs::write(&file, "")?;
        let began = file.metadata()?.modified()?;
        Ok(Begun { fresh: self, file, began })
    }

    /// The settings, and which program it is; nothing without one.
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

    /// Every file that has a say in the program: what the compiler has read, and the manifests and
    /// locks around it.
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

/// cargo is at work.
pub struct Begun<'a> {
    fresh: &'a Fresh,
    file: PathBuf,
    began: SystemTime,
}

impl Begun<'_> {
    /// cargo has succeeded: until something changes it need not be asked again.
    ///
    /// # Errors
    /// The file of what was seen cannot be written.
    pub fn done(self) -> io::Result<()> {
        let seen = self.fresh.seen().ok_or(io::ErrorKind::NotFound)?;
        fs::write(&self.file, seen)?;
        fs::File::options().write(true).open(&self.file)?.set_modified(self.began)?;
        fs::rename(&self.file, &self.fresh.stamp)
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        // After `done` it has its other name.
        let _ = fs::remove_file(&self.file);
    }
}

fn is_older(source: &Path, than: SystemTime) -> bool {
    source.metadata().and_then(|source: Metadata| source.modified()).is_ok_and(|time| time < than)
}

/// The files behind the colon of a makefile as cargo writes it: a space in a name has a backslash
/// before it.
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

    /// A folder with a source, a manifest, a lock and a program, all older than what is made of
    /// them later.
    fn made() -> tempfile::TempDir {
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
        // Times of files are as coarse as the kernel's tick.
        std::thread::sleep(Duration::from_millis(30));
        dir
    }

    fn fresh(dir: &Path, variable: &str) -> Fresh {
        Fresh::look(&dir.join("it"), dir, dir, [(variable.into(), "x".into())].into_iter())
    }

    #[test]
    fn a_program_is_fresh_until_something_of_it_changes() {
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
            let dir = made();
            assert!(!fresh(dir.path(), "RUSTFLAGS").is_so());
            fresh(dir.path(), "RUSTFLAGS").begin().unwrap().done().unwrap();
            std::thread::sleep(Duration::from_millis(30));
            assert!(fresh(dir.path(), "RUSTFLAGS").is_so());
            change(dir.path());
            assert!(!fresh(dir.path(), "RUSTFLAGS").is_so());
        }
    }

    #[test]
    fn a_variable_counts_if_a_compiler_looks_at_it() {
        let dir = made();
        fresh(dir.path(), "TERM").begin().unwrap().done().unwrap();
        assert!(fresh(dir.path(), "EDITOR").is_so() && fresh(dir.path(), "CARGO_PKG_NAME").is_so());
        assert!(
            !fresh(dir.path(), "RUSTFLAGS").is_so()
                && !fresh(dir.path(), "CC_x86_64_unknown_linux_gnu").is_so()
        );
    }

    #[test]
    fn a_source_that_changes_while_cargo_works_is_seen() {
        let dir = made();
        let fresh = fresh(dir.path(), "TERM");
        let begun = fresh.begin().unwrap();
        std::thread::sleep(Duration::from_millis(30));
        fs::write(dir.path().join("p/src/main.rs"), "").unwrap();
        begun.done().unwrap();
        assert!(!fresh.is_so());
    }

    #[test]
    fn a_build_that_failed_leaves_nothing() {
        let dir = made();
        drop(fresh(dir.path(), "TERM").begin().unwrap());
        assert!(!fresh(dir.path(), "TERM").is_so());
        assert!(
            dir.path().read_dir().unwrap().all(|entry| !entry
                .unwrap()
                .file_name()
                .to_string_lossy()
                .contains("fresh"))
        );
    }
}
