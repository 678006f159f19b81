//! Which clients on the network are excluded now, and which roles there are.

use super::Caller;
use super::caller::ShownCertificate;
use super::custom_role::{CustomRole, Roles};
use super::revocation::Revocation;
use crate::client_type::ClientType;
use crate::settings::spec;
use crate::shared::SharedStore;
use futures_util::future::select;
use osbuild_cosi::v1::{RevocationSpec, RoleSpec};
use osbuild_resources::{Key, Phase, Query, Spec};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tonic::Status;

/// The revocations and custom roles in the store. The rules are as new as the store: the first
/// query after a change reads the resources again.
pub struct Rules {
    store: Arc<SharedStore>,
    current: Mutex<Current>,
}

struct Current {
    changes: [watch::Receiver<()>; 2],
    excluded: Excluded,
    roles: Roles,
}

/// The clients that are excluded.
enum Excluded {
    /// The revocations cannot be read, so it might be anyone.
    Everyone,
    /// The holders of certificates that these cover.
    Some(Vec<Revocation>),
}

/// The types that the rules are made of.
const TYPES: [ClientType; 2] = [ClientType::Revocation, ClientType::Role];

impl Rules {
    /// The rules of the store. If they were lost, nobody on the network may connect until a client
    /// on the node has written a revocation.
    pub fn new(store: Arc<SharedStore>, are_lost: bool) -> Rules {
        let mut changes = TYPES.map(|one| store.changes(&one.kind()));
        changes.iter_mut().for_each(|one| drop(one.borrow_and_update()));
        let excluded = if are_lost { Excluded::Everyone } else { excluded(&store) };
        let current = Current { changes, excluded, roles: roles(&store) };
        Rules { store, current: Mutex::new(current) }
    }

    /// Returns the current rules. Reads the resources again if they have changed.
    fn current(&self) -> MutexGuard<'_, Current> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let [of_revocations, of_roles] = &mut current.changes;
        let [are_others, have_others] = [of_revocations, of_roles].map(|changes| {
            let has_changed = changes.has_changed().unwrap_or(true);
            changes.borrow_and_update();
            has_changed
        });
        if are_others {
            current.excluded = excluded(&self.store);
        }
        if have_others {
            current.roles = roles(&self.store);
        }
        current
    }

    /// Why the holder of this certificate is excluded, if so.
    pub fn exclusion(&self, shown: &ShownCertificate) -> Option<&'static str> {
        match &self.current().excluded {
            Excluded::Everyone => Some("the node has lost its revocations"),
            Excluded::Some(all) => {
                all.iter().any(|one| one.covers(shown)).then_some("its certificate is revoked")
            }
        }
    }

    /// The holder of this certificate, if it has a role.
    pub fn caller(&self, shown: ShownCertificate) -> Option<Caller> {
        Caller::of_certificate(shown, &self.current().roles)
    }

    /// Why this client may not go on, if so: it is excluded, or may do something else than when it
    /// has connected.
    pub fn refusal(&self, caller: &Caller) -> Option<&'static str> {
        let shown = caller.certificate()?;
        self.exclusion(shown).or_else(|| {
            let is_same = self.caller(shown.clone()).as_ref() == Some(caller);
            (!is_same).then_some("its role has changed")
        })
    }

    /// Waits until this client may not go on. Returns why.
    pub async fn until_refused(self: Arc<Self>, caller: Arc<Caller>) -> &'static str {
        let mut changes = TYPES.map(|one| self.store.changes(&one.kind()));
        loop {
            changes.iter_mut().for_each(|one| drop(one.borrow_and_update()));
            if let Some(reason) = self.refusal(&caller) {
                return reason;
            }
            let [of_revocations, of_roles] = &mut changes;
            // Their senders last as long as the store.
            select(pin!(of_revocations.changed()), pin!(of_roles.changed())).await;
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
fn excluded(store: &SharedStore) -> Excluded {
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

/// The roles in the store. One that is being torn down, or that this release does not understand,
/// gives nothing.
fn roles(store: &SharedStore) -> Roles {
    let (kind, query) = (ClientType::Role.kind(), Query::default());
    let found: Vec<_> = store.read(|store| store.list(&kind, &query).collect());
    let running = found.iter().filter(|found| found.content.phase == Phase::Running);
    let roles = running.filter_map(|found| {
        let name = found.content.key.id();
        let spec: RoleSpec = spec::read_as(&found.content.spec, Ok).ok()?;
        Some((name.to_owned(), Arc::new(CustomRole::new(name, &spec).ok()?)))
    });
    roles.collect()
}
