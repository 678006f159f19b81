//! Copies files so that at each moment the old or the new one is there, whole, and leaves alone
//! what is as it should be.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use osbuild_failure::{Explain, Outcome};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::launch::folder_of;

/// Permission bits of a program, and of a folder of them.
const EXECUTABLE: u32 = 0o755;

/// Permission bits of a configuration.
const READABLE: u32 = 0o644;

/// How many bytes are compared at a time.
const PIECE: usize = 64 << 10;

/// Where things come from. None of the folders has to be there.
#[derive(Debug)]
pub struct Sources<'a> {
    /// Static programs.
    pub programs: &'a Path,
    /// Dynamically linked programs, each a folder with its libraries.
    pub dynamic: &'a Path,
    /// This program, which becomes the launcher of each of those.
    pub launcher: &'a Path,
    /// Network configurations.
    pub configurations: &'a Path,
}

/// Installs programs in the folder `plugins` and then configurations in the folder
/// `configurations`: as soon as there is one of those, containerd uses the programs. Gives the path
/// of each file or folder that was not there or was another one.
///
/// # Errors
/// Something cannot be read or written. What was installed so far stays.
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

/// What is in a folder, in order of name; nothing if there is no such folder.
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

/// Makes the file `to` a copy of `from`. Gives its path, unless it is one already.
fn file(from: &Path, to: &Path, mode: u32) -> Outcome<Option<PathBuf>> {
    let copy = || {
        if is_copy(from, to, mode)? {
            return Ok(None);
        }
        let new = beside(to);
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

/// Makes the folder `to` a copy of `from`, which holds files alone. Gives its path, unless it is
/// one already. Nobody sees files of the old and of the new one beside each other.
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
        let new = beside(to);
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

/// Whether `to` is a regular file with the bytes of `from` and this mode. What is a link is none.
fn is_copy(from: &Path, to: &Path, mode: u32) -> io::Result<bool> {
    let is_file =
        |found: &fs::Metadata| found.is_file() && found.permissions().mode() & 0o7777 == mode;
    let Some(found) = fs::symlink_metadata(to).ok().filter(is_file) else { return Ok(false) };
    let (mut from, mut to) = (File::open(from)?, File::open(to)?);
    if from.metadata()?.len() != found.len() {
        return Ok(false);
    }
    let (mut wanted, mut is) = (Vec::with_capacity(PIECE), Vec::with_capacity(PIECE));
    loop {
        wanted.clear();
        is.clear();
        from.by_ref().take(PIECE as u64).read_to_end(&mut wanted)?;
        to.by_ref().take(PIECE as u64).read_to_end(&mut is)?;
        if wanted != is {
            return Ok(false);
        }
        if wanted.is_empty() {
            return Ok(true);
        }
    }
}

/// Writes a new file to its end, onto the disk.
fn write(from: &Path, to: &Path, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
    io::copy(&mut File::open(from)?, &mut file)?;
    // Whatever the process's mask is.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

/// Where a file or folder is made before it gets its name. CNI takes none whose name begins so for
/// a configuration.
fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".new-");
    name.push(name_of(path));
    path.with_file_name(name)
}

/// Removes what is there, whatever it is. A link is removed, and not what it points at.
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
