//! The files that a user gives to a node: a folder of this host that is laid out like the node's
//! root. Only files below paths that are stored on DATA are accepted.

use crate::error::{Context, Error, Kind, Problem, Result, in_words};
use crate::plan::{Backing as Storage, WritablePath};
use osbuild_abi::declared::DATA_FOLDER;
use osbuild_abi::paths::NODE_DOCUMENT;
use osbuild_abi::writable::{Backing, WRITABLE};
use std::fmt;
use std::fs::{self, File, FileType};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Mode of the folder of DATA that holds the folders of declared paths, as `init` makes it.
const DECLARED_MODE: u32 = 0o700;

/// The files and folders to place on DATA. Paths are relative to its root, and parents precede
/// their children.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFiles {
    /// The folders. One that exists on DATA stays as it is.
    pub folders: Vec<NodeFolder>,
    /// The files. They replace files of the same path.
    pub files: Vec<NodeFile>,
}

/// A folder for DATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFolder {
    /// Its path on DATA.
    pub path: String,
    /// Its permission bits.
    pub mode: u32,
}

/// The content of a file for DATA.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// A file of this host, whose permission bits it gets.
    File(PathBuf),
    /// A text. Only root may read the file.
    Text(String),
}

impl fmt::Debug for Content {
    /// A node document may have secrets, which no message may show.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::File(source) => f.debug_tuple("File").field(source).finish(),
            Content::Text(_) => f.write_str("Text"),
        }
    }
}

/// A file for DATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFile {
    /// Its content.
    pub content: Content,
    /// The folder on DATA.
    pub folder: String,
    /// Its name in that folder.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
}

impl NodeFile {
    /// Its path on DATA.
    pub fn path(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }
}

/// A path of the node that is stored on DATA.
struct Place {
    /// The path on the node.
    path: String,
    /// The folder on DATA.
    folder: String,
    /// Permission bits of that folder.
    mode: u32,
}

impl NodeFiles {
    /// Reads the folder `root` for a node whose recipe declares these writable paths.
    ///
    /// # Errors
    /// An entry cannot be placed. All such entries are reported at once.
    pub fn read(root: &Path, declared: &[WritablePath]) -> Result<Self> {
        let shown = root.display();
        if !root.is_dir() {
            let what = if root.exists() { "is not a folder" } else { "does not exist" };
            return Err(Error::usage(format!("`{shown}` {what}"))
                .hint("`--files` takes a folder that is laid out like the node's root"));
        }
        let mut reader =
            Reader { places: places(declared), found: NodeFiles::default(), problems: Vec::new() };
        reader.folder(root, "")?;
        let Reader { places, found, mut problems } = reader;
        if found.files.is_empty() && problems.is_empty() {
            problems.push(Problem::new(format!("`{shown}` has no files")));
        }
        let Some(last) = problems.pop() else { return Ok(found) };
        let places = in_words(places.iter().map(|place| place.path.as_str()));
        problems.push(last.hint(format!("files go below {places}, as in `{shown}{EXAMPLE}`")));
        Err(Error::many(Kind::Usage, problems))
    }

    /// The text of a node document, for its place on DATA. It is the text that was checked: a pipe
    /// can be read only once, and the file may change during the build.
    pub fn document(text: String) -> Self {
        let (folder, name) = NODE_DOCUMENT.rsplit_once('/').unwrap_or_default();
        let place = places(&[]).into_iter().find(|place| place.path == folder);
        let Place { folder, mode, .. } = place.expect("the folder of the document is on DATA");
        let file = NodeFile {
            size: text.len() as u64,
            content: Content::Text(text),
            folder: folder.clone(),
            name: name.to_owned(),
        };
        NodeFiles { folders: vec![NodeFolder { path: folder, mode }], files: vec![file] }
    }

    /// These files and `more`, which replace those of the same path.
    pub fn and(mut self, more: NodeFiles) -> Self {
        let known = |folder: &NodeFolder| self.folders.iter().any(|one| one.path == folder.path);
        let new: Vec<_> = more.folders.into_iter().filter(|folder| !known(folder)).collect();
        self.folders.extend(new);
        self.files.retain(|file| !more.files.iter().any(|one| one.path() == file.path()));
        self.files.extend(more.files);
        self
    }

    /// Whether a file is placed at this path of DATA.
    pub fn has(&self, path: &str) -> bool {
        self.files.iter().any(|file| path == file.path())
    }

    /// The sum of the files' sizes in bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}

/// The end of a path that shows the layout.
const EXAMPLE: &str = "/etc/kubernetes/kubelet.conf.d/50-own.conf";

/// The paths that are stored on DATA.
fn places(declared: &[WritablePath]) -> Vec<Place> {
    let table = WRITABLE.iter().filter_map(|row| match row.backing {
        Backing::Data(folder) => {
            Some(Place { path: row.path.to_owned(), folder: folder.to_owned(), mode: row.mode })
        }
        Backing::DataFile(_) | Backing::Memory(_) => None,
    });
    let declared = declared.iter().filter_map(|row| match &row.backing {
        Storage::Data(folder) => Some(Place {
            path: row.path.clone(),
            folder: format!("{DATA_FOLDER}/{folder}"),
            mode: row.mode,
        }),
        Storage::Memory(_) => None,
    });
    table.chain(declared).collect()
}

struct Reader {
    places: Vec<Place>,
    found: NodeFiles,
    problems: Vec<Problem>,
}

impl Reader {
    /// Reads the folder `source`, which has the path `path` on the node.
    fn folder(&mut self, source: &Path, path: &str) -> Result<()> {
        let cannot = || format!("cannot read `{}`", source.display());
        let entries = fs::read_dir(source).or_build(cannot)?;
        let mut entries = entries.collect::<std::io::Result<Vec<_>>>().or_build(cannot)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (source, kind) = (entry.path(), entry.file_type().or_build(cannot)?);
            match entry.file_name().to_str() {
                Some(name) if is_plain(name) => {
                    self.entry(source, &format!("{path}/{name}"), kind)?;
                }
                Some(_) => self.problem(&source, "has a name with quotes or control characters"),
                None => self.problem(&source, "has a name that is not UTF-8"),
            }
        }
        Ok(())
    }

    fn entry(&mut self, source: PathBuf, path: &str, kind: FileType) -> Result<()> {
        if kind.is_dir() {
            if self.leads_to_a_place(path) || self.add_folder(&source, path)? {
                return self.folder(&source, path);
            }
        } else if let Some(what) = special(kind) {
            self.problem(&source, &format!("is {what}: only files and folders can be placed"));
            return Ok(());
        } else if self.add_file(&source, path)? {
            return Ok(());
        }
        self.problem(&source, &format!("cannot be placed: the node does not store `{path}`"));
        Ok(())
    }

    /// Whether `path` is above a place.
    fn leads_to_a_place(&self, path: &str) -> bool {
        let is_below =
            |place: &Place| place.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        self.places.iter().any(is_below)
    }

    /// Adds a folder, and returns whether a place holds it. The folder of a place has the mode that
    /// the node gives to it.
    fn add_folder(&mut self, source: &Path, path: &str) -> Result<bool> {
        let Some((place, on_data)) = self.on_data(path) else { return Ok(false) };
        let mode = if place.path == path { place.mode } else { mode(source)? };
        if place.path == path && on_data.starts_with(DATA_FOLDER) {
            let above = NodeFolder { path: DATA_FOLDER.to_owned(), mode: DECLARED_MODE };
            if !self.found.folders.contains(&above) {
                self.found.folders.push(above);
            }
        }
        self.found.folders.push(NodeFolder { path: on_data, mode });
        Ok(true)
    }

    /// Adds a file, and returns whether a place holds it.
    fn add_file(&mut self, source: &Path, path: &str) -> Result<bool> {
        let Some((_, on_data)) = self.on_data(path) else { return Ok(false) };
        let Some((folder, name)) = on_data.rsplit_once('/') else { return Ok(false) };
        match File::open(source).and_then(|file| file.metadata()) {
            Ok(about) => self.found.files.push(NodeFile {
                content: Content::File(source.to_owned()),
                folder: folder.to_owned(),
                name: name.to_owned(),
                size: about.len(),
            }),
            Err(error) => self.problem(source, &format!("cannot be read: {error}")),
        }
        Ok(true)
    }

    /// The place that holds `path`, and the path on DATA.
    fn on_data(&self, path: &str) -> Option<(&Place, String)> {
        self.places.iter().find_map(|place| {
            let rest = path.strip_prefix(&place.path)?;
            (rest.is_empty() || rest.starts_with('/'))
                .then(|| (place, format!("{}{rest}", place.folder)))
        })
    }

    fn problem(&mut self, source: &Path, what: &str) {
        self.problems.push(Problem::new(format!("`{}` {what}", source.display())));
    }
}

/// Whether debugfs can take the name.
fn is_plain(name: &str) -> bool {
    !name.contains(|c: char| c.is_control() || c == '"')
}

/// The kind of an entry that is neither a file nor a folder.
fn special(kind: FileType) -> Option<&'static str> {
    match kind {
        _ if kind.is_symlink() => Some("a symbolic link"),
        _ if kind.is_fifo() => Some("a FIFO"),
        _ if kind.is_socket() => Some("a socket"),
        _ if kind.is_file() => None,
        _ => Some("a device"),
    }
}

fn mode(path: &Path) -> Result<u32> {
    let about = fs::metadata(path).or_build(|| format!("cannot read `{}`", path.display()))?;
    Ok(about.permissions().mode() & 0o7777)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    fn declared() -> Vec<WritablePath> {
        let row = |path: &str, backing| WritablePath {
            path: path.into(),
            backing,
            mode: 0o1777,
            exec: false,
        };
        vec![
            row("/var/lib/longhorn", Storage::Data("longhorn".into())),
            row("/srv", Storage::Memory(16)),
        ]
    }

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        root
    }

    fn refusal(root: &Path) -> String {
        let error = NodeFiles::read(root, &declared()).unwrap_err();
        assert_eq!(error.kind, Kind::Usage);
        error.to_string().replace(&root.display().to_string(), "DIR")
    }

    #[test]
    fn files_go_to_the_folders_of_data() {
        let root = tree(&["etc/kubernetes/kubelet.conf.d/a.conf", "var/lib/longhorn/x y"]);
        let folder = root.path().join("etc/kubernetes/kubelet.conf.d");
        fs::set_permissions(folder, PermissionsExt::from_mode(0o711)).unwrap();
        let found = NodeFiles::read(root.path(), &declared()).unwrap();
        let folders: Vec<_> =
            found.folders.iter().map(|folder| (folder.path.as_str(), folder.mode)).collect();
        assert_eq!(
            folders,
            [
                ("kubernetes", 0o700),
                ("kubernetes/kubelet.conf.d", 0o711),
                ("declared", 0o700),
                ("declared/longhorn", 0o1777),
            ]
        );
        let files: Vec<_> =
            found.files.iter().map(|file| (file.folder.as_str(), file.name.as_str())).collect();
        assert_eq!(files, [("kubernetes/kubelet.conf.d", "a.conf"), ("declared/longhorn", "x y")]);
        assert_eq!(found.size(), 56);
    }

    #[test]
    fn files_of_two_folders_are_placed_together() {
        let first = tree(&["etc/kubernetes/kubeadm.yaml", "etc/kubernetes/pki/ca.crt"]);
        let second = tree(&["etc/kubernetes/pki/ca.crt", "var/lib/longhorn/x"]);
        let read = |root: &tempfile::TempDir| NodeFiles::read(root.path(), &declared()).unwrap();
        let both = read(&first).and(read(&second));
        assert!(both.has("kubernetes/kubeadm.yaml") && both.has("declared/longhorn/x"));
        assert!(!both.has("kubernetes/other.yaml"));
        let folders: Vec<_> = both.folders.iter().map(|folder| folder.path.as_str()).collect();
        assert_eq!(folders, ["kubernetes", "kubernetes/pki", "declared", "declared/longhorn"]);
        let [ca]: [&NodeFile; 1] = both
            .files
            .iter()
            .filter(|file| file.path() == "kubernetes/pki/ca.crt")
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        let of_second = second.path().join("etc/kubernetes/pki/ca.crt");
        assert_eq!(ca.content, Content::File(of_second), "the last one replaces the first");
    }

    #[test]
    fn a_node_document_goes_to_its_place_and_is_never_shown() {
        let found = NodeFiles::document("a secret".to_owned());
        assert_eq!(found.folders, [NodeFolder { path: "osbuild".to_owned(), mode: 0o700 }]);
        assert!(found.has("osbuild/node.toml") && found.files[0].size == 8, "{found:?}");
        assert!(!format!("{found:?}").contains("secret"));
    }

    #[test]
    fn all_files_outside_the_places_are_reported_with_the_places() {
        let root = tree(&["etc/passwd", "run/x/y", "srv/a", "etc/machine-id", "opt/cni/bin"]);
        let error = refusal(root.path());
        for path in ["/etc/passwd", "/run", "/srv", "/etc/machine-id", "/opt/cni/bin"] {
            let line =
                format!("error: `DIR{path}` cannot be placed: the node does not store `{path}`\n");
            assert!(error.contains(&line), "{path}: {error}");
        }
        assert!(error.contains("`/etc/kubernetes`, `/etc/containerd/certs.d`"), "{error}");
        assert!(error.contains(" and `/var/lib/longhorn`"), "{error}");
        assert_eq!(error.matches("hint: ").count(), 1);
    }

    #[test]
    fn only_files_and_folders_are_accepted() {
        let root = tree(&["etc/kubernetes/a"]);
        let place = root.path().join("etc/kubernetes");
        symlink("a", place.join("link")).unwrap();
        symlink("/etc", root.path().join("opt")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place.join("socket")).unwrap();
        fs::write(place.join("a\nb"), "").unwrap();
        fs::write(place.join("a\"b"), "").unwrap();
        fs::write(place.join(OsStr::from_bytes(b"caf\xe9")), "").unwrap();
        let error = refusal(root.path());
        assert!(error.contains("`DIR/etc/kubernetes/link` is a symbolic link: only"), "{error}");
        assert!(error.contains("`DIR/opt` is a symbolic link: only"), "{error}");
        assert!(error.contains("`DIR/etc/kubernetes/socket` is a socket: only"), "{error}");
        assert_eq!(error.matches("has a name with quotes or control").count(), 2);
        assert_eq!(error.matches("has a name that is not UTF-8").count(), 1);
        assert_eq!(special(fs::metadata("/dev/null").unwrap().file_type()), Some("a device"));
    }

    #[test]
    fn a_folder_without_files_and_no_folder_are_refused() {
        let root = tempfile::tempdir().unwrap();
        assert!(refusal(root.path()).starts_with("error: `DIR` has no files\nhint: "));
        assert!(refusal(&root.path().join("none")).starts_with("error: `DIR` does not exist\n"));
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(refusal(&file).starts_with("error: `DIR` is not a folder\n"));
    }
}
