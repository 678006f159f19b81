//! Keeps resources in a file, so that they outlast the process and the boot.

use crate::generations::{Generation, Generations};
use crate::shared::SharedStore;
use crate::wire;
use osbuild_cosi::resource as proto;
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;
use osbuild_resources::Resource;
use prost::Message;
use prost_types::Timestamp;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;
use tonic::Status;

/// The file, and the folder beside it for what was in its way.
const FILE: &str = "resources";
const ASIDE: &str = "aside";

/// The maximum length of the file in bytes. Resources of [`STORE`](crate::limits::STORE) are
/// smaller as messages than in memory.
const MAX_LENGTH: u64 = 32 << 20;

/// The contents of the file.
#[derive(prost::Message)]
struct KeptFile {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<proto::Resource>,
    #[prost(message, repeated, tag = "2")]
    generations: Vec<KeptGeneration>,
    #[prost(uint64, tag = "3")]
    last_generation: u64,
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
}

/// What the file has kept.
#[derive(Debug)]
pub struct Kept {
    /// The resources.
    pub resources: Vec<Resource>,
    /// The generations of those that are settings.
    pub generations: Generations,
}

/// Writes the file when somebody asks for it. Those who ask while it is written share the next
/// write.
pub struct Keeper {
    /// How often somebody has asked.
    asked: watch::Sender<u64>,
    written: watch::Receiver<Written>,
}

/// The last write: which requests it was for, and why it failed.
#[derive(Clone, Default)]
struct Written {
    through: u64,
    failure: Option<String>,
}

/// What the folder's file has.
///
/// # Errors
/// The file cannot be read, or is damaged.
pub fn read(folder: &Path) -> Outcome<Option<Kept>> {
    let cannot = format!("read `{}`", folder.join(FILE).display());
    let bytes = Folder::open(folder, ASIDE).and_then(|folder| folder.read(FILE, MAX_LENGTH));
    let Some(bytes) = bytes.explain(&cannot)? else { return Ok(None) };
    let kept = KeptFile::decode(bytes.as_slice()).explain(&cannot)?;
    let resources = stored(kept.resources).explain(&cannot)?;
    let generations = kept.generations.into_iter().map(KeptGeneration::generation);
    let generations = generations.collect::<Result<_, _>>().explain(&cannot)?;
    Ok(Some(Kept {
        resources,
        generations: Generations::of_earlier(generations, kept.last_generation),
    }))
}

fn stored(kept: Vec<proto::Resource>) -> Result<Vec<Resource>, Status> {
    kept.into_iter().map(wire::stored).collect()
}

impl KeptGeneration {
    fn of(Generation { number, time, caller, settings }: &Generation) -> KeptGeneration {
        let settings = settings.iter().map(|setting| wire::resource(setting)).collect();
        let (time, caller) = (Some(Timestamp::from(*time)), caller.clone());
        KeptGeneration { number: *number, time, caller, settings }
    }

    fn generation(self) -> Result<Generation, Status> {
        let KeptGeneration { number, time, caller, settings } = self;
        let time = time.and_then(|time| SystemTime::try_from(time).ok());
        let time = time.ok_or_else(|| wire::invalid("a generation has no time"))?;
        let settings = stored(settings)?.into_iter().map(Arc::new).collect();
        Ok(Generation { number, time, caller, settings })
    }
}

impl Keeper {
    /// Keeps resources in the folder from now on. There has to be a runtime.
    pub fn start(folder: &Path, store: Arc<SharedStore>) -> Outcome<Keeper> {
        let folder =
            Folder::open(folder, ASIDE).explain(format_args!("open `{}`", folder.display()))?;
        let (asked, requests) = watch::channel(0);
        let (outcomes, written) = watch::channel(Written::default());
        tokio::spawn(write(Arc::new(folder), store, requests, outcomes));
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

async fn write(
    folder: Arc<Folder>,
    store: Arc<SharedStore>,
    mut requests: watch::Receiver<u64>,
    outcomes: watch::Sender<Written>,
) {
    while requests.changed().await.is_ok() {
        let through = *requests.borrow_and_update();
        let bytes = encode(&store.kept(), &store.generations());
        let folder = folder.clone();
        let write = move || folder.replace(FILE, &bytes, 0o600).err();
        let failure = tokio::task::spawn_blocking(write).await.expect("a write does not panic");
        let failure = failure.map(|error| format!("cannot write `{FILE}`: {error}"));
        outcomes.send_replace(Written { through, failure });
    }
}

fn encode(kept: &[Arc<Resource>], generations: &Generations) -> Vec<u8> {
    let resources = kept.iter().map(|one| wire::resource(one)).collect();
    let last_generation = generations.last();
    let generations = generations.iter().map(KeptGeneration::of).collect();
    KeptFile { resources, generations, last_generation }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_resources::{Content, Key, Kind, Owner, Spec};
    use std::time::{Duration, UNIX_EPOCH};

    fn content(id: &str) -> Content {
        let kind = Kind::new("system", "KernelParameters.osbuild").unwrap();
        let spec = Spec { proto: vec![1, 2], yaml: "key: a.b".to_owned() };
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
