//! The TUF repository with the releases.

use std::path::Path;
use std::pin::Pin;

use bytes::Bytes;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_release::{Document, File, Newest, target};
use tokio_stream::{Stream, StreamExt};
use tough::{
    ExpirationEnforcement, IntoVec, Limits, Repository as Tuf, RepositoryLoader, TargetName,
    error::Error,
};

use crate::newest;
use crate::pace::{Pace, Paced};
use crate::seen;
use crate::settings::Settings;

/// Size limits in bytes, for metadata whose length no verified metadata declare.
const LIMITS: Limits = Limits {
    max_root_size: 64 << 10,
    max_targets_size: 4 << 20,
    max_timestamp_size: 16 << 10,
    max_snapshot_size: 64 << 10,
    max_root_updates: 256,
};

/// A file as it arrives. It ends with an error if it does not match the metadata.
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, Error>> + Send>>;

/// A repository with verified metadata.
pub struct Repository {
    tuf: Tuf,
}

impl Repository {
    /// Loads and verifies the metadata: signed by the root's keys, not expired, not older than what
    /// was seen before (see [`newest`]), and consistent. `seen` is a persistent folder.
    pub async fn load(settings: &Settings, seen: &Path, pace: Pace) -> Outcome<Repository> {
        let kept = seen::open(seen)?;
        let folder = |name| settings.url.join(name).explain("read the repository's address");
        let loader =
            RepositoryLoader::new(&settings.root, folder("metadata/")?, folder("targets/")?)
                .transport(Paced::new(pace))
                .limits(LIMITS)
                .datastore(seen)
                .expiration_enforcement(ExpirationEnforcement::Safe);
        let tuf = loader.load().await.explain(format_args!("load {}", settings.url))?;
        let (root, timestamp) = (tuf.root().signed.version, tuf.timestamp().signed.version);
        let found = Newest { root: root.get(), timestamp: timestamp.get() };
        newest::advance(found, &kept, &settings.root)?;
        Ok(Repository { tuf })
    }

    /// The document of the release that the channel offers for the recipe.
    pub async fn document(&self, settings: &Settings) -> Outcome<Document> {
        let name = target::document(settings.channel, &settings.recipe);
        let stream = self.stream(&name, Document::MAX_BYTES as u64).await?;
        let bytes = stream.into_vec().await.explain(format_args!("read {name}"))?;
        Document::parse(&bytes).explain(format_args!("read {name}"))
    }

    /// A file of the release: its length and digest, and its bytes as they arrive.
    pub async fn file(&self, document: &Document, name: &str) -> Outcome<(File, Pieces)> {
        let file = *document
            .files
            .get(name)
            .ok_or_else(|| Failure::new(format!("the release has no {name}")))?;
        let name = target::file(&document.recipe, &document.version, name);
        let listed = self.listed(&name)?;
        if (listed.length, &listed.hashes.sha256[..]) != (file.length, &file.sha256.0[..]) {
            return Err(Failure::new(format!("{name} does not match the release's document")));
        }
        Ok((file, self.stream(&name, file.length).await?))
    }

    fn listed(&self, name: &str) -> Outcome<&tough::schema::Target> {
        let name = TargetName::new(name).explain(format_args!("look for {name}"))?;
        let found = self.tuf.targets().signed.targets.get(&name);
        found.ok_or_else(|| Failure::new(format!("the repository has no {}", name.raw())))
    }

    async fn stream(&self, name: &str, max_length: u64) -> Outcome<Pieces> {
        let length = self.listed(name)?.length;
        if length > max_length {
            return Err(Failure::new(format!(
                "{name} has {length} bytes, which is more than {max_length}"
            )));
        }
        let target = TargetName::new(name).explain(format_args!("look for {name}"))?;
        let stream = self.tuf.read_target(&target).await.explain(format_args!("read {name}"))?;
        stream
            .map(|stream| Box::pin(stream) as Pieces)
            .ok_or_else(|| Failure::new(format!("there is no {name}")))
    }
}

/// Waits for the first piece of a file, which shows that the server has the file.
pub async fn wait_for_first_piece(mut stream: Pieces) -> Outcome<Pieces> {
    let first = stream.next().await.transpose().explain("read the release")?;
    Ok(Box::pin(tokio_stream::iter(first.map(Ok)).chain(stream)))
}

/// Calls `take` with each piece of a file.
pub async fn for_each_piece(mut stream: Pieces, mut take: impl FnMut(&[u8]) -> Outcome) -> Outcome {
    while let Some(piece) = stream.next().await {
        take(&piece.explain("read the release")?)?;
    }
    Ok(())
}
