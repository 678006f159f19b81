//! Gives the files of a new clone the times that they had when they were compiled: cargo compares
//! times, and would compile every package of a new clone again.
//!
//! A file has its former time only if its content is the same. A checkout in which cargo has
//! compiled by itself keeps its times: there, a former time could hide a change.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The file with the times, in the folder that all checkouts share.
const TIMES: &str = "times";

/// The folders at the top of a checkout that have no sources.
const OUTPUTS: [&str; 3] = [".git", "out", "target"];

/// The crate that is compiled in the checkout itself, and the start of the names of its
/// fingerprints.
const OWN_CRATE: &str = "ci/start";
const OWN_FINGERPRINTS: &str = "start-";

/// The time and the content of a file, or of a folder, whose content are the names in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// Since 1970.
    time: Duration,
    hash: u64,
}

/// Gives the files of the checkout `root` their former times, and remembers in `folder` the times
/// that they have now. A file that cannot be read, or is gone meanwhile, is left out.
///
/// # Errors
/// The checkout cannot be listed, or the times cannot be written.
pub fn restore(folder: &Path, root: &Path) -> io::Result<()> {
    let former = read(&folder.join(TIMES));
    let is_new = is_new(root)?;
    let mut now = BTreeMap::new();
    for path in sources(root)? {
        if let Ok(seen) = restore_one(&root.join(&path), former.get(&path), is_new) {
            now.insert(path, seen);
        }
    }
    if now == former { Ok(()) } else { write(&folder.join(TIMES), &now) }
}

/// Gives a file of a new checkout its former time if its content is that of `before`. Returns its
/// time and content.
fn restore_one(file: &Path, before: Option<&Seen>, is_new: bool) -> io::Result<Seen> {
    let time = time(file)?;
    let seen = match before {
        Some(before) if before.time == time => *before,
        _ => Seen { time, hash: hash(file)? },
    };
    let Some(same) = before.filter(|before| is_new && before.hash == seen.hash) else {
        return Ok(seen);
    };
    if same.time != time {
        let times = FileTimes::new().set_modified(UNIX_EPOCH + same.time);
        File::open(file)?.set_times(times)?;
    }
    Ok(*same)
}

/// Whether cargo has compiled nothing in the checkout but the starters.
fn is_new(root: &Path) -> io::Result<bool> {
    let target = root.join("target");
    if !target.is_dir() {
        return Ok(true);
    }
    for profile in fs::read_dir(target)? {
        let fingerprints = profile?.path().join(super::FINGERPRINTS);
        if !fingerprints.is_dir() {
            continue;
        }
        for entry in fs::read_dir(fingerprints)? {
            if !entry?.file_name().to_string_lossy().starts_with(OWN_FINGERPRINTS) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// The paths of all files and folders of the checkout that cargo may read, but for those of the
/// starters.
fn sources(root: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut sources, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(root.join(&folder)) {
            Err(_) if folder != Path::new("") => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let (path, kind) = (folder.join(entry.file_name()), entry.file_type()?);
            let is_output = OUTPUTS.iter().any(|output| path == Path::new(output));
            if is_output || path == Path::new(OWN_CRATE) || kind.is_symlink() {
                continue;
            }
            if kind.is_dir() {
                folders.push(path.clone());
            }
            if kind.is_dir() || kind.is_file() {
                sources.push(path);
            }
        }
    }
    Ok(sources)
}

/// The time of the last change, since 1970; zero if it is earlier.
fn time(file: &Path) -> io::Result<Duration> {
    let time: SystemTime = file.metadata()?.modified()?;
    Ok(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn hash(file: &Path) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    if file.is_dir() {
        let names = fs::read_dir(file)?.map(|entry| Ok(entry?.file_name()));
        let mut names = names.collect::<io::Result<Vec<_>>>()?;
        names.sort();
        for name in names {
            hasher.write(name.as_encoded_bytes());
            hasher.write(b"/");
        }
        return Ok(hasher.finish());
    }
    let mut bytes = Vec::new();
    File::open(file)?.read_to_end(&mut bytes)?;
    hasher.write(&bytes);
    Ok(hasher.finish())
}

/// The times of before; none if they cannot be read.
fn read(file: &Path) -> BTreeMap<PathBuf, Seen> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| {
        let mut words = line.splitn(4, ' ');
        let mut number = || words.next()?.parse::<u64>().ok();
        let (seconds, nanoseconds, hash) = (number()?, number()?, number()?);
        let time = Duration::new(seconds, u32::try_from(nanoseconds).ok()?);
        Some((PathBuf::from(words.next()?), Seen { time, hash }))
    });
    lines.collect()
}

/// Replaces the file as a whole. A path that is no text is left out.
fn write(file: &Path, times: &BTreeMap<PathBuf, Seen>) -> io::Result<()> {
    let lines = times.iter().filter_map(|(path, Seen { time, hash })| {
        let path = path.to_str().filter(|path| !path.contains('\n'))?;
        Some(format!("{} {} {hash} {path}\n", time.as_secs(), time.subsec_nanos()))
    });
    let new = file.with_extension("new");
    fs::write(&new, lines.collect::<String>())?;
    fs::rename(new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Duration = Duration::from_secs(1_000_000_000);

    struct Scene {
        shared: tempfile::TempDir,
        root: tempfile::TempDir,
    }

    impl Scene {
        /// A checkout with a file and a folder that were seen at an earlier time.
        fn new() -> Self {
            let scene =
                Self { shared: tempfile::tempdir().unwrap(), root: tempfile::tempdir().unwrap() };
            scene.clone_again("content");
            for path in ["folder/file", "folder", "ci/start/file", "ci"] {
                scene.age(path);
            }
            scene.restore();
            scene
        }

        /// Makes the checkout anew.
        fn clone_again(&self, content: &str) {
            fs::remove_dir_all(self.root.path()).unwrap();
            for folder in ["folder", "ci/start"] {
                fs::create_dir_all(self.root.path().join(folder)).unwrap();
                fs::write(self.root.path().join(folder).join("file"), content).unwrap();
            }
        }

        fn age(&self, path: &str) {
            let times = FileTimes::new().set_modified(UNIX_EPOCH + OLD);
            File::open(self.root.path().join(path)).unwrap().set_times(times).unwrap();
        }

        fn restore(&self) {
            restore(self.shared.path(), self.root.path()).unwrap();
        }

        fn is_old(&self, path: &str) -> bool {
            time(&self.root.path().join(path)).unwrap() == OLD
        }
    }

    #[test]
    fn a_new_clone_has_the_times_of_the_same_content() {
        let scene = Scene::new();
        scene.clone_again("content");
        assert!(!scene.is_old("folder/file") && !scene.is_old("folder"));
        scene.restore();
        assert!(scene.is_old("folder/file") && scene.is_old("folder") && scene.is_old("ci"));
        assert!(!scene.is_old("ci/start/file"), "it is compiled in the checkout");
    }

    #[test]
    fn a_changed_file_has_its_own_time_and_keeps_it() {
        let scene = Scene::new();
        scene.clone_again("other");
        scene.restore();
        assert!(!scene.is_old("folder/file") && scene.is_old("folder"));
        let changed = time(&scene.root.path().join("folder/file")).unwrap();
        scene.clone_again("other");
        scene.restore();
        assert_eq!(time(&scene.root.path().join("folder/file")).unwrap(), changed);
        scene.clone_again("content");
        scene.restore();
        assert!(!scene.is_old("folder/file"), "it was compiled with another content since");
    }

    #[test]
    fn a_folder_with_another_file_has_its_own_time() {
        let scene = Scene::new();
        scene.clone_again("content");
        fs::write(scene.root.path().join("folder/second"), "").unwrap();
        scene.restore();
        assert!(scene.is_old("folder/file") && !scene.is_old("folder"));
    }

    #[test]
    fn a_checkout_where_cargo_has_compiled_keeps_its_times() {
        for (fingerprint, expected) in [("start-00d1", true), ("osbuild-00d1", false)] {
            let scene = Scene::new();
            scene.clone_again("content");
            let own = scene.root.path().join("target/debug/.fingerprint").join(fingerprint);
            fs::create_dir_all(own).unwrap();
            scene.restore();
            assert_eq!(scene.is_old("folder/file"), expected, "{fingerprint}");
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_left_out() {
        let scene = Scene::new();
        scene.clone_again("content");
        std::os::unix::fs::symlink("/nonexistent", scene.root.path().join("folder/link")).unwrap();
        scene.restore();
        assert!(scene.is_old("folder/file") && !scene.is_old("folder"));
    }

    #[test]
    fn times_that_cannot_be_read_are_forgotten() {
        let scene = Scene::new();
        fs::write(scene.shared.path().join(TIMES), "1 2 x folder/file\n\u{fffd}").unwrap();
        scene.clone_again("content");
        scene.restore();
        assert!(!scene.is_old("folder/file"));
    }
}
