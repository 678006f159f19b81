//! The checkout that is checked, and the folders of the checks.

use crate::child;
use osbuild::engine::stop;
use osbuild::engine::store::Store;
use osbuild::error::{Context, Error, LogTail, Result};
use osbuild::report::Report;
use start::{Cargo, Compiled};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How many last lines of an output an error shows.
const TAIL: usize = 60;

/// The checkout, its logs and the terminal.
pub struct Site<'a> {
    /// The only way to the terminal.
    pub report: &'a Report,
    /// The checkout.
    pub root: PathBuf,
    /// The folder in which `osbuild run` caches facts about this host.
    pub machine: PathBuf,
    compiled: Compiled,
    logs: PathBuf,
    project: Mutex<PathBuf>,
}

/// The result of a command.
pub struct Ran {
    /// Its exit code, or none if a signal ended it.
    pub code: Option<i32>,
    /// Its stdout and stderr.
    pub output: String,
    /// The file with the same output.
    pub log: PathBuf,
}

impl<'a> Site<'a> {
    /// The checkout that this program was compiled from.
    pub fn new(report: &'a Report) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("the crate stands in the checkout")
            .to_owned();
        let machine = usual_store()?.state("run")?;
        let compiled =
            Compiled::usual().or_build(|| "cannot make cargo's build folder".to_owned())?;
        let logs = root.join("out/ci");
        fs::create_dir_all(&logs).or_build(|| format!("cannot make `{}`", logs.display()))?;
        Ok(Site { report, project: Mutex::new(root.clone()), root, machine, compiled, logs })
    }

    /// The checkout that images are built from: this one, or the copy whose lock was renewed.
    pub fn project(&self) -> PathBuf {
        self.project.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Builds images from this checkout from now on.
    pub fn move_to(&self, project: PathBuf) {
        *self.project.lock().unwrap_or_else(PoisonError::into_inner) = project;
    }

    /// cargo, with a build folder that all checkouts of this user share. It is locked until the
    /// result is dropped.
    pub fn cargo(&self) -> Result<Cargo> {
        self.cargo_in(&self.root)
    }

    /// Like [`Site::cargo`], in another checkout.
    pub fn cargo_in(&self, checkout: &Path) -> Result<Cargo> {
        let go_on = || stop::check().map_err(io::Error::other);
        let cargo = self.compiled.cargo(checkout, |waits| self.report.note(waits), go_on);
        stop::check()?;
        let mut cargo = cargo.or_build(|| "cannot use cargo's build folder".to_owned())?;
        cargo.env("CARGO_TERM_COLOR", "never");
        Ok(cargo)
    }

    /// The folder of the programs that `cargo install` installs for the checks.
    pub fn tools(&self) -> PathBuf {
        self.compiled.tools()
    }

    /// The program `osbuild` in [`Self::project`], as a user runs it.
    pub fn osbuild(&self) -> Result<Command> {
        let ours = std::env::current_exe().or_build(|| "cannot find this program".to_owned())?;
        let mut command = Command::new(ours.with_file_name("osbuild"));
        command.current_dir(self.project());
        Ok(command)
    }

    /// The store of `osbuild` in the user's caches.
    pub fn store(&self) -> Result<Store> {
        usual_store()
    }

    /// Every file that git knows, relative to the checkout.
    pub fn files(&self) -> Result<Vec<String>> {
        let mut git = Command::new("git");
        let ran = self.finish("files", git.current_dir(&self.root).args(["ls-files", "-z"]))?;
        Ok(ran
            .output
            .split_terminator('\0')
            .map(str::to_owned)
            .filter(|file| self.root.join(file).is_file())
            .collect())
    }

    /// Copies every file that git knows to `copy`: a checkout without history.
    pub fn copy_to(&self, copy: &Path) -> Result<()> {
        if copy.exists() {
            fs::remove_dir_all(copy).or_build(|| format!("cannot remove `{}`", copy.display()))?;
        }
        for file in self.files()? {
            let to = copy.join(&file);
            let folder = to.parent().expect("a file stands in a folder");
            fs::create_dir_all(folder)
                .and_then(|()| fs::copy(self.project().join(&file), &to))
                .or_build(|| format!("cannot copy `{file}`"))?;
        }
        Ok(())
    }

    /// The path of the log `name`.
    pub fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    /// Runs a command. Its output is written to the log `name`.
    ///
    /// # Errors
    /// The command cannot be started, or the user wants to stop: then it is ended.
    pub fn run(&self, name: &str, command: &mut Command) -> Result<Ran> {
        let log = self.log(name);
        let cannot = || format!("cannot write `{}`", log.display());
        let mut file = new_file(&log).or_build(cannot)?;
        let [out, err] = [file.try_clone().or_build(cannot)?, file.try_clone().or_build(cannot)?];
        let line = line(command);
        let started = Instant::now();
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let status = child::run(command, || format!("cannot start `{line}`"), stop::check)?;
        let mut output = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut output)).or_build(cannot)?;
        let output = String::from_utf8_lossy(&output).into_owned();
        self.report
            .detail(format!("{line}: {status} after {:.1} s", started.elapsed().as_secs_f64()));
        Ok(Ran { code: status.code(), output, log })
    }

    /// Runs a command that must succeed.
    pub fn finish(&self, name: &str, command: &mut Command) -> Result<Ran> {
        let ran = self.run(name, command)?;
        if ran.code == Some(0) {
            Ok(ran)
        } else {
            Err(ran.failure(&format!("`{}` failed", line(command))))
        }
    }
}

impl Ran {
    /// An error that shows the end of the output.
    pub fn failure(&self, message: &str) -> Error {
        Error::build(message).log(tail(&self.output, &self.log))
    }
}

/// Makes a new file in the place of an old one: a check in the other lane may run a command of the
/// same name, whose output goes on into the file that it has open.
fn new_file(path: &Path) -> io::Result<File> {
    loop {
        match File::options().create_new(true).read(true).write(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match fs::remove_file(path) {
                // The other lane may have removed it meanwhile.
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            },
            opened => return opened,
        }
    }
}

/// Fills a folder that does not exist yet. An interrupted call leaves none of that name. If another
/// `cargo ci` fills it meanwhile, that one counts.
pub fn fill_once(folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    if !folder.exists() {
        let parent = folder.parent().expect("the folder of tools");
        let cannot = || format!("cannot make `{}`", folder.display());
        fs::create_dir_all(parent).or_build(cannot)?;
        let new = tempfile::tempdir_in(parent).or_build(cannot)?;
        fill(new.path())?;
        match fs::rename(new.path(), folder) {
            Err(_) if folder.is_dir() => {}
            renamed => renamed.or_build(cannot)?,
        }
    }
    Ok(folder.to_owned())
}

fn usual_store() -> Result<Store> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    Store::open(Store::usual_root(variable("XDG_CACHE_HOME"), variable("HOME"))?)
}

/// The last lines of `output`, which is in the file `log`.
pub fn tail(output: &str, log: &Path) -> LogTail {
    let lines: Vec<String> = output.lines().map(str::to_owned).collect();
    let lines = lines[lines.len().saturating_sub(TAIL)..].to_vec();
    LogTail { lines, path: log.display().to_string() }
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    std::iter::once(program)
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_another_run_has_filled_is_used() {
        let tools = tempfile::tempdir().unwrap();
        let folder = tools.path().join("tool");
        let filled = fill_once(&folder, |new| {
            fs::write(new.join("program"), "ours").unwrap();
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("program"), "of another run").unwrap();
            Ok(())
        });
        let program = filled.unwrap().join("program");
        assert_eq!(fs::read_to_string(program).unwrap(), "of another run");
        assert_eq!(fs::read_dir(tools.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_log_is_a_new_file_beside_an_open_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut first = new_file(&path).unwrap();
        let mut second = new_file(&path).unwrap();
        io::Write::write_all(&mut second, b"second").unwrap();
        io::Write::write_all(&mut first, b"the first").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    }
}
