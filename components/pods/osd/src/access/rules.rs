//! Which clients on the network are excluded now.

use super::Caller;
use super::caller::ShownCertificate;
use super::revocation::Revocation;
use crate::client_type::ClientType;
use crate::settings::spec;
use crate::shared::SharedStore;
use osbuild_cosi::v1::RevocationSpec;
use osbuild_resources::{Key, Query, Spec};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use tonic::Status;

/// What the resources of the store say of clients on the network. It is as new as the store: the
/// first question after a change reads them again.
pub struct Rules {
    store: Arc<SharedStore>,
    current: Mutex<Current>,
}

struct Current {
    changes: watch::Receiver<()>,
    excluded: Excluded,
}

/// Who is excluded.
enum Excluded {
    /// The revocations cannot be read, so it might be anyone.
    Everyone,
    /// The holders of certificates that these cover.
    Some(Vec<Revocation>),
}

impl Rules {
    /// The rules of the store. If its revocations were lost, nobody on the network may connect until
    /// a client on the node has written one.
    pub fn new(store: Arc<SharedStore>, are_lost: bool) -> Rules {
        let mut changes = store.changes(&ClientType::Revocation.kind());
        changes.borrow_and_update();
        let excluded = if are_lost { Excluded::Everyone } else { read(&store) };
        Rules { store, current: Mutex::new(Current { changes, excluded }) }
    }

    /// Why the holder of this certificate is excluded, if so.
    pub fn exclusion(&self, shown: &ShownCertificate) -> Option<&'static str> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.changes.has_changed().unwrap_or(true) {
            current.changes.borrow_and_update();
            current.excluded = read(&self.store);
        }
        match &current.excluded {
            Excluded::Everyone => Some("the node has lost its revocations"),
            Excluded::Some(all) => {
                all.iter().any(|one| one.covers(shown)).then_some("its certificate is revoked")
            }
        }
    }

    /// Waits until the holder of this certificate is excluded. Returns why.
    pub async fn until_excluded(self: Arc<Self>, shown: ShownCertificate) -> &'static str {
        let mut changes = self.store.changes(&ClientType::Revocation.kind());
        loop {
            changes.borrow_and_update();
            if let Some(reason) = self.exclusion(&shown) {
                return reason;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Refuses a revocation that covers its own author: an administrator who means another certificate
/// must not lose the way to correct it.
pub fn keeps_in(caller: &Caller, key: &Key, spec: &Spec) -> Result<(), Status> {
    if *key.kind() != ClientType::Revocation.kind() {
        return Ok(());
    }
    let Some(shown) = caller.certificate() else { return Ok(()) };
    match revocation(spec) {
        Ok(revocation) if revocation.covers(shown) => Err(Status::failed_precondition(format!(
            "{key} would exclude the certificate of this call, {}: have another admin revoke it, \
             or use another certificate",
            shown.fingerprint
        ))),
        _ => Ok(()),
    }
}

fn revocation(spec: &Spec) -> Result<Revocation, String> {
    let spec: RevocationSpec = spec::read_as(spec, Ok)?;
    Revocation::new(&spec)
}

/// The revocations in the store. One that is being torn down counts until it is gone.
fn read(store: &SharedStore) -> Excluded {
    let (kind, query) = (ClientType::Revocation.kind(), Query::default());
    let found: Vec<_> = store.read(|store| store.list(&kind, &query).collect());
    let revocations = found.iter().map(|found| revocation(&found.content.spec));
    match revocations.collect() {
        Ok(all) => Excluded::Some(all),
        // This release does not understand what another one has kept.
        Err(error) => {
            eprintln!("error: a revocation cannot be read: {error}");
            Excluded::Everyone
        }
    }
}
