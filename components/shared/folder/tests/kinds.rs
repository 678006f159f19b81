//! Each operation of a `Folder` against each type of file in its way.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use osbuild_folder::{Folder, MAX_KEPT};
use rustix::fs::{CWD, FileType, IFlags, Mode, ioctl_getflags, ioctl_setflags, mkfifoat, mknodat};
use tempfile::TempDir;

/// The contents of a file that must not be followed, read or written.
const SECRET: &str = "somebody else's";

/// A folder, and beside it a file that no link may reach.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(place.path("data")).unwrap();
        fs::write(place.path("secret"), SECRET).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn folder(&self) -> Folder {
        Folder::open(&self.path("data"), "aside").unwrap()
    }

    fn kept(&self) -> Vec<String> {
        let names = fs::read_dir(self.path("data/aside")).unwrap();
        names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "discarded")
            .collect()
    }
}

/// Nothing can be removed while it is immutable, so the temporary folder would stay.
impl Drop for Place {
    fn drop(&mut self) {
        let folders = ["data", "data/aside", "data/aside/discarded"].map(|name| self.path(name));
        for entry in folders.into_iter().filter_map(|path| fs::read_dir(path).ok()).flatten() {
            let kind = entry.as_ref().ok().and_then(|entry| entry.file_type().ok());
            if let (Ok(entry), Some(true)) =
                (entry, kind.map(|kind| kind.is_file() || kind.is_dir()))
            {
                let file = fs::File::open(entry.path()).unwrap();
                if let Ok(flags) = ioctl_getflags(&file) {
                    let _ = ioctl_setflags(&file, flags - IFlags::IMMUTABLE);
                }
            }
        }
    }
}

/// An obstacle: its name, a function that makes it, and whether it is moved aside where a file is
/// needed.
type Kind = (&'static str, fn(&Place, &Path) -> bool, bool);

const KINDS: &[Kind] = &[
    ("a file", |_, path| fs::write(path, "before").is_ok(), false),
    (
        "a file without permissions",
        |_, path| fs::write(path, "before").and_then(|()| mode(path, 0)).is_ok(),
        false,
    ),
    ("an immutable file", |_, path| fs::write(path, "before").is_ok() && immutable(path), false),
    ("a hard link", |place, path| fs::hard_link(place.path("secret"), path).is_ok(), false),
    ("a folder", |_, path| fs::create_dir(path).is_ok(), true),
    ("a folder with something in it", |_, path| fs::create_dir_all(path.join("a/b")).is_ok(), true),
    (
        "a folder without permissions",
        |_, path| fs::create_dir(path).and_then(|()| mode(path, 0)).is_ok(),
        true,
    ),
    ("an immutable folder", |_, path| fs::create_dir(path).is_ok() && immutable(path), true),
    ("a FIFO", |_, path| mkfifoat(CWD, path, Mode::from_raw_mode(0o666)).is_ok(), true),
    ("a socket", |_, path| UnixListener::bind(path).is_ok(), true),
    ("a link to a file", |place, path| symlink(place.path("secret"), path).is_ok(), true),
    ("a link to a folder", |_, path| symlink("/proc", path).is_ok(), true),
    ("a dangling link", |_, path| symlink("nowhere", path).is_ok(), true),
    ("a link to itself", |_, path| symlink(path.file_name().unwrap(), path).is_ok(), true),
    ("a magic link", |_, path| symlink("/proc/self/fd/0", path).is_ok(), true),
    (
        "a character device",
        |_, path| mknodat(CWD, path, FileType::CharacterDevice, 0o666.into(), 0x103).is_ok(),
        true,
    ),
    (
        "a block device",
        |_, path| mknodat(CWD, path, FileType::BlockDevice, 0o666.into(), 0x700).is_ok(),
        true,
    ),
];

fn mode(path: &Path, bits: u32) -> std::io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(bits))
}

/// Needs a file system with attributes, and the right to set them.
fn immutable(path: &Path) -> bool {
    let file = fs::File::open(path).unwrap();
    match ioctl_getflags(&file).and_then(|flags| ioctl_setflags(&file, flags | IFlags::IMMUTABLE)) {
        Ok(()) => true,
        Err(_) => {
            // A plain obstacle of this kind has been tried already.
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
            false
        }
    }
}

/// Runs a check with each obstacle that this machine can make. The target of a link must stay
/// untouched.
fn each(what: impl Fn(&Place, &Folder, &str)) {
    let mut made = 0;
    for (name, make, is_moved) in KINDS {
        let place = Place::new();
        let folder = place.folder();
        if !make(&place, &place.path("data/it")) {
            continue;
        }
        made += 1;
        what(&place, &folder, name);
        assert_eq!(fs::read_to_string(place.path("secret")).unwrap(), SECRET, "{name}");
        if !place.path("data/it").is_dir() {
            assert!(place.kept().len() <= usize::from(*is_moved), "{name}: {:?}", place.kept());
        }
    }
    // Only devices and attributes need privileges.
    assert!(made >= KINDS.len() - 4, "{made}");
}

#[test]
fn a_file_is_made_despite_any_obstacle() {
    each(|place, folder, name| {
        folder.create("it", 0o640).unwrap().write_all(b"ours").unwrap();
        assert_eq!(fs::read_to_string(place.path("data/it")).unwrap(), "ours", "{name}");
        assert_eq!(fs::metadata(place.path("data/it")).unwrap().mode() & 0o777, 0o640, "{name}");
    });
}

#[test]
fn a_file_is_replaced_despite_any_obstacle() {
    each(|place, folder, name| {
        folder.replace("it", b"ours", 0o444).unwrap();
        assert_eq!(fs::read_to_string(place.path("data/it")).unwrap(), "ours", "{name}");
        assert_eq!(
            folder.names().unwrap().len(),
            2,
            "{name}: only it and the folder of what was in the way"
        );
    });
    each(|place, folder, name| {
        fs::rename(place.path("data/it"), place.path("data/.other.new")).unwrap_or_default();
        folder.replace("other", b"ours", 0o444).unwrap();
        assert_eq!(fs::read_to_string(place.path("data/other")).unwrap(), "ours", "{name}");
    });
}

#[test]
fn a_file_is_renamed_despite_any_obstacle() {
    each(|place, folder, name| {
        fs::write(place.path("data/new"), "ours").unwrap();
        folder.rename("new", "it").unwrap();
        assert_eq!(fs::read_to_string(place.path("data/it")).unwrap(), "ours", "{name}");
    });
}

#[test]
fn a_file_is_gone_or_aside_once_it_is_removed() {
    each(|place, folder, name| {
        folder.remove("it").unwrap();
        assert!(place.path("data/it").symlink_metadata().is_err(), "{name}");
    });
}

#[test]
fn a_folder_is_made_despite_any_obstacle() {
    each(|place, folder, name| {
        let made = folder.folder("it", 0o750).unwrap();
        made.create("in it", 0o600).unwrap();
        assert!(
            place.path("data/it/in it").is_file() && !place.path("data/it").is_symlink(),
            "{name}"
        );
        assert_eq!(fs::metadata(place.path("data/it")).unwrap().mode() & 0o777, 0o750, "{name}");
        assert!(made.magic_path().join("in it").is_file());
    });
}

#[test]
fn only_a_regular_file_is_read_and_reading_never_blocks() {
    each(|_, folder, name| {
        let read = folder.read_text("it", 100);
        match name {
            "a file" | "a file without permissions" | "an immutable file" => {
                assert_eq!(read.unwrap().as_deref(), Some("before"))
            }
            "a hard link" => assert_eq!(read.unwrap().as_deref(), Some(SECRET)),
            _ => assert!(read.is_err(), "{name}"),
        }
    });
}

#[test]
fn only_a_regular_file_is_opened_for_writing() {
    let place = Place::new();
    let folder = place.folder();
    for text in ["one", "two"] {
        let mut file = folder.open_or_create("clock", 0o644).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
    let mut text = String::new();
    folder.file("clock").unwrap().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "two");
    each(|place, folder, name| {
        if !name.ends_with("file") && name != "a hard link" && name != "a file without permissions"
        {
            folder.open_or_create("it", 0o644).unwrap();
            assert!(place.path("data/it").symlink_metadata().unwrap().is_file(), "{name}");
        }
    });
}

#[test]
fn the_aside_folder_is_made_despite_any_obstacle() {
    for (name, make, _) in KINDS.iter().filter(|(name, ..)| !name.contains("folder")) {
        let place = Place::new();
        if make(&place, &place.path("data/aside")) && *name != "an immutable file" {
            place.folder().create("it", 0o600).unwrap();
            assert!(place.path("data/aside").symlink_metadata().unwrap().is_dir(), "{name}");
        }
    }
}

#[test]
fn an_entry_moved_aside_is_kept() {
    let place = Place::new();
    symlink("nowhere", place.path("data/a link")).unwrap();
    place.folder().create("a link", 0o600).unwrap();
    assert_eq!(fs::read_link(place.path("data/aside/0-a link")).unwrap(), Path::new("nowhere"));
}

#[test]
fn a_name_of_any_length_is_moved_aside() {
    let place = Place::new();
    for name in ["x".repeat(255), "ä".repeat(127)] {
        fs::create_dir(place.path("data").join(&name)).unwrap();
        place.folder().move_aside(&name).unwrap();
        assert!(!place.path("data").join(&name).exists());
    }
    let no_text = OsStr::from_bytes(b"\xff.conf");
    fs::write(place.path("data").join(no_text), "").unwrap();
    assert!(place.folder().names().unwrap().contains(&no_text.to_owned()));
    place.folder().move_aside(no_text).unwrap();
    assert_eq!(place.kept().len(), 3);
}

#[test]
fn a_name_that_is_a_path_is_refused() {
    let place = Place::new();
    let folder = place.folder();
    for name in ["", ".", "..", "../secret", "/etc/passwd", "a/b", "a\0b"] {
        assert!(
            folder.create(name, 0o600).is_err()
                && folder.read(name, 10).is_err()
                && folder.folder(name, 0o700).is_err()
        );
        assert!(
            folder.move_aside(name).is_err()
                && folder.remove(name).is_err()
                && folder.rename("x", name).is_err()
        );
    }
}

#[test]
fn a_folder_with_a_link_in_its_path_is_not_opened() {
    let place = Place::new();
    symlink(place.path("data"), place.path("link")).unwrap();
    fs::create_dir(place.path("data/deeper")).unwrap();
    assert!(Folder::open(&place.path("link"), "aside").is_err());
    assert!(Folder::open(&place.path("link/deeper"), "aside").is_err());
    assert!(Folder::open(&place.path("data/deeper"), "aside").is_ok());
}

#[test]
fn a_file_that_is_too_long_is_not_read() {
    let place = Place::new();
    fs::File::create(place.path("data/long")).unwrap().set_len(1 << 40).unwrap();
    assert!(
        place.folder().read("long", 4096).unwrap_err().to_string().contains("more than 4096 bytes")
    );
    assert_eq!(place.folder().read("none", 4096).unwrap(), None);
}

#[test]
fn tidying_keeps_the_newest_entries_and_no_discarded_ones() {
    let place = Place::new();
    let folder = place.folder();
    assert!(!folder.is_untidy());
    for _ in 0..MAX_KEPT + 3 {
        fs::create_dir_all(place.path("data/it/a")).unwrap();
        folder.move_aside("it").unwrap();
    }
    fs::create_dir_all(place.path("data/large/a/b")).unwrap();
    symlink(place.path("secret"), place.path("data/large/link")).unwrap();
    folder.discard("large").unwrap();
    folder.discard("not there").unwrap();
    assert!(!place.path("data/large").exists() && folder.is_untidy());
    folder.tidy().unwrap();
    let mut kept: Vec<u32> =
        place.kept().iter().map(|name| name.split('-').next().unwrap().parse().unwrap()).collect();
    kept.sort_unstable();
    assert_eq!((kept.len(), kept[0]), (MAX_KEPT, 3));
    assert_eq!(fs::read_dir(place.path("data/aside/discarded")).unwrap().count(), 0);
    assert!(!folder.is_untidy() && fs::read_to_string(place.path("secret")).unwrap() == SECRET);
}

#[test]
fn the_numbers_of_a_folder_that_is_open_twice_are_in_order() {
    let place = Place::new();
    let folders = [place.folder(), place.folder()];
    for number in 0..8 {
        let name = ["a", "b"][number % 2];
        fs::create_dir(place.path("data").join(name)).unwrap();
        folders[number % 2].move_aside(name).unwrap();
    }
    let mut kept = place.kept();
    kept.sort();
    let name = |number: usize| format!("{number}-{}", ["a", "b"][number % 2]);
    assert_eq!(kept, (0..8).map(name).collect::<Vec<_>>());
}

#[test]
fn numbers_that_another_process_has_taken_are_left_out() {
    let place = Place::new();
    let folder = place.folder();
    for number in 0..8 {
        fs::create_dir(place.path("data/it")).unwrap();
        folder.move_aside("it").unwrap();
        if number == 3 {
            fs::write(place.path("data/aside/4-it"), "").unwrap();
        }
    }
    let mut kept = place.kept();
    kept.sort();
    assert_eq!(kept, (0..9).map(|number| format!("{number}-it")).collect::<Vec<_>>());
}

#[test]
fn the_kind_of_a_fifo_is_not_that_of_a_file() {
    let place = Place::new();
    mkfifoat(CWD, place.path("data/it"), Mode::from_raw_mode(0o600)).unwrap();
    assert_eq!(place.folder().kind("it").unwrap(), Some(FileType::Fifo));
    assert!(fs::symlink_metadata(place.path("data/it")).unwrap().file_type().is_fifo());
    assert_eq!(place.folder().kind("none").unwrap(), None);
}
