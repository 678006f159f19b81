//! The service `Configuration`: several changes at once, and tries.

use crate::access::Caller;
use crate::access::record::Changed;
use crate::apply::Step;
use crate::catalog;
use crate::connections::Peer;
use crate::documents;
use crate::host;
use crate::init::Init;
use crate::keeper::Keeper;
use crate::shared::SharedStore;
use crate::wire;
use osbuild_cosi::v1::applied_resource::Outcome;
use osbuild_cosi::v1::configuration_server::Configuration;
use osbuild_cosi::v1::{
    AppliedResource, ApplyRequest, ApplyResponse, BeginTryRequest, BeginTryResponse,
    ConfirmTryRequest, ConfirmTryResponse, GetTryRequest, GetTryResponse, RevertTryRequest,
    RevertTryResponse,
};
use osbuild_protocol::{Client, ClientError, RefusalCode, Request as Wanted, TryState, TryTime};
use std::sync::Arc;
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;

/// Serves tries. `init` keeps the time and takes back what it has set; the store takes back its
/// resources.
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

fn applied(Step { before, after }: Step) -> AppliedResource {
    let outcome = match &before {
        None => Outcome::Created,
        Some(before) if before.content == after => Outcome::Unchanged,
        Some(_) => Outcome::Updated,
    };
    AppliedResource {
        namespace: after.key.kind().namespace().to_owned(),
        r#type: after.key.kind().type_name().to_owned(),
        id: after.key.id().to_owned(),
        outcome: outcome.into(),
        before: before.map_or_else(String::new, |before| before.content.spec.yaml.clone()),
        after: after.spec.yaml,
    }
}

#[tonic::async_trait]
impl Configuration for ConfigurationService {
    async fn apply(&self, request: Request<ApplyRequest>) -> Answer<ApplyResponse> {
        let caller = Caller::of(request.extensions());
        let ApplyRequest { documents, dry_run } = request.into_inner();
        let drafts = documents::read(&documents).map_err(wire::invalid)?;
        for kind in drafts.iter().map(|draft| draft.key.kind()) {
            caller.require(catalog::writer(kind), format_args!("a change of {kind}"))?;
        }
        let steps = self.store.apply(drafts, dry_run)?;
        if let Some(keeper) = self.keeper.as_ref().filter(|_| !dry_run) {
            keeper.keep().await?;
        }
        let keys: Vec<_> =
            steps.iter().filter(|_| !dry_run).map(|step| step.after.key.clone()).collect();
        let resources = steps.into_iter().map(applied).collect();
        Ok(Changed::of(&keys, ApplyResponse { resources }))
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
        let opened = request.extensions().get::<Peer>().map(|peer| peer.opened);
        if opened < self.store.last_tried() {
            return Err(Status::failed_precondition(
                "confirm over a new connection: this one was opened before the last change, which \
                 may keep clients from connecting",
            ));
        }
        let confirm = |client: &mut Client, store: &SharedStore| {
            // Changes that `init` does not have yet are part of the try.
            host::apply(client, store)?;
            client.send(&Wanted::ConfirmTry)?;
            store.confirm_try();
            Ok(())
        };
        self.converse(confirm).await?;
        if let Some(keeper) = &self.keeper {
            keeper.keep().await?;
        }
        Ok(Response::new(ConfirmTryResponse {}))
    }

    async fn revert_try(&self, _: Request<RevertTryRequest>) -> Answer<RevertTryResponse> {
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

    #[tokio::test]
    async fn a_connection_from_before_the_last_change_confirms_nothing() {
        let store = Arc::new(SharedStore::new().unwrap());
        let service = ConfigurationService { store: store.clone(), keeper: None, init: None };
        let confirm = async |opened| {
            let mut request = Request::new(ConfirmTryRequest {});
            request.extensions_mut().insert(Peer { caller: Caller::unknown(), opened });
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
