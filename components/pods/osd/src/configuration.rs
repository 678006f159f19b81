//! The service `Configuration`: several changes at once, tries, and generations.

use crate::access::Caller;
use crate::access::record::Changed;
use crate::apply::Step;
use crate::catalog;
use crate::connections::Peer;
use crate::documents;
use crate::generations::{Difference, Generation};
use crate::host;
use crate::init::Init;
use crate::keeper::Keeper;
use crate::shared::SharedStore;
use crate::wire;
use osbuild_cosi::v1::applied_resource::Outcome;
use osbuild_cosi::v1::configuration_server::Configuration;
use osbuild_cosi::v1::{
    self as v1, AppliedResource, ApplyRequest, ApplyResponse, BeginTryRequest, BeginTryResponse,
    ConfirmTryRequest, ConfirmTryResponse, GetTryRequest, GetTryResponse, ListGenerationsRequest,
    ListGenerationsResponse, RestoreGenerationRequest, RestoreGenerationResponse, RevertTryRequest,
    RevertTryResponse,
};
use osbuild_protocol::{Client, ClientError, RefusalCode, Request as Wanted, TryState, TryTime};
use osbuild_resources::{Content, Key};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;

/// Serves tries. `init` keeps the time and takes back what it has set; the store takes back its
/// resources.
#[derive(Clone)]
pub struct ConfigurationService {
    /// The resources.
    pub store: Arc<SharedStore>,
    /// What keeps them.
    pub keeper: Option<Arc<Keeper>>,
    /// `init`, if there is a host.
    pub init: Option<Arc<Init>>,
}

impl ConfigurationService {
    async fn converse<T: Send + 'static>(
        &self,
        talk: impl FnOnce(&mut Client, &SharedStore) -> Result<T, ClientError> + Send + 'static,
    ) -> Result<T, Status> {
        let Some(init) = &self.init else {
            return Err(Status::unimplemented("osd acts on no node, so there is nothing to try"));
        };
        let store = self.store.clone();
        init.converse(move |client| talk(client, &store)).await.map_err(status)
    }

    async fn confirm(&self, caller: &Caller) -> Result<(), Status> {
        let confirm = |client: &mut Client, store: &SharedStore| {
            // Changes that `init` does not have yet are part of the try.
            host::apply(client, store)?;
            client.send(&Wanted::ConfirmTry)?;
            store.confirm_try();
            Ok(())
        };
        self.converse(confirm).await?;
        self.store.record_generation(&caller.to_string());
        match &self.keeper {
            Some(keeper) => keeper.keep().await,
            None => Ok(()),
        }
    }

    /// Refuses a change, unless it is a dry run, while the node starts with earlier settings.
    fn admit(&self, is_dry: bool) -> Result<(), Status> {
        if is_dry { Ok(()) } else { self.store.admit_changes() }
    }

    /// Answers when the changes of these resources by the caller are on the disk, unless they were
    /// none.
    async fn keep<'k, T>(
        &self,
        caller: &Caller,
        is_dry: bool,
        keys: impl Iterator<Item = &'k Key>,
        message: T,
    ) -> Answer<T> {
        if is_dry {
            return Ok(Response::new(message));
        }
        let response = Changed::of(keys, message);
        self.store.record_generation(&caller.to_string());
        if let Some(keeper) = &self.keeper {
            keeper.keep().await?;
        }
        Ok(response)
    }
}

/// The status of a conversation that failed.
fn status(error: ClientError) -> Status {
    match error {
        ClientError::Refused(refusal) => match refusal.code {
            RefusalCode::NoTry => Status::failed_precondition(refusal.reason),
            _ => Status::unavailable(refusal.reason),
        },
        error => Status::unavailable(error.to_string()),
    }
}

fn applied(key: &Key, before: Option<&Content>, after: Option<&Content>) -> AppliedResource {
    let outcome = match (before, after) {
        (before, after) if before == after => Outcome::Unchanged,
        (None, _) => Outcome::Created,
        (Some(_), Some(_)) => Outcome::Updated,
        (Some(_), None) => Outcome::Destroyed,
    };
    let yaml = |content: Option<&Content>| {
        content.map_or_else(String::new, |content| content.spec.yaml.clone())
    };
    let [metadata_before, metadata_after] = match [before, after].map(metadata) {
        [before, after] if before == after => Default::default(),
        metadata => metadata,
    };
    AppliedResource {
        namespace: key.kind().namespace().to_owned(),
        r#type: key.kind().type_name().to_owned(),
        id: key.id().to_owned(),
        outcome: outcome.into(),
        before: yaml(before),
        after: yaml(after),
        metadata_before,
        metadata_after,
    }
}

/// The labels and annotations of a resource as they stand in documents.
#[derive(Serialize)]
struct DocumentMetadata<'a> {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
}

/// The metadata as YAML; empty if there is none.
fn metadata(content: Option<&Content>) -> String {
    let Some(Content { labels, annotations, .. }) = content else { return String::new() };
    match labels.is_empty() && annotations.is_empty() {
        true => String::new(),
        false => serde_saphyr::to_string(&DocumentMetadata { labels, annotations })
            .expect("texts are YAML"),
    }
}

fn step(Step { before, after }: &Step) -> AppliedResource {
    applied(&after.key, before.as_ref().map(|before| &before.content), Some(after))
}

fn difference(Difference { key, before, after }: &Difference) -> AppliedResource {
    applied(key, before.as_ref(), after.as_ref())
}

fn generation((generation, differences): (&Generation, Vec<Difference>)) -> v1::Generation {
    let since_1970 = generation.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    v1::Generation {
        number: generation.number,
        time_seconds: since_1970.as_secs().try_into().unwrap_or(i64::MAX),
        caller: generation.caller.clone(),
        changes: differences.iter().map(difference).collect(),
    }
}

/// Refuses changes of types that the caller may not write.
fn permit<'k>(caller: &Caller, keys: impl IntoIterator<Item = &'k Key>) -> Result<(), Status> {
    keys.into_iter().map(Key::kind).try_for_each(|kind| {
        caller.require(catalog::writer(kind), format_args!("a change of {kind}"))
    })
}

#[tonic::async_trait]
impl Configuration for ConfigurationService {
    async fn apply(&self, request: Request<ApplyRequest>) -> Answer<ApplyResponse> {
        let caller = Caller::of(request.extensions());
        let ApplyRequest { documents, dry_run } = request.into_inner();
        let drafts = documents::read(&documents).map_err(wire::invalid)?;
        permit(&caller, drafts.iter().map(|draft| &draft.key))?;
        self.admit(dry_run)?;
        let steps = self.store.apply(drafts, dry_run)?;
        let resources = steps.iter().map(step).collect();
        let is_changed =
            |step: &&Step| step.before.as_ref().is_none_or(|before| before.content != step.after);
        let keys = steps.iter().filter(is_changed).map(|step| &step.after.key);
        self.keep(&caller, dry_run, keys, ApplyResponse { resources }).await
    }

    async fn list_generations(
        &self,
        _: Request<ListGenerationsRequest>,
    ) -> Answer<ListGenerationsResponse> {
        let generations = self.store.generations();
        let generations = generations.with_differences().into_iter().map(generation).collect();
        Ok(Response::new(ListGenerationsResponse { generations }))
    }

    async fn restore_generation(
        &self,
        request: Request<RestoreGenerationRequest>,
    ) -> Answer<RestoreGenerationResponse> {
        let caller = Caller::of(request.extensions());
        let RestoreGenerationRequest { number, dry_run } = request.into_inner();
        self.admit(dry_run)?;
        let differences = self.store.restore_generation(number, dry_run, |differences| {
            permit(&caller, differences.iter().map(|one| &one.key))
        })?;
        let resources = differences.iter().map(difference).collect();
        let keys = differences.iter().map(|one| &one.key);
        self.keep(&caller, dry_run, keys, RestoreGenerationResponse { resources }).await
    }

    async fn begin_try(&self, request: Request<BeginTryRequest>) -> Answer<BeginTryResponse> {
        let time = TryTime::new(request.into_inner().timeout_seconds);
        let time = time.map_err(|refusal| Status::invalid_argument(refusal.reason))?;
        let begin = move |client: &mut Client, store: &SharedStore| {
            // What was changed before the try is no part of it.
            host::apply(client, store)?;
            client.send(&Wanted::BeginTry(time))?;
            store.begin_try();
            Ok(())
        };
        self.converse(begin).await?;
        Ok(Response::new(BeginTryResponse {}))
    }

    async fn confirm_try(&self, request: Request<ConfirmTryRequest>) -> Answer<ConfirmTryResponse> {
        let caller = Caller::of(request.extensions());
        let opened = request.extensions().get::<Peer>().map(|peer| peer.opened);
        if opened < self.store.last_tried() {
            return Err(Status::failed_precondition(
                "confirm over a new connection: this one was opened before the last change, which \
                 may keep clients from connecting",
            ));
        }
        permit(&caller, self.store.tried_differences().iter().map(|one| &one.key))?;
        // What `init` has confirmed has to be on the disk, even if the caller does not wait for it.
        let service = self.clone();
        let confirmed = tokio::spawn(async move { service.confirm(&caller).await });
        confirmed.await.expect("no confirmation panics")?;
        Ok(Response::new(ConfirmTryResponse {}))
    }

    async fn revert_try(&self, request: Request<RevertTryRequest>) -> Answer<RevertTryResponse> {
        let caller = Caller::of(request.extensions());
        permit(&caller, self.store.tried_differences().iter().map(|one| &one.key))?;
        let revert = |client: &mut Client, store: &SharedStore| {
            host::apply(client, store)?;
            client.send(&Wanted::RevertTry)?;
            Ok(store.take_back())
        };
        let taken_back = self.converse(revert).await?;
        taken_back.map_err(|error| wire::status(&error))?;
        Ok(Response::new(RevertTryResponse {}))
    }

    async fn get_try(&self, _: Request<GetTryRequest>) -> Answer<GetTryResponse> {
        let tried = self.converse(|client, _| Ok(client.settings()?.tried)).await?;
        Ok(Response::new(match tried {
            TryState::Running(remaining_seconds) => {
                GetTryResponse { running: true, remaining_seconds }
            }
            TryState::None | TryState::Over => GetTryResponse::default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_resources::{Content, Key, Kind, Owner, Spec};
    use std::time::{Instant, SystemTime};
    use tonic::Code;

    #[test]
    fn a_change_of_labels_alone_is_shown() {
        let key = Key::new(Kind::new("system", "Hostnames.osbuild").unwrap(), "a").unwrap();
        let before = Content::new(key.clone(), Spec::default());
        let mut after = before.clone();
        after.labels.insert("rack".into(), "7".into());
        let change = applied(&key, Some(&before), Some(&after));
        assert_eq!(change.outcome(), Outcome::Updated);
        assert_eq!(change.metadata_before, "");
        assert_eq!(change.metadata_after, "labels:\n  rack: \"7\"\n");
        let change = applied(&key, Some(&after), Some(&after));
        assert_eq!(change.metadata_after, "", "nothing changes");
    }

    #[tokio::test]
    async fn a_connection_from_before_the_last_change_confirms_nothing() {
        let store = Arc::new(SharedStore::new().unwrap());
        let service = ConfigurationService { store: store.clone(), keeper: None, init: None };
        let confirm = async |opened| {
            let mut request = Request::new(ConfirmTryRequest {});
            let caller = Arc::new(Caller::local());
            request.extensions_mut().insert(Peer { caller, opened, remote: None });
            service.confirm_try(request).await.unwrap_err().code()
        };
        let before = Instant::now();
        store.begin_try();
        let there_is_no_init = Code::Unimplemented;
        assert_eq!(confirm(before).await, there_is_no_init, "nothing is changed yet");
        let kind = Kind::new("system", "Hostnames.osbuild").unwrap();
        let content = Content::new(Key::new(kind.clone(), "a").unwrap(), Spec::default());
        let create = |store: &mut osbuild_resources::Store| {
            store.create(content, Owner::default(), SystemTime::now())
        };
        store.write(&kind, create).unwrap();
        assert_eq!(confirm(before).await, Code::FailedPrecondition);
        assert_eq!(confirm(Instant::now()).await, there_is_no_init);
    }
}
