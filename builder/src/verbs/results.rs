//! `osbuild results`: moves the results of a build's steps to machines that need not make them.

use super::{Session, image, read_argument};
use crate::cli;
use crate::engine::executor::Rebuild;
use crate::engine::remote::Trust;
use crate::error::{Error, Kind, Result, each_once};
use crate::produce::out::Built;
use crate::ship::results::{Folder, Place, Registry, Source, export, import};
use crate::ship::tuf::Root;
use serde_json::json;
use std::path::Path;

/// `osbuild results`
pub fn run(session: Session, what: cli::Results) -> Result<()> {
    let (cli::Results::Export { to: place, .. } | cli::Results::Import { from: place, .. }) = &what;
    if session.common.offline && matches!(place, Place::Registry(_)) {
        return Err(Error::usage(format!("`--offline` forbids asking the registry of `{place}`"))
            .hint("name a folder instead"));
    }
    match what {
        cli::Results::Export { recipes, to, key } => write(session, &recipes, &to, key.as_deref()),
        cli::Results::Import { from, key, root } => {
            take(&session, from, key.as_deref(), root.as_deref())
        }
    }
}

/// Builds recipes, and exports the results of their steps.
fn write(mut session: Session, recipes: &[String], to: &Place, key: Option<&str>) -> Result<()> {
    session.trust = Trust::Here;
    let registry = match to {
        Place::Folder(_) => None,
        Place::Registry(name) => Some(Registry::open(name)?),
    };
    registry.as_ref().map(Registry::check).transpose()?;
    let signer = session.keys(&signing_keys(&session, recipes, key)?)?.release_key()?;
    // Open from here on, so that no collection removes what a build finds before the export.
    let store = session.store()?;
    let mut made = Vec::new();
    for recipe in each_once(recipes) {
        let Built { steps, .. } = image::unsigned(&session, recipe, None, Rebuild::Nothing)?;
        made.extend(steps.made);
    }
    made.sort_by_key(|(_, made)| made.action);
    // Of a step that several recipes have, the files are needed if one of them needed these.
    made.dedup_by(|(_, other), (_, kept)| {
        let is_same = other.action == kept.action;
        kept.has_files |= is_same && other.has_files;
        is_same
    });
    let scratch = store.scratch()?;
    let folder = match to {
        Place::Folder(path) => Folder::at(path),
        Place::Registry(_) => Folder::at(scratch.path()),
    };
    let exported = export(&store, session.report, &made, &*signer, &folder)?;
    if let Some(registry) = registry {
        registry.push(&folder, session.report)?;
    }
    let json = || {
        json!({
            "to": to.to_string(),
            "digest": format!("sha256:{}", exported.manifest),
            "results": exported.results,
            "bytes": exported.bytes,
        })
    };
    session.data(json, || to.to_string());
    Ok(())
}

/// The name of the keys that sign: from the command line, or else of the first recipe.
fn signing_keys(session: &Session, recipes: &[String], key: Option<&str>) -> Result<String> {
    if let Some(key) = key {
        return Ok(key.to_owned());
    }
    let signing = session.locked(&recipes[0])?.default_signing.clone();
    signing.map(|signing| signing.key).ok_or_else(|| {
        Error::usage(format!("recipe `{}` names no signing keys", recipes[0]))
            .hint("name the keys with `--key NAME`")
    })
}

/// Imports results.
fn take(session: &Session, from: Place, key: Option<&str>, root: Option<&Path>) -> Result<()> {
    let keys = match (key, root) {
        (_, Some(path)) => {
            let root = Root::parse(&read_argument(path)?);
            let named = |error: Error| error.cause(format!("while reading `{}`", path.display()));
            root.map_err(|error| named(Error { kind: Kind::Usage, ..error }))?.release_keys()
        }
        (Some(name), None) => vec![session.keys(name)?.release_public()?],
        (None, None) => unreachable!("the command line has one of them"),
    };
    let imported = import(&session.store()?, session.report, &keys, &Source::open(from.clone())?)?;
    if imported.known > 0 {
        session.report.note(format!("the store has {} of them already", imported.known));
    }
    let json = || {
        json!({
            "from": from.to_string(),
            "results": imported.new,
            "known": imported.known,
            "bytes": imported.bytes,
        })
    };
    session.data(json, || from.to_string());
    Ok(())
}
