//! Which clients on the network are excluded now, which roles there are, and whose tokens count.

use super::Caller;
use super::caller::{Shown, ShownCertificate};
use super::custom_role::{CustomRole, Roles};
use super::revocation::Revocation;
use super::token::Token;
use super::token::issuer::{Moment, ShownToken, TokenIssuer};
use crate::client_type::ClientType;
use crate::settings::spec;
use crate::shared::SharedStore;
use futures_util::future::select_all;
use osbuild_cosi::v1::{RevocationSpec, RoleSpec, TokenIssuerSpec};
use osbuild_resources::{Key, Phase, Query, Spec};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use tonic::Status;

/// The revocations and custom roles in the store. The rules are as new as the store: the first
/// query after a change reads the resources again.
pub struct Rules {
    store: Arc<SharedStore>,
    /// The name of the node in its cluster.
    node: Option<String>,
    current: Mutex<Current>,
}

struct Current {
    changes: Changes,
    excluded: Excluded,
    roles: Roles,
    issuers: Vec<TokenIssuer>,
}

/// The clients that are excluded.
enum Excluded {
    /// Revocations are lost or cannot be read, so it might be anyone.
    Everyone,
    /// The holders of certificates and tokens that these cover.
    Some(Vec<Revocation>),
}

/// The types that the rules are made of, and the receivers of their changes.
const TYPES: [ClientType; 3] = [ClientType::Revocation, ClientType::Role, ClientType::TokenIssuer];
type Changes = [watch::Receiver<()>; 3];

/// The reason why a client is out after the node has lost the file with its revocations.
const LOST: &str = "the node has lost its revocations";

impl Rules {
    /// The rules of the store, for a node with this name in its cluster. While the store lacks
    /// revocations, nobody on the network may connect.
    pub fn new(store: Arc<SharedStore>, node: Option<String>) -> Rules {
        let mut changes = TYPES.map(|one| store.changes(&one.kind()));
        changes.iter_mut().for_each(|one| drop(one.borrow_and_update()));
        let (excluded, roles, issuers) = (excluded(&store), roles(&store), issuers(&store));
        let current = Current { changes, excluded, roles, issuers };
        Rules { store, node, current: Mutex::new(current) }
    }

    /// Returns the current rules. Reads the resources again if they have changed.
    fn current(&self) -> MutexGuard<'_, Current> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        // One step: a change in between would count as seen, and nobody would read it.
        let [are_others, have_others, count_others] =
            current.changes.each_mut().map(|changes| changes.borrow_and_update().has_changed());
        if are_others {
            current.excluded = excluded(&self.store);
        }
        if have_others {
            current.roles = roles(&self.store);
        }
        if count_others {
            current.issuers = issuers(&self.store);
        }
        current
    }

    /// Returns whether any tokens count. Otherwise each client needs a certificate.
    pub fn accept_tokens(&self) -> bool {
        let current = self.current();
        matches!(current.excluded, Excluded::Some(_)) && !current.issuers.is_empty()
    }

    /// Why the holder of this certificate is excluded, if so.
    pub fn exclusion(&self, shown: &ShownCertificate) -> Option<&'static str> {
        match &self.current().excluded {
            Excluded::Everyone => Some(LOST),
            Excluded::Some(all) => {
                all.iter().any(|one| one.covers(shown)).then_some("its certificate is revoked")
            }
        }
    }

    /// The holder of this certificate, if it has a role.
    pub fn caller(&self, shown: ShownCertificate) -> Option<Caller> {
        Caller::of_certificate(shown, &self.current().roles)
    }

    /// The holder of a token, and what the token says.
    ///
    /// # Errors
    /// The token does not count, and why.
    pub fn of_token(&self, text: &str, at: Moment) -> Result<(Caller, ShownToken), String> {
        let token = Token::parse(text)?;
        let current = self.current();
        let issuer = current.issuer(&token.claims.issuer).ok_or("nobody knows its issuer here")?;
        let (shown, role) = issuer.verify(token, at, self.node.as_deref())?;
        let caller = current.holder(shown.clone(), role)?;
        Ok((caller, shown))
    }

    /// Why this client may not go on, if so: it is excluded, or may do something else than when it
    /// has connected.
    pub fn refusal(&self, caller: &Caller) -> Option<&'static str> {
        let (exclusion, now) = match caller.shown() {
            Shown::Nothing => return None,
            Shown::Certificate(shown) => (self.exclusion(shown), self.caller(shown.clone())),
            Shown::Token(shown) => {
                let current = self.current();
                let issuer = current.issuer(&shown.claims.issuer);
                let role = issuer.and_then(|one| one.recheck(shown, self.node.as_deref()).ok());
                match role.map(|role| current.holder((**shown).clone(), role)) {
                    None => (Some("its token does not count any more"), None),
                    Some(Err(reason)) => (Some(reason), None),
                    Some(Ok(caller)) => (None, Some(caller)),
                }
            }
        };
        exclusion.or_else(|| (now.as_ref() != Some(caller)).then_some("its role has changed"))
    }

    /// Waits until the client may not go on that `caller` returns. Returns why.
    pub async fn until_refused(
        self: Arc<Self>,
        caller: impl Fn() -> Arc<Caller> + Send,
    ) -> &'static str {
        let mut changes = TYPES.map(|one| self.store.changes(&one.kind()));
        loop {
            changes.iter_mut().for_each(|one| drop(one.borrow_and_update()));
            if let Some(reason) = self.refusal(&caller()) {
                return reason;
            }
            // Their senders last as long as the store.
            drop(select_all(changes.iter_mut().map(|one| Box::pin(one.changed()))).await);
        }
    }
}

impl Current {
    fn issuer(&self, name: &str) -> Option<&TokenIssuer> {
        self.issuers.iter().find(|one| one.name() == name)
    }

    /// The holder of a token, whose role has this name.
    fn holder(&self, shown: ShownToken, role: &str) -> Result<Caller, &'static str> {
        match &self.excluded {
            Excluded::Everyone => return Err(LOST),
            Excluded::Some(all) if all.iter().any(|one| one.covers_token(&shown)) => {
                return Err("its ServiceAccount is revoked");
            }
            Excluded::Some(_) => {}
        }
        Caller::of_token(shown, role, &self.roles).ok_or("its role does not exist")
    }
}

/// Refuses a revocation that covers its own author: an administrator who means another certificate
/// must not lose the way to correct it.
pub fn keeps_in(caller: &Caller, key: &Key, spec: &Spec) -> Result<(), Status> {
    if *key.kind() != ClientType::Revocation.kind() {
        return Ok(());
    }
    let Ok(revocation) = revocation(spec) else { return Ok(()) };
    let (is_covered, what) = match caller.shown() {
        Shown::Nothing => return Ok(()),
        Shown::Certificate(shown) => {
            (revocation.covers(shown), format!("certificate of this call, {}", shown.fingerprint))
        }
        Shown::Token(shown) => {
            (revocation.covers_token(shown), format!("token of this call, of {}", shown.user()))
        }
    };
    if !is_covered {
        return Ok(());
    }
    Err(Status::failed_precondition(format!(
        "{key} would exclude the {what}: have another admin revoke it, or use another certificate"
    )))
}

fn revocation(spec: &Spec) -> Result<Revocation, String> {
    let spec: RevocationSpec = spec::read_as(spec, Ok)?;
    Revocation::new(&spec)
}

/// The revocations in the store. One that is being torn down counts until it is gone.
fn excluded(store: &SharedStore) -> Excluded {
    if store.lacks_revocations() {
        return Excluded::Everyone;
    }
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

/// The issuers whose tokens count, as the store says. An issuer that is being torn down, or that
/// this release does not understand, gives nothing.
fn issuers(store: &SharedStore) -> Vec<TokenIssuer> {
    let (kind, query) = (ClientType::TokenIssuer.kind(), Query::default());
    let found: Vec<_> = store.read(|store| store.list(&kind, &query).collect());
    let running = found.iter().filter(|found| found.content.phase == Phase::Running);
    let issuers = running.filter_map(|found| {
        let spec: TokenIssuerSpec = spec::read_as(&found.content.spec, Ok).ok()?;
        TokenIssuer::new(&spec).ok()
    });
    issuers.collect()
}
