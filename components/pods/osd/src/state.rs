//! The service `State`.

use crate::access::record::Changed;
use crate::access::rules;
use crate::access::{Caller, Verb};
use crate::catalog::Catalog;
use crate::client_type::ClientType;
use crate::keeper::Keeper;
use crate::limits::MAX_OWNER;
use crate::shared::SharedStore;
use crate::tried::PartOf;
use crate::watches::{self, Messages};
use crate::wire;
use osbuild_cosi::resource::state_server::State;
use osbuild_cosi::resource::{
    CreateRequest, CreateResponse, DestroyRequest, DestroyResponse, GetRequest, GetResponse,
    ListRequest, ListResponse, TeardownAndDestroyRequest, TeardownAndDestroyResponse,
    TeardownRequest, TeardownResponse, UpdateRequest, UpdateResponse, WatchRequest,
};
use osbuild_resources::{
    Change, Content, Error, Event, Expected, Key, Owner, Phase, Resource, Start, Store, Target,
};
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;
use tokio_stream::{Stream, StreamExt, iter};
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;

/// Serves the store. Each call converts its request, does one operation on the store, and converts
/// what that returns.
pub struct StateService {
    store: Arc<SharedStore>,
    catalog: Catalog,
    keeper: Option<Arc<Keeper>>,
}

/// The caller of a request that writes, and the try that the request is part of.
struct Writer {
    caller: Arc<Caller>,
    part_of: PartOf,
}

impl Writer {
    fn of<T>(request: &Request<T>) -> Result<Writer, Status> {
        let caller = Caller::of(request.extensions());
        Ok(Writer { caller, part_of: PartOf::of(request.metadata())? })
    }
}

impl StateService {
    /// A service that writes to the store what the catalog admits. With a keeper it answers when
    /// the change is on the disk.
    pub fn new(
        store: Arc<SharedStore>,
        catalog: Catalog,
        keeper: Option<Arc<Keeper>>,
    ) -> StateService {
        StateService { store, catalog, keeper }
    }

    /// Changes the resource, if the caller may write its kind, and waits until that is kept.
    async fn write<T>(
        &self,
        writer: &Writer,
        verb: Verb,
        key: &Key,
        write: impl FnOnce(&mut Store) -> Result<T, Error>,
    ) -> Result<T, Status> {
        let written = self.change(writer, verb, key, write)?;
        self.keep().await?;
        Ok(written)
    }

    /// Changes the resource, if the caller may write its kind.
    fn change<T>(
        &self,
        Writer { caller, part_of }: &Writer,
        verb: Verb,
        key: &Key,
        write: impl FnOnce(&mut Store) -> Result<T, Error>,
    ) -> Result<T, Status> {
        self.catalog.admit(caller, verb, key.kind())?;
        let is_setting = ClientType::of(key.kind()).is_some_and(ClientType::is_setting);
        if is_setting {
            self.store.admit_changes()?;
        }
        let written = self.store.write_in_try(*part_of, key.kind(), write)?;
        if is_setting {
            self.store.record_write(&caller.to_string());
        }
        Ok(written)
    }

    /// Whether an update to this content begins what `Teardown` begins.
    fn begins_teardown(&self, content: &Content) -> bool {
        let found = self.store.read(|store| store.get(&content.key));
        let is_running = found.is_ok_and(|found| found.content.phase == Phase::Running);
        content.phase == Phase::TearingDown && is_running
    }

    /// Waits until the resources of now are on the disk.
    async fn keep(&self) -> Result<(), Status> {
        match &self.keeper {
            Some(keeper) => keeper.keep().await,
            None => Ok(()),
        }
    }

    /// Changes the content of a resource to one that the catalog accepts.
    async fn put<T>(
        &self,
        writer: &Writer,
        verb: Verb,
        mut content: Content,
        write: impl FnOnce(&mut Store, Content) -> Result<T, Error>,
    ) -> Result<T, Status> {
        self.store.read(|store| Catalog::check(&mut content, store))?;
        rules::keeps_in(&writer.caller, &content.key, &content.spec)?;
        let key = content.key.clone();
        self.write(writer, verb, &key, |store| write(store, content)).await
    }

    /// Waits until the resource has no finalizers, or is gone. Returns whether it is gone: another
    /// of the same name that was created since is not the caller's. Calls share one thread, so none
    /// creates another before the caller waits for something; conversations with `init`, which end
    /// tries, have threads of their own.
    ///
    /// # Errors
    /// The resource is in use again, such as after a try that was taken back.
    async fn is_gone(&self, caller: &Caller, key: &Key) -> Result<bool, Status> {
        let target = Target::Resource(key.clone());
        let (mut events, mut watch) = self.store.watch(caller, target, &Start::Now, false)?;
        loop {
            let destroyed = |event: &Event| {
                matches!(event, Event::Absent(_) | Event::Changed(Change::Destroyed(_), _))
            };
            if events.iter().any(destroyed) {
                return Ok(true);
            }
            let found = self.store.read(|store| store.get(key));
            if let Ok(Resource { content, .. }) = found.as_deref() {
                if content.phase == Phase::Running {
                    let message = format!("{key} is in use again, and not deleted");
                    return Err(Status::aborted(message));
                }
                if content.finalizers.is_empty() {
                    return Ok(false);
                }
            }
            events = watch.next(usize::MAX).await.map_err(|overrun| watches::lost(&overrun))?;
        }
    }
}

#[tonic::async_trait]
impl State for StateService {
    type ListStream = Pin<Box<dyn Stream<Item = Result<ListResponse, Status>> + Send>>;
    type WatchStream = Messages;

    async fn get(&self, request: Request<GetRequest>) -> Answer<GetResponse> {
        let caller = Caller::of(request.extensions());
        let GetRequest { namespace, r#type, id, options: _ } = request.into_inner();
        let key = wire::key(&namespace, &r#type, &id)?;
        caller.may(Verb::Get, key.kind())?;
        let found = self.store.read(|store| store.get(&key));
        let found = found.map_err(|error| wire::status(&error))?;
        Ok(Response::new(GetResponse { resource: Some(wire::resource(&found)) }))
    }

    async fn list(&self, request: Request<ListRequest>) -> Answer<Self::ListStream> {
        let caller = Caller::of(request.extensions());
        let ListRequest { namespace, r#type, options } = request.into_inner();
        let kind = wire::kind(&namespace, &r#type)?;
        caller.may(Verb::List, &kind)?;
        let options = options.unwrap_or_default();
        let query = wire::query(options.label_query, options.id_query)?;
        // They stay in memory until the client has taken them, also those that change meanwhile.
        let found: Vec<_> = self.store.read(|store| store.list(&kind, &query).collect());
        let messages =
            iter(found).map(|found| Ok(ListResponse { resource: Some(wire::resource(&found)) }));
        Ok(Response::new(Box::pin(messages)))
    }

    async fn create(&self, request: Request<CreateRequest>) -> Answer<CreateResponse> {
        let writer = Writer::of(&request)?;
        let CreateRequest { resource, options } = request.into_inner();
        let (content, _, named) = wire::draft(resource)?;
        let owner = Owner(options.unwrap_or_default().owner);
        if named != Owner::default() && named != owner {
            let message = format!("{} names {named} as owner, not {owner}", content.key);
            return Err(Status::permission_denied(message));
        }
        if owner.0.len() > MAX_OWNER {
            let message = format!("the owner of {} has more than {MAX_OWNER} bytes", content.key);
            return Err(Status::invalid_argument(message));
        }
        let now = SystemTime::now();
        let created = self
            .put(&writer, Verb::Create, content, |store, content| store.create(content, owner, now))
            .await?;
        let message = CreateResponse { resource: Some(wire::resource(&created)) };
        Ok(Changed::of([&created.content.key], message))
    }

    async fn update(&self, request: Request<UpdateRequest>) -> Answer<UpdateResponse> {
        let writer = Writer::of(&request)?;
        let UpdateRequest { new_resource, options } = request.into_inner();
        let (content, version, _) = wire::draft(new_resource)?;
        let options = options.unwrap_or_default();
        let phase = options.expected_phase.map(|phase| phase.parse().map_err(wire::invalid));
        let expected = Expected { version, owner: Owner(options.owner), phase: phase.transpose()? };
        if self.begins_teardown(&content) {
            self.catalog.admit(&writer.caller, Verb::Destroy, content.key.kind())?;
        }
        let now = SystemTime::now();
        let update = |store: &mut Store, content| store.update(content, expected, now);
        let updated = self.put(&writer, Verb::Update, content, update).await?;
        let message = UpdateResponse { resource: Some(wire::resource(&updated)) };
        Ok(Changed::of([&updated.content.key], message))
    }

    async fn destroy(&self, request: Request<DestroyRequest>) -> Answer<DestroyResponse> {
        let writer = Writer::of(&request)?;
        let DestroyRequest { namespace, r#type, id, options } = request.into_inner();
        let key = wire::key(&namespace, &r#type, &id)?;
        let owner = Owner(options.unwrap_or_default().owner);
        self.write(&writer, Verb::Destroy, &key, |store| store.destroy(&key, &owner)).await?;
        Ok(Changed::of([&key], DestroyResponse {}))
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Answer<Self::WatchStream> {
        let caller = Caller::of(request.extensions());
        watches::open(&self.store, &caller, request.into_inner()).map(Response::new)
    }

    async fn teardown(&self, request: Request<TeardownRequest>) -> Answer<TeardownResponse> {
        let writer = Writer::of(&request)?;
        let TeardownRequest { namespace, r#type, id, options } = request.into_inner();
        let key = wire::key(&namespace, &r#type, &id)?;
        let owner = Owner(options.unwrap_or_default().owner);
        let now = SystemTime::now();
        let tear_down = |store: &mut Store| store.tear_down(&key, &owner, now);
        let destroy_ready = self.write(&writer, Verb::Destroy, &key, tear_down).await?;
        Ok(Changed::of([&key], TeardownResponse { destroy_ready }))
    }

    async fn teardown_and_destroy(
        &self,
        request: Request<TeardownAndDestroyRequest>,
    ) -> Answer<TeardownAndDestroyResponse> {
        let writer = Writer::of(&request)?;
        let TeardownAndDestroyRequest { namespace, r#type, id, options } = request.into_inner();
        let key = wire::key(&namespace, &r#type, &id)?;
        let owner = Owner(options.unwrap_or_default().owner);
        let now = SystemTime::now();
        let destroy = |store: &mut Store| store.tear_down_and_destroy(&key, &owner, now);
        if !self.change(&writer, Verb::Destroy, &key, destroy)? {
            // If the disk does not take the beginning of the deletion, it goes on: the last write
            // has all of it, and says whether that is kept.
            let _ = self.keep().await;
            if !self.is_gone(&writer.caller, &key).await? {
                self.change(&writer, Verb::Destroy, &key, |store| store.destroy(&key, &owner))?;
            }
        }
        self.keep().await?;
        Ok(Changed::of([&key], TeardownAndDestroyResponse {}))
    }
}
