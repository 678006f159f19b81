//! `osbuild sources`: the locked inputs of a recipe as a folder that outlives the registries.

use super::Session;
use crate::cli::Sources;
use crate::error::Result;
use crate::produce::exported::Exported;
use serde_json::json;

/// `osbuild sources`
pub fn run(session: &Session, what: Sources) -> Result<()> {
    let store = session.store()?;
    let (exported, moved) = match what {
        Sources::Export { recipe, folder } => {
            let plan = session.locked(&recipe)?;
            session.fetcher(&store).fetch(&plan)?;
            let exported = Exported::at(&folder);
            let moved = exported.write(&store, session.report, &plan.lock.get().sources(&plan.wanted.crates))?;
            (exported, moved)
        }
        Sources::Import { folder } => {
            let exported = Exported::at(&folder);
            let moved = exported.import(&store, session.report)?;
            (exported, moved)
        }
    };
    let folder = exported.folder().display().to_string();
    session.data(|| json!({ "folder": folder, "sources": moved.count, "bytes": moved.bytes }), || folder.clone());
    Ok(())
}
