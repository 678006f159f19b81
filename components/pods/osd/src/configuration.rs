//! The service `Configuration`: several changes at once, tries, and generations.

use crate::access::record::Changed;
use crate::access::rules;
use crate::access::{Caller, Verb};
use crate::apply::Step;
use crate::client_type::ClientType;
use crate::connections::Peer;
use crate::documents::{self, Draft};
use crate::generations::{Difference, Generation};
use crate::host;
use crate::init::Init;
use crate::keeper::Keeper;
use crate::shared::SharedStore;
use crate::tried::PartOf;
use crate::wire;
use osbuild_cosi::v1::applied_resource::Outcome;
use osbuild_cosi::v1::configuration_server::Configuration;
use osbuild_cosi::v1::{
    self as v1, AppliedResource, ApplyRequest, ApplyResponse, BeginTryRequest, BeginTryResponse,
    ConfirmTryRequest, ConfirmTryResponse, GetTryRequest, GetTryResponse, ListGenerationsRequest,
    ListGenerationsResponse, RestoreGenerationRequest, RestoreGenerationResponse, RevertTryRequest,
    RevertTryResponse,
};
use osbuild_protocol::{
    Client, ClientError, REDACTED, REDACTED_CHANGE, RefusalCode, Request as Wanted, TryState,
    TryTime,
};
use osbuild_resources::{Content, Key};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, UNIX_EPOCH};
use tonic::{Request, Response, Status};

type Answer<T> = Result<Response<T>, Status>;

/// Serves tries. `init` keeps the time and takes back what it has set; the store takes back its
/// resources.
#[derive(Clone)]
pub struct ConfigurationService {
    /// The resources.
    pub store: Arc<SharedStore>,
    /// The writer of the files that keep the resources, if they are kept.
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

    async fn confirm(
        &self,
        part_of: PartOf,
        caller: Arc<Caller>,
        peer: Option<Peer>,
    ) -> Result<(), Status> {
        let name = caller.to_string();
        let confirm = move |client: &mut Client, store: &SharedStore| {
            let to_confirm = store.to_confirm();
            // Changes that `init` does not have yet are part of the try.
            host::apply(client, store)?;
            // Others may have changed settings, or revoked the caller's certificate, while this
            // call waited for `init`.
            let checked = peer.as_ref().map_or(Ok(()), Peer::check);
            let checked = checked.and_then(|()| store.check_try(part_of));
            let opened = peer.as_ref().map(|peer| peer.opened);
            if let Err(status) = checked.and_then(|()| may_confirm(store, &caller, opened)) {
                return Ok(Err(status));
            }
            match client.send(&Wanted::ConfirmTry) {
                Err(ClientError::Refused(refusal)) if refusal.code == RefusalCode::Busy => {
                    store.delay_confirmation();
                    return Ok(Err(Status::aborted(refusal.reason)));
                }
                sent => sent?,
            }
            Ok(store.confirm_try(&to_confirm).map_err(|error| wire::status(&error)))
        };
        self.converse(confirm).await??;
        self.store.record_generation(&name);
        match &self.keeper {
            Some(keeper) => keeper.keep().await,
            None => Ok(()),
        }
    }

    /// Refuses a change, unless it changes no setting, while the node starts with earlier settings.
    fn admit(&self, changes_none: bool) -> Result<(), Status> {
        if changes_none { Ok(()) } else { self.store.admit_changes() }
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
        after: match have_other_secrets(before, after) {
            true => yaml(after).replace(REDACTED, REDACTED_CHANGE),
            false => yaml(after),
        },
        metadata_before,
        metadata_after,
    }
}

/// Whether a resource has other secrets after than before.
fn have_other_secrets(before: Option<&Content>, after: Option<&Content>) -> bool {
    let secrets = [before, after].map(|content| content.map(|content| &content.spec.secrets));
    matches!(secrets, [Some(before), Some(after)] if before != after)
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

/// Refuses changes that the caller may not make.
fn permit<'d>(
    caller: &Caller,
    differences: impl IntoIterator<Item = &'d Difference>,
) -> Result<(), Status> {
    differences.into_iter().try_for_each(|Difference { key, before, after }| {
        let verb = match (before, after) {
            (_, None) => Verb::Destroy,
            (None, _) => Verb::Create,
            (Some(_), Some(_)) => Verb::Update,
        };
        caller.may(verb, key.kind())
    })
}

/// Refuses drafts that the caller may not apply.
fn permit_drafts(store: &SharedStore, caller: &Caller, drafts: &[Draft]) -> Result<(), Status> {
    drafts.iter().try_for_each(|Draft { key, spec, .. }| {
        let is_there = store.read(|store| store.get(key).is_ok());
        caller.may(if is_there { Verb::Update } else { Verb::Create }, key.kind())?;
        rules::keeps_in(caller, key, spec)
    })
}

/// Refuses a caller that may not make the changes of the running try.
fn permit_tried(store: &SharedStore, caller: &Caller) -> Result<(), Status> {
    permit(caller, &store.tried_differences())
}

/// Refuses to confirm the changes of the running try over a connection that was opened before the
/// last of them, and to a caller that may not make them.
fn may_confirm(
    store: &SharedStore,
    caller: &Caller,
    opened: Option<Instant>,
) -> Result<(), Status> {
    if opened < store.last_tried() {
        return Err(Status::failed_precondition(
            "confirm over a new connection: this one was opened before the last change, which may \
             keep clients from connecting",
        ));
    }
    permit_tried(store, caller)
}

#[tonic::async_trait]
impl Configuration for ConfigurationService {
    async fn apply(&self, request: Request<ApplyRequest>) -> Answer<ApplyResponse> {
        let caller = Caller::of(request.extensions());
        let part_of = PartOf::of(request.metadata())?;
        let ApplyRequest { documents, dry_run } = request.into_inner();
        let stored = |key: &Key| {
            let found = self.store.read(|store| store.get(key)).ok()?;
            Some(found.content.spec.clone())
        };
        let drafts = documents::read(&documents, stored).map_err(wire::invalid)?;
        permit_drafts(&self.store, &caller, &drafts)?;
        let is_setting =
            |one: &Draft| ClientType::of(one.key.kind()).is_some_and(ClientType::is_setting);
        self.admit(dry_run || !drafts.iter().any(is_setting))?;
        let steps = self.store.apply(part_of, drafts, dry_run)?;
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
        let part_of = PartOf::of(request.metadata())?;
        let RestoreGenerationRequest { number, dry_run } = request.into_inner();
        self.admit(dry_run)?;
        let permit = |differences: &[Difference]| permit(&caller, differences);
        let differences = self.store.restore_generation(part_of, number, dry_run, permit)?;
        let resources = differences.iter().map(difference).collect();
        let keys = differences.iter().map(|one| &one.key);
        self.keep(&caller, dry_run, keys, RestoreGenerationResponse { resources }).await
    }

    async fn begin_try(&self, request: Request<BeginTryRequest>) -> Answer<BeginTryResponse> {
        let caller = Caller::of(request.extensions()).to_string();
        let time = TryTime::new(request.into_inner().timeout_seconds);
        let time = time.map_err(|refusal| Status::invalid_argument(refusal.reason))?;
        let begin = move |client: &mut Client, store: &SharedStore| {
            // Apply earlier changes first: they are not part of the try.
            host::apply(client, store)?;
            let running = store.try_caller();
            if let Some(other) = running.as_ref().filter(|other| **other != caller) {
                return Ok(Err(Status::failed_precondition(format!(
                    "a try of {other} is running, whose time is not yours to change: wait for its \
                     end, or make your changes part of it",
                ))));
            }
            client.send(&Wanted::BeginTry(time))?;
            let number = store.begin_try(&caller);
            Ok(Ok(BeginTryResponse { extended: running.is_some(), number }))
        };
        self.converse(begin).await?.map(Response::new)
    }

    async fn confirm_try(&self, request: Request<ConfirmTryRequest>) -> Answer<ConfirmTryResponse> {
        let caller = Caller::of(request.extensions());
        let part_of = PartOf::of(request.metadata())?;
        let peer = request.extensions().get::<Peer>().cloned();
        may_confirm(&self.store, &caller, peer.as_ref().map(|peer| peer.opened))?;
        // Settings that `init` has confirmed must reach the disk, even if the caller does not wait.
        let service = self.clone();
        let confirmed = tokio::spawn(async move { service.confirm(part_of, caller, peer).await });
        confirmed.await.expect("no confirmation panics")?;
        Ok(Response::new(ConfirmTryResponse {}))
    }

    async fn revert_try(&self, request: Request<RevertTryRequest>) -> Answer<RevertTryResponse> {
        let caller = Caller::of(request.extensions());
        let part_of = PartOf::of(request.metadata())?;
        permit_tried(&self.store, &caller)?;
        let revert = move |client: &mut Client, store: &SharedStore| {
            host::apply(client, store)?;
            // While `init` goes back, the request would say that this is known for good.
            let checked = store.admit_changes().and_then(|()| store.check_try(part_of));
            if let Err(status) = checked.and_then(|()| permit_tried(store, &caller)) {
                return Ok(Err(status));
            }
            client.send(&Wanted::RevertTry)?;
            Ok(store.take_back().map_err(|error| wire::status(&error)))
        };
        self.converse(revert).await??;
        Ok(Response::new(RevertTryResponse {}))
    }

    async fn get_try(&self, _: Request<GetTryRequest>) -> Answer<GetTryResponse> {
        let get = |client: &mut Client, store: &SharedStore| {
            let number = store.try_number().unwrap_or_default();
            Ok((client.settings()?.tried, store.try_caller().unwrap_or_default(), number))
        };
        let (tried, caller, number) = self.converse(get).await?;
        Ok(Response::new(match tried {
            TryState::Running(remaining_seconds) => {
                GetTryResponse { running: true, remaining_seconds, caller, number }
            }
            TryState::None | TryState::Over => GetTryResponse::default(),
        }))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::access::Role;
    use crate::access::authentication::{CertificateProof, Proof};
    use crate::access::caller::ShownCertificate;
    use crate::access::quota::Quotas;
    use crate::access::rules::Rules;
    use crate::connections::RemotePeer;
    use crate::fake_init::FakeInit;
    use osbuild_protocol::{Fingerprint, Refusal, StartSettings};
    use osbuild_resources::{Content, Key, Kind, Owner, Spec};
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, SystemTime};
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

    /// The service with this `init`, and a store of its own.
    pub(crate) fn service(init: &FakeInit) -> ConfigurationService {
        let store = Arc::new(SharedStore::new().unwrap());
        ConfigurationService { store, keeper: None, init: Some(init.init()) }
    }

    /// A message of a caller whose connection was opened now.
    pub(crate) fn from<T>(caller: &Caller, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let (caller, opened) = (Arc::new(caller.clone()), Instant::now());
        request.extensions_mut().insert(Peer { caller, opened, remote: None });
        request
    }

    fn write_hostname(store: &SharedStore) {
        let kind = Kind::new("system", "Hostnames.osbuild").unwrap();
        let content = Content::new(Key::new(kind.clone(), "a").unwrap(), Spec::default());
        let now = SystemTime::now();
        store.write(&kind, |store| store.create(content, Owner::default(), now)).unwrap();
    }

    #[tokio::test]
    async fn a_caller_changes_the_time_of_its_own_try_alone() {
        let init = FakeInit::start(|_| {});
        let service = service(&init);
        let [one, other] = ["one", "other"].map(|name| Caller::with_role(name, Role::Operator));
        let begin = async |caller, timeout_seconds| {
            let request = from(caller, BeginTryRequest { timeout_seconds });
            service.begin_try(request).await.map(|answer| answer.into_inner().extended)
        };
        assert!(!begin(&one, 100).await.unwrap());
        let refusal = begin(&other, 1).await.unwrap_err();
        assert_eq!(refusal.code(), Code::FailedPrecondition);
        assert!(refusal.message().contains("operator \"one\""), "{refusal}");
        assert_eq!(init.tried(), Some(100));
        assert!(begin(&one, 200).await.unwrap());
        let state = service.get_try(from(&other, GetTryRequest {})).await.unwrap().into_inner();
        assert_eq!((state.remaining_seconds, &*state.caller), (200, "operator \"one\""));
        service.revert_try(from(&other, RevertTryRequest {})).await.unwrap();
        assert!(!begin(&other, 1).await.unwrap());
    }

    #[tokio::test]
    async fn a_change_while_a_confirmation_waits_for_init_is_not_confirmed() {
        let store = Arc::new(Mutex::new(None::<Arc<SharedStore>>));
        let changed = store.clone();
        let init = FakeInit::start(move |request| {
            if request == Wanted::Observe.to_string()
                && let Some(store) = changed.lock().unwrap().take()
            {
                write_hostname(&store);
            }
        });
        let service = service(&init);
        let caller = Caller::with_role("one", Role::Operator);
        let request = from(&caller, BeginTryRequest { timeout_seconds: 100 });
        service.begin_try(request).await.unwrap();
        *store.lock().unwrap() = Some(service.store.clone());
        let confirm = async || service.confirm_try(from(&caller, ConfirmTryRequest {})).await;
        assert_eq!(confirm().await.unwrap_err().code(), Code::FailedPrecondition);
        assert_eq!(init.tried(), Some(100), "the try goes on");
        confirm().await.unwrap();
        assert_eq!(init.tried(), None);
    }

    #[tokio::test]
    async fn a_caller_who_is_revoked_while_a_confirmation_waits_confirms_nothing() {
        let store = Arc::new(Mutex::new(None::<Arc<SharedStore>>));
        let changed = store.clone();
        let init = FakeInit::start(move |request| {
            if request == Wanted::Observe.to_string()
                && let Some(store) = changed.lock().unwrap().take()
            {
                let drafts = "{type: Revocation, id: a, spec: {user: bob}}";
                let drafts = documents::read(drafts, |_| None).unwrap();
                store.apply(PartOf::default(), drafts, false).unwrap();
            }
        });
        let service = service(&init);
        let shown = ShownCertificate {
            fingerprint: Fingerprint::of(&[0; 32]),
            user: Some("bob".to_owned()),
            organizations: vec!["admin".to_owned()],
            issued: UNIX_EPOCH,
        };
        let rules = Arc::new(Rules::new(service.store.clone(), None));
        let caller = Arc::new(rules.caller(shown).unwrap());
        let quota = Quotas::default().of([0; 32]);
        let address = "127.0.0.1:1".parse().unwrap();
        let connection = osbuild_packet_filter::Connection { local: address, peer: address };
        let (not_after, has_called) = (SystemTime::now(), AtomicBool::default());
        let proof = CertificateProof { caller: caller.clone(), quota, not_after, has_called };
        let proof = Proof::Certificate(Arc::new(proof));
        let remote = Some(RemotePeer { proof, rules, connection });
        let peer = Peer { caller: caller.clone(), opened: Instant::now(), remote };
        let begin = from(&caller, BeginTryRequest { timeout_seconds: 100 });
        service.begin_try(begin).await.unwrap();
        *store.lock().unwrap() = Some(service.store.clone());
        let mut confirm = Request::new(ConfirmTryRequest {});
        confirm.extensions_mut().insert(peer);
        let refused = service.confirm_try(confirm).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        assert_eq!(init.tried(), Some(100), "the try goes on");
    }

    #[tokio::test]
    async fn a_confirmation_completes_without_its_caller() {
        let (send, requests) = std::sync::mpsc::channel();
        let init = FakeInit::start(move |request| {
            if request == Wanted::ConfirmTry.to_string() {
                send.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let service = service(&init);
        let caller = Caller::with_role("one", Role::Operator);
        let request = from(&caller, BeginTryRequest { timeout_seconds: 100 });
        service.begin_try(request).await.unwrap();
        write_hostname(&service.store);
        let (confirming, confirmed) = (service.clone(), from(&caller, ConfirmTryRequest {}));
        let call = tokio::spawn(async move { confirming.confirm_try(confirmed).await });
        tokio::task::spawn_blocking(move || requests.recv().unwrap()).await.unwrap();
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        for _ in 0..500 {
            if !service.store.generations().with_differences().is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!service.store.is_trying());
        let generations = service.store.generations();
        assert_eq!(generations.with_differences()[0].0.caller, "operator \"one\"");
    }

    #[tokio::test]
    async fn a_try_is_ended_by_callers_who_may_make_its_changes() {
        let init = FakeInit::start(|_| {});
        let service = service(&init);
        let [operator, admin] = [Role::Operator, Role::Admin].map(|it| Caller::with_role("a", it));
        let begin = BeginTryRequest { timeout_seconds: 100 };
        service.begin_try(from(&admin, begin)).await.unwrap();
        let document = "{type: KernelParameter, id: a, spec: {key: vm.swappiness, value: '1'}}";
        let apply = ApplyRequest { documents: document.to_owned(), dry_run: false };
        service.apply(from(&admin, apply)).await.unwrap();
        let denied = Code::PermissionDenied;
        let confirm = async |caller| service.confirm_try(from(caller, ConfirmTryRequest {})).await;
        let revert = async |caller| service.revert_try(from(caller, RevertTryRequest {})).await;
        assert_eq!(confirm(&operator).await.unwrap_err().code(), denied);
        assert_eq!(revert(&operator).await.unwrap_err().code(), denied);
        assert_eq!(init.tried(), Some(100));
        revert(&admin).await.unwrap();
        service.begin_try(from(&admin, begin)).await.unwrap();
        confirm(&admin).await.unwrap();
    }

    #[tokio::test]
    async fn a_confirmation_waits_for_the_network_and_then_needs_a_new_connection() {
        let init = FakeInit::start(|_| {});
        let (service, caller) = (service(&init), Caller::local());
        let begin = BeginTryRequest { timeout_seconds: 100 };
        service.begin_try(from(&caller, begin)).await.unwrap();
        write_hostname(&service.store);
        let early = from(&caller, ConfirmTryRequest {});
        let refusal = Refusal::new(RefusalCode::Busy, "the network is not as it shall be yet");
        init.state().confirms_not = Some(refusal);
        let refused = service.confirm_try(from(&caller, ConfirmTryRequest {})).await.unwrap_err();
        assert_eq!(refused.code(), Code::Aborted, "{refused}");
        assert_eq!(init.tried(), Some(100), "the try goes on");
        init.state().confirms_not = None;
        let refused = service.confirm_try(early).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        service.confirm_try(from(&caller, ConfirmTryRequest {})).await.unwrap();
        assert_eq!(init.tried(), None);
    }

    #[tokio::test]
    async fn nobody_but_osd_takes_note_that_the_node_goes_back() {
        let init = FakeInit::start(|_| {});
        init.state().start = StartSettings::GoneBack;
        let refused = service(&init).revert_try(from(&Caller::local(), RevertTryRequest {})).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
        assert_eq!(init.state().requests, [""; 0]);
    }

    async fn apply(service: &ConfigurationService, documents: &str) -> Result<(), Status> {
        let apply = ApplyRequest { documents: documents.to_owned(), dry_run: false };
        service.apply(from(&Caller::local(), apply)).await.map(drop)
    }

    fn revocations(store: &SharedStore) -> usize {
        store.kept_access().len()
    }

    #[tokio::test]
    async fn a_revocation_outlasts_the_try_in_which_it_was_made() {
        let init = FakeInit::start(|_| {});
        let service = service(&init);
        let begin = BeginTryRequest { timeout_seconds: 100 };
        service.begin_try(from(&Caller::local(), begin)).await.unwrap();
        apply(&service, "{type: Revocation, id: a, spec: {user: bob}}").await.unwrap();
        assert_eq!(service.store.last_tried(), None, "the try has changed no setting");
        assert!(service.store.tried_differences().is_empty());
        service.revert_try(from(&Caller::local(), RevertTryRequest {})).await.unwrap();
        assert_eq!(revocations(&service.store), 1);
    }

    #[tokio::test]
    async fn a_node_that_goes_back_takes_revocations_and_keeps_them() {
        let store = Arc::new(SharedStore::new().unwrap());
        let service = ConfigurationService { store: store.clone(), keeper: None, init: None };
        for start in [StartSettings::Earlier, StartSettings::GoneBack] {
            store.set_start(start);
            let hostname = apply(&service, "{type: Hostname, id: a, spec: {hostname: b}}").await;
            assert_eq!(hostname.unwrap_err().code(), Code::Unavailable);
            let revocation = format!("{{type: Revocation, id: {start:?}, spec: {{user: bob}}}}");
            apply(&service, &revocation).await.unwrap();
        }
        assert!(!store.go_back(|settings| !settings.is_empty(), |_| true).unwrap());
        assert_eq!(revocations(&store), 2);
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
        store.begin_try("local");
        let there_is_no_init = Code::Unimplemented;
        assert_eq!(confirm(before).await, there_is_no_init, "nothing is changed yet");
        write_hostname(&store);
        assert_eq!(confirm(before).await, Code::FailedPrecondition);
        assert_eq!(confirm(Instant::now()).await, there_is_no_init);
    }
}
