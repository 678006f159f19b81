//! `osbuild sources`: exports the locked inputs of a recipe to a folder, so that builds do not
//! depend on registries.

use super::Session;
use crate::cli::Sources;
use crate::engine::store::{Lock, Store};
use crate::engine::toolchain;
use crate::error::Result;
use crate::plan::{HostPrograms, ImageFrom, Locked, Plan, Source, makes_programs};
use crate::produce::exported::Exported;
use crate::produce::fetch::Fetcher;
use crate::produce::podimage;
use serde_json::json;

/// `osbuild sources`
pub fn run(session: &Session, what: Sources) -> Result<()> {
    let store = session.store()?;
    let (exported, moved) = match what {
        Sources::Export { recipe, folder } => {
            let fetcher = session.fetcher(&store);
            let (sources, _restored) = match makes_programs(&session.project, &recipe) {
                true => (of_programs(&fetcher, &session.locked_programs(&recipe)?)?, None),
                false => of_node(session, &fetcher, &store, &session.locked(&recipe)?)?,
            };
            let exported = Exported::at(&folder);
            let moved = exported.write(&store, session.report, &sources)?;
            (exported, moved)
        }
        Sources::Import { folder } => {
            let exported = Exported::at(&folder);
            let moved = exported.import(&store, session.report)?;
            (exported, moved)
        }
    };
    let folder = exported.folder().display().to_string();
    session.data(
        || json!({ "folder": folder, "sources": moved.count, "bytes": moved.bytes }),
        || folder.clone(),
    );
    Ok(())
}

/// Puts the project's pod images into the store, and returns the blobs of layouts as sources.
fn pod_images(session: &Session, store: &Store, plan: &Plan<Locked>) -> Result<Vec<Source>> {
    let mut blobs = Vec::new();
    for image in plan.images() {
        let ImageFrom::Archive { path, digest } = &image.from else { continue };
        let kept = podimage::keep(store, &session.root().join(path), digest)?;
        blobs.extend(kept.into_iter().map(|blob| Source::pod_image(&image.name, &blob.hex())));
    }
    Ok(blobs)
}

/// Returns every source of a node, after fetching them into the store. The store keeps the archive
/// of the Rust toolchain while the lock is held.
fn of_node(
    session: &Session,
    fetcher: &Fetcher,
    store: &Store,
    plan: &Plan<Locked>,
) -> Result<(Vec<Source>, Option<Lock>)> {
    fetcher.fetch(plan)?;
    let rust = plan.lock.get().toolchain.rust.as_ref();
    let restored = rust.map(|rust| toolchain::restore_rust(store, &rust.sha256)).transpose()?;
    let mut sources = plan.sources();
    sources.extend(pod_images(session, store, plan)?);
    Ok((sources, restored))
}

/// Returns every source of programs for the build machine, after fetching them into the store.
fn of_programs(
    fetcher: &Fetcher,
    plan: &Plan<Locked, HostPrograms<Locked>>,
) -> Result<Vec<Source>> {
    fetcher.fetch(plan)?;
    Ok(plan.lock.get().sources(&plan.requirements.crates))
}
