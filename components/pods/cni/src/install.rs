//! Installs files atomically: at every moment the whole old file or the whole new one exists. Files
//! that are up to date are not touched.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use osbuild_failure::{Explain, Outcome};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::launch::folder_of;

/// Permission bits of programs and their folders.
const EXECUTABLE: u32 = 0o755;

/// Permission bits of configurations.
const READABLE: u32 = 0o644;

/// Bytes to compare at a time.
const PIECE: usize = 64 << 10;

/// The sources. Each folder may be missing.
#[derive(Debug)]
pub struct Sources<'a> {
    /// Static programs.
    pub programs: &'a Path,
    /// Dynamically linked programs, each in a folder with its libraries.
    pub dynamic: &'a Path,
    /// This program, which is installed as the launcher of each dynamically linked program.
    pub launcher: &'a Path,
    /// Network configurations.
    pub configurations: &'a Path,
}

/// Installs programs in the folder `plugins`, then configurations in the folder `configurations`:
/// containerd uses the programs as soon as there is a configuration. Returns the paths of the files
/// and folders that are new or changed.
///
/// # Errors
/// A file cannot be read or written. The files that were installed before it remain.
pub fn install(
    sources: &Sources<'_>,
    plugins: &Path,
    configurations: &Path,
) -> Outcome<Vec<PathBuf>> {
    let mut changed = Vec::new();
    for source in entries(sources.programs)? {
        changed.extend(file(&source, &plugins.join(name_of(&source)), EXECUTABLE)?);
    }
    for source in entries(sources.dynamic)? {
        changed.extend(folder(&source, &plugins.join(folder_of(name_of(&source))))?);
        changed.extend(file(sources.launcher, &plugins.join(name_of(&source)), EXECUTABLE)?);
    }
    for source in entries(sources.configurations)? {
        changed.extend(file(&source, &configurations.join(name_of(&source)), READABLE)?);
    }
    Ok(changed)
}

/// The entries of a folder, sorted by name; none if it does not exist.
fn entries(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let read = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read,
    };
    let paths = read
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>());
    let mut paths = paths.explain(format_args!("read {}", folder.display()))?;
    paths.sort();
    Ok(paths)
}

fn name_of(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

/// Makes the file `to` a copy of `from`. Returns its path if it changed.
fn file(from: &Path, to: &Path, mode: u32) -> Outcome<Option<PathBuf>> {
    let copy = || {
        if is_copy(from, to, mode)? {
            return Ok(None);
        }
        let new = temporary(to);
        remove(&new)?;
        write(from, &new, mode)?;
        if fs::symlink_metadata(to).is_ok_and(|found| found.is_dir()) {
            remove(to)?;
        }
        fs::rename(&new, to)?;
        sync_folder_of(to)?;
        Ok(Some(to.to_owned()))
    };
    copy().map_err(|error: io::Error| error).explain(format_args!("install {}", to.display()))
}

/// Makes the folder `to` a copy of `from`, which holds only files. Returns its path if it changed.
/// The two folders are exchanged in one step, so old and new files never mix.
fn folder(from: &Path, to: &Path) -> Outcome<Option<PathBuf>> {
    let sources = entries(from)?;
    let copy = || {
        let mut found: Vec<PathBuf> = match fs::read_dir(to) {
            Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?,
            Err(_) => Vec::new(),
        };
        found.sort();
        let same_names =
            found.iter().map(|path| name_of(path)).eq(sources.iter().map(|path| name_of(path)));
        let is_same = |source: &PathBuf| is_copy(source, &to.join(name_of(source)), EXECUTABLE);
        if same_names
            && sources.iter().map(is_same).collect::<io::Result<Vec<_>>>()?.iter().all(|same| *same)
        {
            return Ok(None);
        }
        let new = temporary(to);
        remove(&new)?;
        fs::create_dir(&new)?;
        fs::set_permissions(&new, Permissions::from_mode(EXECUTABLE))?;
        for source in &sources {
            write(source, &new.join(name_of(source)), EXECUTABLE)?;
        }
        File::open(&new)?.sync_all()?;
        match renameat_with(CWD, &new, CWD, to, RenameFlags::EXCHANGE) {
            Err(rustix::io::Errno::NOENT) => fs::rename(&new, to)?,
            exchanged => exchanged?,
        }
        sync_folder_of(to)?;
        remove(&new)?;
        Ok(Some(to.to_owned()))
    };
    copy().map_err(|error: io::Error| error).explain(format_args!("install {}", to.display()))
}

/// Whether `to` is a regular file, not a link, with the bytes of `from` and this mode.
fn is_copy(from: &Path, to: &Path, mode: u32) -> io::Result<bool> {
    let is_file =
        |found: &fs::Metadata| found.is_file() && found.permissions().mode() & 0o7777 == mode;
    let Some(found) = fs::symlink_metadata(to).ok().filter(is_file) else { return Ok(false) };
    let (mut from, mut to) = (File::open(from)?, File::open(to)?);
    if from.metadata()?.len() != found.len() {
        return Ok(false);
    }
    let (mut expected, mut actual) = (Vec::with_capacity(PIECE), Vec::with_capacity(PIECE));
    loop {
        expected.clear();
        actual.clear();
        from.by_ref().take(PIECE as u64).read_to_end(&mut expected)?;
        to.by_ref().take(PIECE as u64).read_to_end(&mut actual)?;
        if expected != actual {
            return Ok(false);
        }
        if expected.is_empty() {
            return Ok(true);
        }
    }
}

/// Copies and flushes a new file.
fn write(from: &Path, to: &Path, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
    io::copy(&mut File::open(from)?, &mut file)?;
    // Independent of the umask.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

/// The temporary path of a file or folder that is being written. CNI does not read a configuration
/// whose name starts with a dot.
fn temporary(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".new-");
    name.push(name_of(path));
    path.with_file_name(name)
}

/// Removes a file, a folder or a link, if it exists. The target of a link stays.
fn remove(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    }
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}
