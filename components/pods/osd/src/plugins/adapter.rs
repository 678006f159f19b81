//! The service `ControllerAdapter`.

use super::reconcile::{self, Messages};
use super::runtime::{inputs, session};
use super::sessions::{Caller, Session, Sessions};
use crate::access::record::Changed;
use crate::watches;
use crate::wire;
use osbuild_cosi::resource::Resource as Sent;
use osbuild_cosi::runtime::controller_adapter_server::ControllerAdapter;
use osbuild_cosi::runtime::{
    Options, QueueReconcileRequest, QueueReconcileResponse, ReconcileEventsRequest,
    RuntimeAddFinalizerRequest, RuntimeAddFinalizerResponse, RuntimeCreateRequest,
    RuntimeCreateResponse, RuntimeDestroyRequest, RuntimeDestroyResponse, RuntimeGetRequest,
    RuntimeGetResponse, RuntimeListRequest, RuntimeListResponse, RuntimeRemoveFinalizerRequest,
    RuntimeRemoveFinalizerResponse, RuntimeTeardownRequest, RuntimeTeardownResponse,
    RuntimeUpdateRequest, RuntimeUpdateResponse, RuntimeWatchForRequest, RuntimeWatchForResponse,
    UpdateInputsRequest, UpdateInputsResponse,
};
use osbuild_resources::{Content, Error, Expected, Key, Kind, Owner, Phase, Resource, Target};
use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;
use tokio_stream::{Stream, StreamExt, iter};
use tonic::{Extensions, Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;

/// Has the controllers of plugins read and write resources.
pub struct AdapterService {
    /// The plugins.
    pub sessions: Arc<Sessions>,
}

impl AdapterService {
    fn caller(&self, extensions: &Extensions, token: &str) -> Result<(Session, Caller), Status> {
        let session = session(extensions)?;
        let caller = self.sessions.caller(&session, token)?;
        Ok((session, caller))
    }

    /// Waits until the resource exists, and perhaps has no finalizers.
    async fn wait(&self, key: &Key, without_finalizers: bool) -> Result<Arc<Resource>, Status> {
        let mut watch = self.sessions.store().watch_input(Target::Resource(key.clone()))?;
        loop {
            let found = self.sessions.store().read(|store| store.get(key));
            let is_met =
                |found: &Arc<Resource>| !without_finalizers || found.content.finalizers.is_empty();
            if let Some(found) = found.ok().filter(is_met) {
                return Ok(found);
            }
            watch.next(usize::MAX).await.map_err(|overrun| watches::lost(&overrun))?;
        }
    }

    /// A resource that a controller sends, if it may write it and has room for it.
    fn draft(&self, caller: &Caller, sent: Option<Sent>) -> Result<(Content, Expected), Status> {
        let (content, version, _) = wire::draft(sent)?;
        require_output(caller, content.key.kind())?;
        let old = self.sessions.store().read(|store| store.get(&content.key)).ok();
        self.sessions.has_room(caller, old.as_deref(), &content)?;
        let (owner, phase) = (Owner(caller.name.clone()), Some(Phase::Running));
        Ok((content, Expected { version, owner, phase }))
    }
}

fn require_output(caller: &Caller, kind: &Kind) -> Result<(), Status> {
    if !caller.access.may_write(kind.type_name()) {
        return Err(denied(caller, kind, "is no output"));
    }
    if !caller.rights.may_write_in(kind.namespace()) {
        return Err(denied(caller, kind, "is not in the namespace of plugins"));
    }
    Ok(())
}

fn require_input(caller: &Caller, kind: &Kind, id: Option<&str>) -> Result<(), Status> {
    match caller.access.may_read(kind, id) {
        true => Ok(()),
        false => Err(denied(caller, kind, "is no input or output")),
    }
}

fn require_strong(caller: &Caller, key: &Key) -> Result<(), Status> {
    match caller.access.may_hold(key) {
        true => Ok(()),
        false => Err(denied(caller, key, "is no strong input")),
    }
}

fn denied(caller: &Caller, what: impl Display, reason: &str) -> Status {
    let message = format!("{what} {reason} of the controller `{}`", caller.name);
    Status::permission_denied(message)
}

/// Refuses to act for another owner than the controller.
fn require_self(caller: &Caller, options: Option<Options>) -> Result<Owner, Status> {
    match options.and_then(|options| options.owner).filter(|owner| *owner != caller.name) {
        None => Ok(Owner(caller.name.clone())),
        Some(other) => {
            let message = format!("the controller `{}` is not `{other}`", caller.name);
            Err(Status::permission_denied(message))
        }
    }
}

/// Of the codes for a conflict, controllers know one.
fn status(error: &Error) -> Status {
    match error {
        Error::PhaseConflict(..) => Status::failed_precondition(error.to_string()),
        error => wire::status(error),
    }
}

#[tonic::async_trait]
impl ControllerAdapter for AdapterService {
    type ReconcileEventsStream = Messages;
    type ListStream = Pin<Box<dyn Stream<Item = Result<RuntimeListResponse, Status>> + Send>>;

    async fn reconcile_events(
        &self,
        request: Request<ReconcileEventsRequest>,
    ) -> Answer<Self::ReconcileEventsStream> {
        let token = &request.get_ref().controller_token;
        let (session, caller) = self.caller(request.extensions(), token)?;
        Ok(Response::new(reconcile::open(&self.sessions, caller.name, session.id)))
    }

    async fn queue_reconcile(
        &self,
        request: Request<QueueReconcileRequest>,
    ) -> Answer<QueueReconcileResponse> {
        let token = &request.get_ref().controller_token;
        let (_, caller) = self.caller(request.extensions(), token)?;
        self.sessions.ask(&caller);
        Ok(Response::new(QueueReconcileResponse {}))
    }

    async fn update_inputs(
        &self,
        request: Request<UpdateInputsRequest>,
    ) -> Answer<UpdateInputsResponse> {
        let token = &request.get_ref().controller_token;
        let (_, caller) = self.caller(request.extensions(), token)?;
        let inputs = inputs(request.into_inner().inputs)?;
        let access = caller.access.with_inputs(inputs).map_err(wire::invalid)?;
        self.sessions.set_access(&caller, access)?;
        Ok(Response::new(UpdateInputsResponse {}))
    }

    async fn get(&self, request: Request<RuntimeGetRequest>) -> Answer<RuntimeGetResponse> {
        let token = &request.get_ref().controller_token;
        let (_, caller) = self.caller(request.extensions(), token)?;
        let RuntimeGetRequest { namespace, r#type, id, .. } = request.into_inner();
        let key = wire::key(&namespace, &r#type, &id)?;
        require_input(&caller, key.kind(), Some(key.id()))?;
        let found = self.sessions.store().read(|store| store.get(&key));
        let found = found.map_err(|error| status(&error))?;
        Ok(Response::new(RuntimeGetResponse { resource: Some(wire::resource(&found)) }))
    }

    async fn list(&self, request: Request<RuntimeListRequest>) -> Answer<Self::ListStream> {
        let token = &request.get_ref().controller_token;
        let (_, caller) = self.caller(request.extensions(), token)?;
        let RuntimeListRequest { namespace, r#type, options, .. } = request.into_inner();
        let kind = wire::kind(&namespace, &r#type)?;
        require_input(&caller, &kind, None)?;
        let query = wire::query(options.unwrap_or_default().label_query, None)?;
        let found: Vec<_> = self.sessions.store().read(|store| store.list(&kind, &query).collect());
        let messages = iter(found)
            .map(|found| Ok(RuntimeListResponse { resource: Some(wire::resource(&found)) }));
        Ok(Response::new(Box::pin(messages)))
    }

    async fn watch_for(
        &self,
        request: Request<RuntimeWatchForRequest>,
    ) -> Answer<RuntimeWatchForResponse> {
        let token = &request.get_ref().controller_token;
        let (_, caller) = self.caller(request.extensions(), token)?;
        let request = request.into_inner();
        let key = wire::key(&request.namespace, &request.r#type, &request.id)?;
        require_input(&caller, key.kind(), Some(key.id()))?;
        let found = self.wait(&key, request.finalizers_empty.is_some()).await?;
        Ok(Response::new(RuntimeWatchForResponse { resource: Some(wire::resource(&found)) }))
    }

    async fn create(
        &self,
        request: Request<RuntimeCreateRequest>,
    ) -> Answer<RuntimeCreateResponse> {
        let token = &request.get_ref().controller_token;
        let (_, caller) = self.caller(request.extensions(), token)?;
        let (content, Expected { owner, .. }) =
            self.draft(&caller, request.into_inner().resource)?;
        if !content.finalizers.is_empty() {
            let message = format!("{} has finalizers: add them once it exists", content.key);
            return Err(Status::invalid_argument(message));
        }
        let (kind, now) = (content.key.kind().clone(), SystemTime::now());
        let store = self.sessions.store();
        let created = store.write_beside(&kind, |store| store.create(content, owner, now));
        let created = created.map_err(|error| status(&error))?;
        let resource = Some(wire::resource(&created));
        Ok(Changed::of([&created.content.key], RuntimeCreateResponse { resource }))
    }

    async fn update(
        &self,
        request: Request<RuntimeUpdateRequest>,
    ) -> Answer<RuntimeUpdateResponse> {
        let token = &request.get_ref().controller_token;
        let (_, caller) = self.caller(request.extensions(), token)?;
        let (content, expected) = self.draft(&caller, request.into_inner().new_resource)?;
        let (kind, now) = (content.key.kind().clone(), SystemTime::now());
        let store = self.sessions.store();
        let updated = store.write_beside(&kind, |store| {
            // Others may be among them, and those of a plugin go with its grant.
            let finalizers = store.get(&content.key)?.content.finalizers.clone();
            store.update(Content { finalizers, ..content }, expected, now)
        });
        let updated = updated.map_err(|error| status(&error))?;
        let resource = Some(wire::resource(&updated));
        Ok(Changed::of([&updated.content.key], RuntimeUpdateResponse { resource }))
    }

    async fn teardown(
        &self,
        request: Request<RuntimeTeardownRequest>,
    ) -> Answer<RuntimeTeardownResponse> {
        let token = &request.get_ref().controller_token;
        let (_, caller) = self.caller(request.extensions(), token)?;
        let RuntimeTeardownRequest { namespace, r#type, id, options, .. } = request.into_inner();
        let key = wire::key(&namespace, &r#type, &id)?;
        require_output(&caller, key.kind())?;
        let (owner, now) = (require_self(&caller, options)?, SystemTime::now());
        let store = self.sessions.store();
        let torn = store.write_beside(key.kind(), |store| store.tear_down(&key, &owner, now));
        let ready = torn.map_err(|error| status(&error))?;
        Ok(Changed::of([&key], RuntimeTeardownResponse { ready }))
    }

    async fn destroy(
        &self,
        request: Request<RuntimeDestroyRequest>,
    ) -> Answer<RuntimeDestroyResponse> {
        let token = &request.get_ref().controller_token;
        let (_, caller) = self.caller(request.extensions(), token)?;
        let RuntimeDestroyRequest { namespace, r#type, id, options, .. } = request.into_inner();
        let key = wire::key(&namespace, &r#type, &id)?;
        require_output(&caller, key.kind())?;
        let owner = require_self(&caller, options)?;
        let store = self.sessions.store();
        let destroyed = store.write_beside(key.kind(), |store| store.destroy(&key, &owner));
        destroyed.map_err(|error| status(&error))?;
        Ok(Changed::of([&key], RuntimeDestroyResponse {}))
    }

    async fn add_finalizer(
        &self,
        request: Request<RuntimeAddFinalizerRequest>,
    ) -> Answer<RuntimeAddFinalizerResponse> {
        let token = &request.get_ref().controller_token;
        let (_, caller) = self.caller(request.extensions(), token)?;
        let RuntimeAddFinalizerRequest { namespace, r#type, id, finalizers, .. } =
            request.into_inner();
        let key = wire::key(&namespace, &r#type, &id)?;
        require_strong(&caller, &key)?;
        self.sessions.hold(&caller, &key, finalizers.into_iter().collect())?;
        Ok(Changed::of([&key], RuntimeAddFinalizerResponse {}))
    }

    async fn remove_finalizer(
        &self,
        request: Request<RuntimeRemoveFinalizerRequest>,
    ) -> Answer<RuntimeRemoveFinalizerResponse> {
        let token = &request.get_ref().controller_token;
        let (_, caller) = self.caller(request.extensions(), token)?;
        let RuntimeRemoveFinalizerRequest { namespace, r#type, id, finalizers, .. } =
            request.into_inner();
        let key = wire::key(&namespace, &r#type, &id)?;
        require_strong(&caller, &key)?;
        self.sessions.release(&caller, &key, &finalizers.into_iter().collect())?;
        Ok(Changed::of([&key], RuntimeRemoveFinalizerResponse {}))
    }
}
