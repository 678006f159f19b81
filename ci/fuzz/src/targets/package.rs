//! Debian packages that are unpacked into the sandbox's root, with paths and links that lead out of
//! it.

use std::fs;
use std::io::{self, Cursor};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use osbuild::engine::sandbox::Root;
use tar::{EntryType, Header};
use tempfile::TempDir;

use super::deb;
use crate::target::{Memory, Outcome, Target};

/// See the module. An input is entries of a tar file: one byte with the type, one with the mode,
/// then path, link and content, each after one byte with its length. In path and link the byte 1
/// stands for the absolute path of a folder beside the root.
pub const TARGET: Target =
    Target { name: "package", seeds, run, memory: Memory { base: 4 << 20, per_byte: 1024 } };

const KINDS: [EntryType; 5] = [
    EntryType::Regular,
    EntryType::Directory,
    EntryType::Symlink,
    EntryType::Link,
    EntryType::GNULongName,
];
const FILE: u8 = 0;
const FOLDER: u8 = 1;
const SYMLINK: u8 = 2;
const LINK: u8 = 3;

fn run(input: &[u8]) -> Outcome {
    let scene = Scene::new().expect("temporary files can be made");
    let data = scene.tar(input);
    let package = deb::package(&[("data.tar", &data)]);
    let root = scene.folder.path().join("root");
    let done = Root::begin(&root).and_then(|root| {
        root.unpack(Cursor::new(package))?;
        root.finish()
    });
    scene.beside_is_unchanged();
    if done.is_ok() {
        assert!(root.join("build").symlink_metadata().is_ok());
        has_no_special_files(&root).expect("the root can be read");
    }
    Outcome::of(&done)
}

/// A root, and a folder beside it that must not change.
struct Scene {
    folder: TempDir,
    beside: String,
}

impl Scene {
    fn new() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let beside = folder.path().join("beside");
        fs::create_dir(folder.path().join("root"))?;
        fs::create_dir(&beside)?;
        fs::write(beside.join("passwd"), "secret")?;
        Ok(Scene { beside: beside.to_string_lossy().into_owned(), folder })
    }

    fn beside_is_unchanged(&self) {
        let names = |path: &Path| {
            let mut names: Vec<_> = fs::read_dir(path)
                .expect("it exists")
                .flatten()
                .map(|entry| entry.file_name())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names(self.folder.path()), ["beside", "root"]);
        let beside = Path::new(&self.beside);
        assert_eq!(names(beside), ["passwd"]);
        let passwd = beside.join("passwd");
        assert_eq!(
            (
                fs::read(&passwd).expect("it exists").as_slice(),
                fs::metadata(&passwd).map(|it| it.nlink()).ok()
            ),
            (&b"secret"[..], Some(1))
        );
    }

    /// The tar file with the complete entries of an input.
    fn tar(&self, mut input: &[u8]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        while let Some(([kind, mode], rest)) = input.split_first_chunk() {
            let (Some((path, rest)), mut header) = (field(rest), Header::new_gnu()) else { break };
            let Some((link, rest)) = field(rest) else { break };
            let Some((content, rest)) = field(rest) else { break };
            input = rest;
            let gnu = header.as_gnu_mut().expect("the header is a GNU header");
            put(&mut gnu.name, &self.placed(path));
            put(&mut gnu.linkname, &self.placed(link));
            header.set_entry_type(KINDS[usize::from(*kind) % KINDS.len()]);
            header.set_mode(u32::from(*mode) << 4);
            header.set_size(content.len() as u64);
            header.set_mtime(1);
            header.set_cksum();
            tar.append(&header, content).expect("memory can be written");
        }
        tar.into_inner().expect("memory can be written")
    }

    fn placed(&self, name: &[u8]) -> Vec<u8> {
        name.iter()
            .flat_map(
                |byte| if *byte == 1 { self.beside.as_bytes() } else { std::slice::from_ref(byte) },
            )
            .copied()
            .collect()
    }
}

fn field(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = input.split_first()?;
    rest.split_at_checked((*length).into())
}

fn put(field: &mut [u8], bytes: &[u8]) {
    let length = bytes.len().min(field.len());
    field[..length].copy_from_slice(&bytes[..length]);
}

/// The folder holds only files, folders and links, none with a set-user-id, set-group-id or sticky
/// bit.
fn has_no_special_files(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let about = entry.metadata()?;
        assert!(about.is_dir() || about.is_file() || about.is_symlink(), "{:?}", entry.path());
        assert_eq!(about.mode() & 0o7000, 0, "{:?}", entry.path());
        if about.is_dir() {
            has_no_special_files(&entry.path())?;
        }
    }
    Ok(())
}

fn seeds() -> Vec<Vec<u8>> {
    let entry = |kind: u8, path: &str, link: &str, content: &str| {
        let mut entry = vec![kind, 0xFF];
        for field in [path, link, content] {
            entry.push(field.len() as u8);
            entry.extend(field.bytes());
        }
        entry
    };
    let file = |path: &str| entry(FILE, path, "", "content");
    let link = |path: &str, to: &str| entry(SYMLINK, path, to, "");
    vec![
        [
            entry(FOLDER, "./usr/bin/", "", ""),
            file("./usr/bin/mawk"),
            link("./usr/bin/x", "/bin/mawk"),
            entry(LINK, "./y", "./bin/x", ""),
        ]
        .concat(),
        [link("./a", "\u{1}"), file("./a/passwd")].concat(),
        [link("./etc", "../beside"), file("./etc/passwd")].concat(),
        [link("./etc/passwd", "\u{1}/passwd"), entry(LINK, "./z", "./etc/passwd", "")].concat(),
        [file("../beside/new"), file("\u{1}/new")].concat(),
        [link("./usr/bin/cc", "\u{1}/new"), file("./usr/bin/gcc")].concat(),
    ]
}
