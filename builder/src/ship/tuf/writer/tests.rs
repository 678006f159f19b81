use super::*;
use crate::produce::sign::ReleaseKey;
use crate::ship::tuf::sign_root;

const UNTIL: Date = Date { year: 2036, month: 11, day: 21 };

struct Lab {
    folder: tempfile::TempDir,
    key: Arc<dyn ReleaseSigner>,
    root: Root,
}

impl Lab {
    fn new() -> Self {
        let (key, root): (Arc<dyn ReleaseSigner>, _) =
            (Arc::new(ReleaseKey::generate().unwrap()), ReleaseKey::generate().unwrap());
        let root = sign_root(UNTIL, &(Arc::new(root) as _), key.public(), None).unwrap();
        Lab { folder: tempfile::tempdir().unwrap(), key, root }
    }

    fn repository(&self) -> Repository {
        Repository::at(self.folder.path())
    }

    fn client(&self) -> Client {
        self.repository().read(&self.root, None).unwrap()
    }

    /// Publishes a target with this name, in place of the dropped ones.
    fn publish(&self, name: &str, dropped: &[&str]) {
        let change = Change {
            put: BTreeMap::from([(name.to_owned(), name.as_bytes())]),
            dropped: dropped.iter().map(|name| (*name).to_owned()).collect(),
        };
        let repository = self.repository();
        let writer = repository.writer(|| ()).unwrap();
        let before = repository.exists().then(|| self.client());
        writer.publish(std::slice::from_ref(&self.root), &self.key, UNTIL, &change).unwrap();
        if !dropped.is_empty() {
            writer.sweep(before.as_ref(), &self.client()).unwrap();
        }
    }

    fn files(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path().join(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn the_metadata_version_of_an_interrupted_release_is_not_reused() {
    let lab = Lab::new();
    lab.publish("one", &[]);
    let left = lab.folder.path().join(METADATA).join("2.targets.json");
    fs::write(&left, "half a release").unwrap();
    lab.publish("two", &[]);
    assert_eq!(fs::read(&left).unwrap(), b"half a release");
    assert_eq!(lab.client().targets().into_keys().collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(
        (lab.client().version(RoleType::Targets), lab.client().version(RoleType::Timestamp)),
        (3, 2)
    );
}

#[test]
fn a_metadata_file_is_never_overwritten_with_different_bytes() {
    let lab = Lab::new();
    let path = lab.folder.path().join("1.targets.json");
    write_once(&path, b"one").unwrap();
    write_once(&path, b"one").unwrap();
    let error = write_once(&path, b"two").unwrap_err();
    assert!(
        error.kind == crate::error::Kind::Digest
            && error.to_string().contains(
                "exists with \
        different contents"
            ),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"one");
    assert_eq!(lab.files(""), ["1.targets.json"]);
}

#[test]
fn the_next_release_repairs_its_damaged_target() {
    let lab = Lab::new();
    lab.publish("one", &[]);
    let file = lab.folder.path().join(TARGETS).join(&lab.files(TARGETS)[0]);
    fs::write(&file, "eno").unwrap();
    lab.publish("one", &[]);
    assert_eq!(fs::read(&file).unwrap(), b"one");
}

#[test]
fn a_sweep_keeps_two_versions_and_files_that_are_not_targets() {
    let lab = Lab::new();
    ["one", "two"].iter().for_each(|name| lab.publish(name, &[]));
    fs::write(lab.folder.path().join(TARGETS).join("README"), "ours").unwrap();
    let old = lab.client();
    lab.publish("three", &["one"]);
    // A client that has read the previous version still gets all of its targets.
    assert_eq!(old.read("one").unwrap(), b"one");
    assert_eq!(
        lab.files(METADATA),
        [
            "1.root.json",
            "2.snapshot.json",
            "2.targets.json",
            "3.snapshot.json",
            "3.targets.json",
            TIMESTAMP
        ]
    );
    assert_eq!(lab.files(TARGETS).len(), 3 + 1);
    lab.publish("four", &["two"]);
    let left: Vec<String> =
        lab.files(TARGETS).into_iter().map(|name| name.chars().skip(65).collect()).collect();
    assert!(!left.contains(&"one".to_owned()) && left.contains(&"two".to_owned()), "{left:?}");
    assert!(lab.folder.path().join(TARGETS).join("README").is_file());
    assert_eq!(lab.client().targets().into_keys().collect::<Vec<_>>(), ["four", "three"]);
}

/// A root of trust for two release keys in turn: the last two of the three roots name the second.
struct Rotated {
    folder: tempfile::TempDir,
    keys: [Arc<dyn ReleaseSigner>; 2],
    roots: [Root; 3],
}

impl Rotated {
    /// A repository whose only release is by the first key.
    fn new() -> Self {
        let [by, old, new]: [Arc<dyn ReleaseSigner>; 3] =
            std::array::from_fn(|_| Arc::new(ReleaseKey::generate().unwrap()) as _);
        let first = sign_root(UNTIL, &by, old.public(), None).unwrap();
        let second = sign_root(UNTIL, &by, new.public(), Some((&first, &by))).unwrap();
        let third = sign_root(UNTIL, &by, new.public(), Some((&second, &by))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let lab = Rotated { folder, keys: [old, new], roots: [first, second, third] };
        lab.publish("one", 1).unwrap();
        lab
    }

    /// Publishes a target with the first `roots` and the key of the last of them.
    fn publish(&self, name: &str, roots: usize) -> Result<Times> {
        let put = BTreeMap::from([(name.to_owned(), name.as_bytes())]);
        let key = &self.keys[usize::from(roots > 1)];
        let repository = Repository::at(self.folder.path());
        let writer = repository.writer(|| ()).unwrap();
        writer.publish(&self.roots[..roots], key, UNTIL, &Change { put, ..Change::default() })
    }

    /// The names of the targets for a client that trusts the first root.
    fn targets(&self) -> Result<Vec<String>> {
        let client = Repository::at(self.folder.path()).read(&self.roots[0], None)?;
        Ok(client.targets().into_keys().collect())
    }

    fn metadata(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(METADATA).join(name)
    }
}

#[test]
fn a_release_that_ended_between_its_roots_and_its_timestamp_is_completed_by_the_next() {
    let lab = Rotated::new();
    // A folder in place of the third root ends the release right after the second one.
    fs::create_dir(lab.metadata("3.root.json")).unwrap();
    assert!(lab.publish("two", 3).is_err());
    fs::remove_dir(lab.metadata("3.root.json")).unwrap();
    assert!(lab.metadata("2.root.json").is_file() && lab.targets().is_err());
    lab.publish("three", 3).unwrap();
    assert_eq!(lab.targets().unwrap(), ["one", "three", "two"]);
    let files = fs::read_dir(lab.metadata("")).unwrap();
    let hidden = |name: &std::ffi::OsString| name.to_str().unwrap().starts_with('.');
    assert_eq!(files.map(|file| file.unwrap().file_name()).filter(hidden).count(), 0);
}

#[test]
fn a_timestamp_of_a_retired_key_never_counts_again() {
    let lab = Rotated::new();
    let old = fs::read(lab.metadata(TIMESTAMP)).unwrap();
    lab.publish("two", 2).unwrap();
    fs::write(lab.metadata(TIMESTAMP), &old).unwrap();
    assert!(lab.publish("three", 2).is_err());
    // Nor does one that pretends to be of an interrupted release.
    fs::write(lab.metadata(NEXT_TIMESTAMP), &old).unwrap();
    assert!(lab.publish("three", 2).is_err());
    assert_eq!(fs::read(lab.metadata(TIMESTAMP)).unwrap(), old);
    assert!(lab.metadata("2.root.json").is_file());
}
