//! A try, and the calls that are part of it.

use osbuild_abi::osd::TRY_METADATA;
use osbuild_resources::Resource;
use std::sync::Arc;
use std::time::Instant;
use tonic::Status;
use tonic::metadata::MetadataMap;

/// Changes that are tried.
pub struct Tried {
    /// The number of the try. No other try of the node had it lately.
    pub number: u64,
    /// The settings before the changes.
    pub before: Vec<Arc<Resource>>,
    /// When a setting was changed last.
    pub changed: Option<Instant>,
    /// The caller that began the try.
    pub caller: String,
}

/// The try of which a call is part. A client that names it can rely on it: a call that arrives
/// after its end would change the node for good.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartOf(Option<u64>);

impl PartOf {
    /// Reads the metadata of a request.
    pub fn of(metadata: &MetadataMap) -> Result<PartOf, Status> {
        let Some(value) = metadata.get(TRY_METADATA) else { return Ok(PartOf(None)) };
        let number = value.to_str().ok().and_then(|text| text.parse().ok());
        let no_number = || format!("the metadata `{TRY_METADATA}` has no number of a try");
        let number = number.ok_or_else(|| Status::invalid_argument(no_number()))?;
        Ok(PartOf(Some(number)))
    }

    /// Refuses a call unless it names this try, which is running, or none.
    pub fn check(self, tried: Option<&Tried>) -> Result<(), Status> {
        match self.0 {
            Some(number) if tried.is_none_or(|tried| tried.number != number) => Err(
                Status::failed_precondition("the try that this call is part of has ended already"),
            ),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Caller;
    use crate::catalog::{Accepts, Catalog};
    use crate::configuration::tests::{from, service};
    use crate::fake_init::FakeInit;
    use crate::shared::SharedStore;
    use crate::state::StateService;
    use osbuild_cosi::resource::state_server::State;
    use osbuild_cosi::resource::{DestroyRequest, TeardownAndDestroyRequest};
    use osbuild_cosi::v1::configuration_server::Configuration;
    use osbuild_cosi::v1::{
        ApplyRequest, BeginTryRequest, ConfirmTryRequest, GetTryRequest, RestoreGenerationRequest,
        RevertTryRequest,
    };
    use osbuild_resources::{Content, Key, Kind, Owner, Phase, Spec};
    use std::time::SystemTime;
    use tonic::{Code, Request};

    /// A request of the node itself that is part of a try.
    fn in_try<T>(number: u64, message: T) -> Request<T> {
        let mut request = from(&Caller::local(), message);
        request.metadata_mut().insert(TRY_METADATA, number.into());
        request
    }

    #[tokio::test]
    async fn a_call_that_is_part_of_a_try_changes_nothing_after_its_end() {
        let init = FakeInit::start(|_| {});
        let service = service(&init);
        let state = StateService::new(service.store.clone(), Catalog::new(Accepts::Known), None);
        let begin = async || {
            let request = from(&Caller::local(), BeginTryRequest { timeout_seconds: 100 });
            service.begin_try(request).await.unwrap().into_inner().number
        };
        let documents = "{type: Hostname, id: a, spec: {hostname: b}}".to_owned();
        let apply = async |number| {
            let apply = ApplyRequest { documents: documents.clone(), dry_run: false };
            service.apply(in_try(number, apply)).await.map(drop)
        };
        let destroy = async |number| {
            let (namespace, r#type) = ("system".to_owned(), "Hostnames.osbuild".to_owned());
            let destroy = DestroyRequest { namespace, r#type, id: "a".to_owned(), options: None };
            state.destroy(in_try(number, destroy)).await.map(drop)
        };
        let restore = async |number| {
            let restore = RestoreGenerationRequest { number: 1, dry_run: false };
            service.restore_generation(in_try(number, restore)).await.map(drop)
        };
        let confirm = async |number| {
            service.confirm_try(in_try(number, ConfirmTryRequest {})).await.map(drop)
        };
        let revert =
            async |number| service.revert_try(in_try(number, RevertTryRequest {})).await.map(drop);
        let first = begin().await;
        assert_eq!(begin().await, first, "the same try goes on");
        for change in [apply(first).await, destroy(first).await, apply(first).await] {
            change.unwrap();
        }
        confirm(first).await.unwrap();
        let has_ended = Code::FailedPrecondition;
        for is_other_running in [false, true] {
            if is_other_running {
                assert_ne!(begin().await, first);
            }
            for refused in [
                apply(first).await,
                destroy(first).await,
                restore(first).await,
                confirm(first).await,
            ] {
                assert_eq!(refused.unwrap_err().code(), has_ended);
            }
            assert_eq!(revert(first).await.unwrap_err().code(), has_ended);
            assert_eq!(init.tried().is_some(), is_other_running);
        }
        let shown = service.get_try(from(&Caller::local(), GetTryRequest {})).await.unwrap();
        revert(shown.into_inner().number).await.unwrap();
        let mut malformed = from(&Caller::local(), RevertTryRequest {});
        malformed.metadata_mut().insert(TRY_METADATA, "mine".parse().unwrap());
        let refused = service.revert_try(malformed).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }

    #[tokio::test]
    async fn a_deletion_that_waits_ends_with_the_try_that_is_taken_back() {
        let store = Arc::new(SharedStore::new().unwrap());
        let state = StateService::new(store.clone(), Catalog::new(Accepts::Known), None);
        let kind = Kind::new("system", "Hostnames.osbuild").unwrap();
        let key = Key::new(kind.clone(), "a").unwrap();
        let mut held = Content::new(key.clone(), Spec::default());
        held.finalizers.insert("plugin".to_owned());
        let (nobody, now) = (Owner::default(), SystemTime::now());
        store.write(&kind, |store| store.create(held, nobody, now)).unwrap();
        store.begin_try("local");
        let (namespace, r#type) = ("system".to_owned(), "Hostnames.osbuild".to_owned());
        let id = "a".to_owned();
        let request = TeardownAndDestroyRequest { namespace, r#type, id, options: None };
        let deletion = state.teardown_and_destroy(from(&Caller::local(), request));
        let (deleted, ()) = tokio::join!(deletion, async { store.take_back().unwrap() });
        assert_eq!(deleted.unwrap_err().code(), Code::Aborted);
        let found = store.read(|store| store.get(&key)).unwrap();
        assert_eq!(found.content.phase, Phase::Running);
    }
}
