//! Applies drafts of resources, all or none.

use crate::client_type::ClientType;
use crate::documents::Draft;
use crate::wire;
use osbuild_resources::{
    Content, Error, Expected, Key, Kind, Owner, Phase, Query, Resource, Store,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;
use tonic::Status;

/// A resource before and after its draft is applied.
#[derive(Clone, Debug)]
pub struct Step {
    /// The resource before.
    pub before: Option<Arc<Resource>>,
    /// Its content after.
    pub after: Content,
}

/// Returns the steps that apply the drafts, in the order of the drafts.
///
/// # Errors
/// A resource belongs to an owner, is being torn down or has too much metadata, two would set the
/// same or exclude each other, or there would be too many.
pub fn plan(store: &Store, drafts: Vec<Draft>) -> Result<Vec<Step>, Status> {
    let steps: Vec<Step> =
        drafts.into_iter().map(|draft| step(store, draft)).collect::<Result<_, _>>()?;
    set_different_things(store, steps.iter().map(|step| (&step.after.key, Some(&step.after))))?;
    Ok(steps)
}

fn step(store: &Store, Draft { key, labels, annotations, spec }: Draft) -> Result<Step, Status> {
    let before = store.get(&key).ok();
    if let Some(found) = &before {
        if found.owner != Owner::default() {
            let error = Error::Owned(key, found.owner.clone());
            return Err(wire::status(&error));
        }
        if found.content.phase != Phase::Running {
            return Err(Status::failed_precondition(format!("{key} is being torn down")));
        }
    }
    let old = before.as_ref().map(|found| found.content.clone());
    let mut after = old.unwrap_or_else(|| Content::new(key, spec.clone()));
    after.spec = spec;
    after.labels = labels.unwrap_or(after.labels);
    after.annotations = annotations.unwrap_or(after.annotations);
    // The finalizers are those of others, whose number must not keep the setting as it is.
    wire::check_texts(&after)?;
    Ok(Step { before, after })
}

/// Refuses resources that would set the same, or exclude each other, once these have their new
/// content, or are gone.
///
/// # Errors
/// There would be such resources, or too many.
pub fn set_different_things<'a>(
    store: &Store,
    changes: impl Iterator<Item = (&'a Key, Option<&'a Content>)>,
) -> Result<(), Status> {
    let (query, changes) = (Query::default(), changes.collect::<BTreeMap<_, _>>());
    let kinds: BTreeSet<&Kind> = changes.keys().map(|key| key.kind()).collect();
    for one in kinds.into_iter().filter_map(ClientType::of) {
        let kind = one.kind();
        let kept = store.list(&kind, &query).map(|found| found.content.clone());
        let kept = kept.filter(|content| !changes.contains_key(&content.key));
        let new = changes.values().filter_map(|content| content.cloned());
        let contents: Vec<_> =
            kept.chain(new.filter(|content| *content.key.kind() == kind)).collect();
        agree(one, &contents)?;
    }
    Ok(())
}

/// Refuses contents of a type that set the same, or exclude each other.
fn agree(one: ClientType, contents: &[Content]) -> Result<(), Status> {
    if contents.len() > one.max_count() {
        let (count, kind) = (one.max_count(), one.kind());
        return Err(Status::resource_exhausted(format!(
            "there are at most {count} resources of {kind}"
        )));
    }
    if let Some(reason) = one.conflict(contents.iter().map(|content| &content.spec)) {
        return Err(Status::invalid_argument(reason));
    }
    let mut subjects: BTreeMap<String, &Key> = BTreeMap::new();
    for content in contents {
        let Ok(checked) = one.check(content.key.id(), &content.spec) else { continue };
        let Some(subject) = checked.subject else { continue };
        if let Some(other) = subjects.insert(subject.clone(), &content.key) {
            let message = format!("both {other} and {} set {subject}", content.key);
            return Err(Status::invalid_argument(message));
        }
    }
    Ok(())
}

/// Carries out the steps. An error leaves some done.
pub fn carry_out(store: &mut Store, steps: &[Step], now: SystemTime) -> Result<(), Error> {
    for Step { before, after } in steps {
        match before {
            None => drop(store.create(after.clone(), Owner::default(), now)?),
            Some(found) if found.content == *after => {}
            Some(found) => {
                let expected = Expected { version: Some(found.version), ..Expected::default() };
                store.update(after.clone(), expected, now)?;
            }
        }
    }
    Ok(())
}
