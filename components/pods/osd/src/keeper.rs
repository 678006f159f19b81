//! Keeps resources in two files, so that they outlast the process and the boot: settings, and who
//! may call.

use crate::client_type::ClientType;
use crate::generations::{Generation, Generations};
use crate::shared::SharedStore;
use crate::wire;
use osbuild_cosi::resource as proto;
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;
use osbuild_resources::Resource;
use prost::Message;
use prost_types::Timestamp;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::Status;
use zeroize::Zeroize;

/// The file, and the folder beside it for what was in its way.
const FILE: &str = "resources";
const ASIDE: &str = "aside";

/// The file of who may call. No damage to the other file, and no release that does not know it,
/// loses a revocation.
const ACCESS_FILE: &str = "access";

/// The maximum length of the file in bytes. Resources of [`STORE`](crate::limits::STORE) are
/// smaller as messages than in memory.
const MAX_LENGTH: u64 = 32 << 20;

/// The pause before the files are written again, when a disk did not take them.
const RETRY: Duration = Duration::from_secs(10);

/// The beginning of the file of who may call: the key of a field of protobuf and its length. The
/// SHA-256 digest of the contents follows, and then these. Earlier releases wrote them alone.
const DIGEST: [u8; 2] = [(2 << 3) | 2, 32];

/// The contents of the file of who may call.
#[derive(prost::Message)]
struct AccessFile {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<proto::Resource>,
    // Tag 2 is the digest.
    #[prost(bool, tag = "3")]
    are_lost: bool,
}

/// The contents of the other file.
#[derive(prost::Message)]
struct KeptFile {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<proto::Resource>,
    #[prost(message, repeated, tag = "2")]
    generations: Vec<KeptGeneration>,
    #[prost(uint64, tag = "3")]
    last_generation: u64,
    #[prost(message, repeated, tag = "4")]
    secrets: Vec<KeptSecrets>,
    /// Whether the file of who may call has a digest. Earlier releases write neither, and an empty
    /// file if nobody has a role or a revocation.
    #[prost(bool, tag = "5")]
    is_access_sealed: bool,
}

/// The secrets of a resource, apart from it: a release that does not know its type shows it, and
/// keeps these for one that does.
#[derive(prost::Message)]
#[prost(skip_debug)]
struct KeptSecrets {
    /// The place of the resource in its list.
    #[prost(uint32, tag = "1")]
    index: u32,
    #[prost(btree_map = "string, string", tag = "2")]
    values: BTreeMap<String, String>,
}

impl fmt::Debug for KeptSecrets {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("KeptSecrets").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Drop for KeptSecrets {
    fn drop(&mut self) {
        self.values.values_mut().for_each(Zeroize::zeroize);
    }
}

#[derive(prost::Message)]
struct KeptGeneration {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(message, optional, tag = "2")]
    time: Option<Timestamp>,
    #[prost(string, tag = "3")]
    caller: String,
    #[prost(message, repeated, tag = "4")]
    settings: Vec<proto::Resource>,
    #[prost(message, repeated, tag = "5")]
    secrets: Vec<KeptSecrets>,
}

/// The content of the file `resources`.
#[derive(Debug)]
pub struct Kept {
    /// The resources.
    pub resources: Vec<Resource>,
    /// The generations of those that are settings.
    pub generations: Generations,
}

/// The content of the file `access`.
#[derive(Debug)]
pub struct KeptAccess {
    /// The roles and revocations.
    pub resources: Vec<Resource>,
    /// Whether other revocations are lost, and nobody has written one since.
    pub are_lost: bool,
}

/// Writes the files when somebody asks for it. Those who ask while it is written share the next
/// write.
pub struct Keeper {
    /// How often somebody has asked.
    asked: watch::Sender<u64>,
    written: watch::Receiver<Written>,
}

/// Files with their names.
type Files = [(&'static str, Vec<u8>)];

/// The last write: which requests it was for, and why it failed.
#[derive(Clone, Default)]
struct Written {
    through: u64,
    failure: Option<String>,
}

/// Reads the folder's file `resources`, if there is one. Roles and revocations in it are ignored:
/// [`read_access`] alone returns those.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub fn read(folder: &Path) -> Outcome<Option<Kept>> {
    let cannot = format!("read `{}`", folder.join(FILE).display());
    let bytes = Folder::open(folder, ASIDE).and_then(|folder| folder.read(FILE, MAX_LENGTH));
    let Some(bytes) = bytes.explain(&cannot)? else { return Ok(None) };
    Kept::decode(&bytes).explain(&cannot).map(Some)
}

impl Kept {
    /// Reads the contents of the file `resources`, without the roles and revocations in it.
    ///
    /// # Errors
    /// They are damaged.
    pub fn decode(bytes: &[u8]) -> Result<Kept, String> {
        let kept = KeptFile::decode(bytes).map_err(|error| error.to_string())?;
        let mut resources = stored_with(kept.resources, &kept.secrets).map_err(reason)?;
        resources.retain(|resource| !is_access(resource));
        let generations = kept.generations.into_iter().map(KeptGeneration::generation);
        let generations = generations.collect::<Result<_, _>>().map_err(reason)?;
        let generations = Generations::of_earlier(generations, kept.last_generation);
        Ok(Kept { resources, generations })
    }
}

/// Reads the roles and revocations in the folder's file `access`. Before a release that seals it
/// has written the folder, nobody has any without the file.
///
/// # Errors
/// The file cannot be read, is damaged, or is lost.
pub fn read_access(folder: &Path) -> Outcome<KeptAccess> {
    let cannot = format!("read `{}`", folder.join(ACCESS_FILE).display());
    let folder = Folder::open(folder, ASIDE).explain(&cannot)?;
    let bytes = folder.read(ACCESS_FILE, MAX_LENGTH).explain(&cannot)?;
    let bytes = bytes.unwrap_or_default();
    if bytes.is_empty() && !is_access_sealed(&folder) {
        return Ok(KeptAccess { resources: Vec::new(), are_lost: false });
    }
    KeptAccess::decode(&bytes).explain(&cannot)
}

impl KeptAccess {
    /// Reads the contents of the file `access`.
    ///
    /// # Errors
    /// They are missing or damaged.
    pub fn decode(bytes: &[u8]) -> Result<KeptAccess, String> {
        let file = AccessFile::decode(unsealed(bytes)?).map_err(|error| error.to_string())?;
        let resources = stored(file.resources).map_err(reason)?;
        Ok(KeptAccess { resources, are_lost: file.are_lost })
    }

    /// The contents of the file `access`.
    pub fn encode(&self) -> Vec<u8> {
        encode_resources(self.resources.iter(), self.are_lost)
    }
}

fn reason(status: Status) -> String {
    status.message().to_owned()
}

/// Whether a release that seals the file of who may call has written the files last.
fn is_access_sealed(folder: &Folder) -> bool {
    match folder.read(FILE, MAX_LENGTH) {
        Ok(None) => false,
        // A file that is damaged, or cannot be read, may have had the mark.
        Ok(Some(bytes)) => {
            KeptFile::decode(bytes.as_slice()).map_or(true, |kept| kept.is_access_sealed)
        }
        Err(_) => true,
    }
}

/// The contents with their digest.
fn sealed(contents: &[u8]) -> Vec<u8> {
    [&DIGEST[..], Sha256::digest(contents).as_slice(), contents].concat()
}

/// The contents of a file, which are as their digest says: a file that was cut can still be a
/// message.
fn unsealed(bytes: &[u8]) -> Result<&[u8], &'static str> {
    if bytes.is_empty() {
        return Err("it is missing or empty");
    }
    let Some(rest) = bytes.strip_prefix(&DIGEST) else { return Ok(bytes) };
    let (digest, contents) = rest.split_at_checked(32).ok_or("its digest is cut")?;
    match Sha256::digest(contents).as_slice() == digest {
        true => Ok(contents),
        false => Err("its digest is another one"),
    }
}

/// Whether a resource says who may call.
fn is_access(resource: &Resource) -> bool {
    ClientType::of(resource.content.key.kind()).is_some_and(|one| !one.is_setting())
}

fn stored(kept: Vec<proto::Resource>) -> Result<Vec<Resource>, Status> {
    kept.into_iter().map(wire::stored).collect()
}

/// The resources with their secrets.
fn stored_with(
    kept: Vec<proto::Resource>,
    secrets: &[KeptSecrets],
) -> Result<Vec<Resource>, Status> {
    let mut resources = stored(kept)?;
    for KeptSecrets { index, values } in secrets {
        let found = usize::try_from(*index).ok().and_then(|index| resources.get_mut(index));
        let Some(found) = found else { continue };
        let secrets = &mut found.content.spec.secrets;
        values.iter().for_each(|(field, value)| secrets.insert(field, value));
    }
    Ok(resources)
}

/// The secrets of resources.
fn secrets_of(resources: &[Arc<Resource>]) -> Vec<KeptSecrets> {
    let all = (0..).zip(resources).map(|(index, resource)| {
        let values = resource.content.spec.secrets.reveal_all();
        let values = values.map(|(field, value)| (field.to_owned(), value.to_owned())).collect();
        KeptSecrets { index, values }
    });
    all.filter(|one| !one.values.is_empty()).collect()
}

impl KeptGeneration {
    fn of(Generation { number, time, caller, settings }: &Generation) -> KeptGeneration {
        let secrets = secrets_of(settings);
        let settings = settings.iter().map(|setting| wire::resource(setting)).collect();
        let (time, caller) = (Some(Timestamp::from(*time)), caller.clone());
        KeptGeneration { number: *number, time, caller, settings, secrets }
    }

    fn generation(self) -> Result<Generation, Status> {
        let KeptGeneration { number, time, caller, settings, secrets } = self;
        let time = time.and_then(|time| SystemTime::try_from(time).ok());
        let time = time.ok_or_else(|| wire::invalid("a generation has no time"))?;
        let settings =
            stored_with(settings, &secrets)?.into_iter().filter(|setting| !is_access(setting));
        let settings = settings.map(Arc::new).collect();
        Ok(Generation { number, time, caller, settings })
    }
}

impl Keeper {
    /// Keeps resources in the folder from now on. There has to be a runtime.
    pub fn start(path: &Path, store: Arc<SharedStore>) -> Outcome<Keeper> {
        let folder =
            Folder::open(path, ASIDE).explain(format_args!("open `{}`", path.display()))?;
        let (asked, requests) = watch::channel(0);
        let (outcomes, written) = watch::channel(Written::default());
        let folder = Arc::new(folder);
        // A damaged file stays until somebody changes who may call; that of an earlier release is
        // written anew with the first change.
        let is_to_stay = is_access_sealed(&folder) || read_access(path).is_err();
        let written_access = is_to_stay.then(|| encode_access(&store));
        let replace = move |files: &Files| replace(&folder, files);
        tokio::spawn(write(replace, store, written_access, requests, outcomes));
        Ok(Keeper { asked, written })
    }

    /// Waits until the resources of now are on the disk.
    pub async fn keep(&self) -> Result<(), Status> {
        let mut number = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            number = *asked;
        });
        let mut written = self.written.clone();
        let written = written.wait_for(|written| written.through >= number).await;
        match &written.expect("the task lasts as long as its keeper").failure {
            None => Ok(()),
            Some(failure) => Err(Status::unavailable(format!(
                "the change is in effect, but would not outlast a restart: {failure}"
            ))),
        }
    }
}

/// Writes the files with `replace` when somebody asks for it, and again some time after a write
/// that has failed: the change that it was for is in effect.
async fn write(
    replace: impl Fn(&Files) -> Result<(), String> + Clone + Send + 'static,
    store: Arc<SharedStore>,
    mut written_access: Option<Vec<u8>>,
    mut requests: watch::Receiver<u64>,
    outcomes: watch::Sender<Written>,
) {
    loop {
        let has_failed = outcomes.borrow().failure.is_some();
        let asked = requests.changed();
        let asked = match has_failed {
            true => timeout(RETRY, asked).await.unwrap_or(Ok(())),
            false => asked.await,
        };
        if asked.is_err() {
            return;
        }
        let through = *requests.borrow_and_update();
        let access = encode_access(&store);
        let mut files = vec![(FILE, encode(&store.kept(), &store.generations()))];
        if written_access.as_ref() != Some(&access) {
            files.insert(0, (ACCESS_FILE, access.clone()));
        }
        let replace = replace.clone();
        let write = move || replace(&files);
        let outcome = tokio::task::spawn_blocking(write).await.expect("a write does not panic");
        match &outcome {
            Ok(()) => written_access = Some(access),
            Err(failure) if !has_failed => eprintln!("error: {failure}, and tries again"),
            Err(_) => {}
        }
        if outcome.is_ok() && has_failed {
            eprintln!("note: what is in effect is kept now");
        }
        outcomes.send_replace(Written { through, failure: outcome.err() });
    }
}

/// Writes the files, each of them whole or not at all.
fn replace(folder: &Folder, files: &Files) -> Result<(), String> {
    steps(folder, files).collect()
}

/// The steps in which the files are written. A process may end between any two of them.
fn steps<'a>(
    folder: &'a Folder,
    files: &'a Files,
) -> impl Iterator<Item = Result<(), String>> + 'a {
    files.iter().flat_map(move |(name, bytes)| {
        let steps = folder.replacing(name, bytes, 0o600);
        steps.map(move |step| step.map_err(|error| format!("cannot write `{name}`: {error}")))
    })
}

fn encode_access(store: &SharedStore) -> Vec<u8> {
    encode_resources(store.kept_access().iter().map(AsRef::as_ref), store.lacks_revocations())
}

fn encode_resources<'a>(all: impl Iterator<Item = &'a Resource>, are_lost: bool) -> Vec<u8> {
    let resources = all.map(wire::resource).collect();
    sealed(&AccessFile { resources, are_lost }.encode_to_vec())
}

/// The contents of the file `resources`.
pub fn encode(kept: &[Arc<Resource>], generations: &Generations) -> Vec<u8> {
    let secrets = secrets_of(kept);
    let resources = kept.iter().map(|one| wire::resource(one)).collect();
    let last_generation = generations.last();
    let generations = generations.iter().map(KeptGeneration::of).collect();
    let is_access_sealed = true;
    KeptFile { resources, generations, last_generation, secrets, is_access_sealed }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_resources::{Content, Key, Kind, Owner, Spec};
    use std::sync::Mutex;
    use std::time::UNIX_EPOCH;

    fn content(id: &str) -> Content {
        let kind = Kind::new("system", "KernelParameters.osbuild").unwrap();
        let spec = Spec { proto: vec![1, 2], yaml: "key: a.b".to_owned(), ..Spec::default() };
        let mut content = Content::new(Key::new(kind, id).unwrap(), spec);
        content.finalizers.insert("other".to_owned());
        content.labels.insert("rack".to_owned(), "7".to_owned());
        content
    }

    fn create(store: &SharedStore, id: &str) -> Arc<Resource> {
        let (content, now) = (content(id), UNIX_EPOCH + Duration::from_secs(1_790_000_000));
        let kind = content.key.kind().clone();
        store.write(&kind, |store| store.create(content, Owner("me".to_owned()), now)).unwrap()
    }

    #[tokio::test]
    async fn what_was_kept_is_read_as_it_was() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap();
        assert!(read(&folder).unwrap().is_none());
        let store = Arc::new(SharedStore::new().unwrap());
        let keeper = Keeper::start(&folder, store.clone()).unwrap();
        let created = ["a", "b"].map(|id| create(&store, id));
        store.record_generation("me");
        keeper.keep().await.unwrap();
        let kept = read(&folder).unwrap().unwrap();
        assert!(kept.resources.iter().eq(created.iter().map(AsRef::as_ref)));
        assert!(kept.generations.iter().eq(store.generations().iter()));
        assert_eq!(kept.generations.get(1).map(|one| one.settings.len()), Some(2));
    }

    #[tokio::test]
    async fn a_type_of_a_later_release_keeps_its_secrets() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap();
        let (store, later) = (SharedStore::new().unwrap(), SharedStore::new().unwrap());
        let kind = Kind::new("system", "Vaults.osbuild").unwrap();
        let mut spec = Spec { yaml: "name: a".to_owned(), ..Spec::default() };
        spec.secrets.insert("seal", "hunter2");
        let content = Content::new(Key::new(kind.clone(), "a").unwrap(), spec);
        let create = |store: &mut osbuild_resources::Store| {
            store.create(content, Owner::default(), UNIX_EPOCH)
        };
        let created = store.write(&kind, create).unwrap();
        for store in [&store, &later] {
            std::fs::write(folder.join(FILE), encode(&store.kept(), &store.generations())).unwrap();
            let mut kept = read(&folder).unwrap().unwrap().resources;
            assert_eq!(kept, [(*created).clone()]);
            let restore = |store: &mut osbuild_resources::Store| store.restore(kept.remove(0));
            // Only the second store is still empty.
            let _ = later.write(&kind, restore);
        }
        let found = later.kept();
        assert_eq!(found[0].content.spec.secrets.reveal("seal"), Some("hunter2"));
    }

    fn revocation(id: &str, user: &str) -> Content {
        let kind = Kind::new("system", "Revocations.osbuild").unwrap();
        let spec = Spec { yaml: format!("user: {user}\n"), ..Spec::default() };
        Content::new(Key::new(kind, id).unwrap(), spec)
    }

    #[tokio::test]
    async fn a_revocation_is_in_a_file_of_its_own_that_only_its_changes_replace() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap();
        std::fs::write(folder.join(ACCESS_FILE), [0xff; 9]).unwrap();
        assert!(read_access(&folder).is_err());
        let store = Arc::new(SharedStore::new().unwrap());
        let keeper = Keeper::start(&folder, store.clone()).unwrap();
        create(&store, "a");
        keeper.keep().await.unwrap();
        assert!(read_access(&folder).is_err(), "a damaged file is no empty one");
        let (content, now) = (revocation("a", "bob"), UNIX_EPOCH);
        let kind = content.key.kind().clone();
        let create =
            |store: &mut osbuild_resources::Store| store.create(content, Owner::default(), now);
        let created = store.write(&kind, create).unwrap();
        store.record_generation("me");
        keeper.keep().await.unwrap();
        assert_eq!(read_access(&folder).unwrap().resources, [(*created).clone()]);
        let Kept { resources, generations } = read(&folder).unwrap().unwrap();
        assert_eq!(resources.len(), 1);
        assert!(generations.iter().all(|one| one.settings.len() == 1));
        std::fs::write(folder.join(FILE), [0xff; 9]).unwrap();
        assert_eq!(read_access(&folder).unwrap().resources.len(), 1);
    }

    #[test]
    fn a_file_of_who_may_call_is_whole_or_damaged() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap();
        let store = SharedStore::new().unwrap();
        for (id, user) in [("a", "bob"), ("b", "carol")] {
            let content = revocation(id, user);
            let kind = content.key.kind().clone();
            let (owner, now) = (Owner::default(), UNIX_EPOCH);
            store.write(&kind, |store| store.create(content, owner, now)).unwrap();
        }
        let whole = encode_access(&store);
        std::fs::write(folder.join(FILE), encode(&[], &Generations::default())).unwrap();
        for length in 0..whole.len() {
            std::fs::write(folder.join(ACCESS_FILE), &whole[..length]).unwrap();
            assert!(read_access(&folder).is_err(), "{length} of {} bytes", whole.len());
        }
        for bytes in [&whole, &whole[34..]] {
            std::fs::write(folder.join(ACCESS_FILE), bytes).unwrap();
            let kept = read_access(&folder).unwrap();
            assert_eq!((kept.resources.len(), kept.are_lost), (2, false));
        }
    }

    /// Old and new contents of both files, in which a setting and a revocation differ.
    fn files_before_and_after() -> [Vec<(&'static str, Vec<u8>)>; 2] {
        let store = SharedStore::new().unwrap();
        ["a", "b"].map(|id| {
            create(&store, id);
            let (content, now) = (revocation(id, id), UNIX_EPOCH);
            let kind = content.key.kind().clone();
            let created = store.write(&kind, |store| store.create(content, Owner::default(), now));
            created.unwrap();
            store.record_generation(id);
            let settings = encode(&store.kept(), &store.generations());
            vec![(ACCESS_FILE, encode_access(&store)), (FILE, settings)]
        })
    }

    #[test]
    fn a_process_that_is_killed_at_any_write_leaves_each_file_old_or_new() {
        let [old, new] = files_before_and_after();
        let mut seen = Vec::new();
        for killed_after in 0.. {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().canonicalize().unwrap();
            let folder = Folder::open(&path, ASIDE).unwrap();
            replace(&folder, &old).unwrap();
            let taken = steps(&folder, &new).take(killed_after).map(Result::unwrap).count();
            let found = || {
                let Kept { resources, generations } = read(&path).unwrap().unwrap();
                let access = read_access(&path).unwrap();
                assert!(!access.are_lost);
                (access.resources.len(), resources.len(), generations.last())
            };
            seen.push(found());
            // The next process writes over what this one has left.
            replace(&folder, &new).unwrap();
            assert_eq!(found(), (2, 2, 2));
            if taken < killed_after {
                break;
            }
        }
        // A file is new from the fourth of its five steps on.
        let expected = [vec![(1, 1, 1); 4], vec![(2, 1, 1); 5], vec![(2, 2, 2); 3]].concat();
        assert_eq!(seen, expected);
    }

    #[tokio::test]
    async fn an_empty_file_of_an_earlier_release_has_nobody_and_is_written_anew() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap();
        std::fs::write(folder.join(ACCESS_FILE), []).unwrap();
        for of_earlier in [None, Some(KeptFile::default().encode_to_vec())] {
            if let Some(bytes) = of_earlier {
                std::fs::write(folder.join(FILE), bytes).unwrap();
            }
            let KeptAccess { resources, are_lost } = read_access(&folder).unwrap();
            assert_eq!((resources.len(), are_lost), (0, false));
        }
        let store = Arc::new(SharedStore::new().unwrap());
        let keeper = Keeper::start(&folder, store.clone()).unwrap();
        create(&store, "a");
        keeper.keep().await.unwrap();
        assert!(!std::fs::read(folder.join(ACCESS_FILE)).unwrap().is_empty());
        std::fs::write(folder.join(ACCESS_FILE), []).unwrap();
        assert!(read_access(&folder).is_err(), "it was sealed");
        std::fs::remove_file(folder.join(ACCESS_FILE)).unwrap();
        let lost = read_access(&folder).unwrap_err().to_string();
        assert!(lost.contains("it is missing"), "{lost}");
    }

    #[test]
    fn a_file_of_settings_cannot_smuggle_in_a_revocation() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap();
        let store = SharedStore::new().unwrap();
        let (content, now) = (revocation("a", "nobody"), SystemTime::now());
        let kind = content.key.kind().clone();
        let resource =
            store.write(&kind, |store| store.create(content, Owner::default(), now)).unwrap();
        let (caller, settings) = ("me".to_owned(), vec![resource.clone()]);
        let generation = Generation { number: 1, time: now, caller, settings };
        let generations = Generations::of_earlier(vec![generation], 1);
        std::fs::write(folder.join(FILE), encode(&[resource], &generations)).unwrap();
        let Kept { resources, generations } = read(&folder).unwrap().unwrap();
        assert!(resources.is_empty());
        assert!(generations.iter().all(|one| one.settings.is_empty()));
    }

    #[test]
    fn a_file_that_cannot_be_read_may_have_had_the_mark_of_revocations() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap();
        let folder = Folder::open(&path, ASIDE).unwrap();
        assert!(!is_access_sealed(&folder), "there is no file");
        std::fs::create_dir(path.join(FILE)).unwrap();
        assert!(is_access_sealed(&folder));
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_is_an_error_until_it_can() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap().join("gone");
        std::fs::create_dir(&folder).unwrap();
        let store = Arc::new(SharedStore::new().unwrap());
        let keeper = Keeper::start(&folder, store.clone()).unwrap();
        create(&store, "a");
        std::fs::remove_dir_all(&folder).unwrap();
        let refused = keeper.keep().await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Unavailable);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_disk_did_not_take_is_written_again_until_it_does() {
        let store = Arc::new(SharedStore::new().unwrap());
        let (asked, requests) = watch::channel(0);
        let (outcomes, mut written) = watch::channel(Written::default());
        let writes = Arc::new(Mutex::new(Vec::new()));
        let made = writes.clone();
        let replace = move |files: &Files| {
            let mut writes = made.lock().unwrap();
            writes.push(files[0].1.len());
            if writes.len() < 3 { Err("the disk is full".to_owned()) } else { Ok(()) }
        };
        let access = Some(encode_access(&store));
        tokio::spawn(write(replace, store.clone(), access, requests, outcomes));
        let keeper = Keeper { asked, written: written.clone() };
        create(&store, "a");
        assert!(keeper.keep().await.unwrap_err().message().contains("the disk is full"));
        create(&store, "b");
        let begun = tokio::time::Instant::now();
        written.wait_for(|written| written.failure.is_none()).await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 2 * RETRY.as_secs());
        let writes = writes.lock().unwrap().clone();
        assert!(writes.len() == 3 && writes[1] > writes[0], "with what there is then: {writes:?}");
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().canonicalize().unwrap();
        for bytes in [
            &[0xff, 0xff][..],
            &KeptFile { resources: vec![proto::Resource::default()], ..KeptFile::default() }
                .encode_to_vec(),
            &KeptFile { generations: vec![KeptGeneration::default()], ..KeptFile::default() }
                .encode_to_vec(),
        ] {
            std::fs::write(folder.join(FILE), bytes).unwrap();
            assert!(read(&folder).is_err(), "{bytes:?}");
        }
    }
}
