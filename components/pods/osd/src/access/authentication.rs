//! The authentication of calls: the only place that decides who makes one over the network.

use super::Caller;
use super::quota::Quota;
use super::token::session::TokenSession;
use crate::connections::Peer;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use tonic::Status;
use tonic::codegen::http::HeaderMap;
use tonic::codegen::http::header::AUTHORIZATION;

/// The proof that the client of a connection gives of its identity.
#[derive(Clone)]
pub enum Proof {
    /// By the certificate of the connection.
    Certificate(Arc<CertificateProof>),
    /// By a token with each call.
    Tokens(Arc<TokenSession>),
}

/// A client with a certificate.
pub struct CertificateProof {
    /// The client.
    pub caller: Arc<Caller>,
    /// Its quota.
    pub quota: Quota,
    /// The last moment at which the certificate is valid.
    pub not_after: SystemTime,
    /// Set at its first call.
    pub has_called: AtomicBool,
}

impl Proof {
    /// The client, who is nobody as long as it has shown nothing.
    pub fn caller(&self) -> Arc<Caller> {
        match self {
            Proof::Certificate(proof) => proof.caller.clone(),
            Proof::Tokens(session) => session.caller(),
        }
    }

    /// Returns whether it has made a call as somebody who is known.
    pub fn has_called(&self) -> bool {
        match self {
            Proof::Certificate(proof) => proof.has_called.load(Ordering::Relaxed),
            Proof::Tokens(session) => session.expires().is_some(),
        }
    }

    /// The end of its certificate or of its last token, if it has shown any, or that of a
    /// connection with too many tokens that do not count.
    pub fn end(&self) -> Option<SystemTime> {
        match self {
            Proof::Certificate(proof) => Some(proof.not_after),
            Proof::Tokens(session) => session.spent().into_iter().chain(session.expires()).min(),
        }
    }

    /// The reason why the proof counts no more, if it has expired.
    pub fn expired(&self, now: SystemTime) -> Option<&'static str> {
        let end = self.end()?;
        match self {
            // Its last moment counts.
            Proof::Certificate(_) => (now > end).then_some("its certificate has expired"),
            Proof::Tokens(session) => (now >= end).then(|| match session.spent() {
                Some(_) => "it has shown too many tokens that do not count",
                None => "its token has expired",
            }),
        }
    }
}

/// The caller of a call, and whether it may go on.
pub struct Authenticated {
    /// The caller, who is unknown if that is why the call is refused.
    pub caller: Arc<Caller>,
    /// The quota of a caller on the network, or the refusal of the call.
    pub outcome: Result<Option<Quota>, Status>,
}

impl Authenticated {
    fn refused(caller: Arc<Caller>, status: Status) -> Authenticated {
        Authenticated { caller, outcome: Err(status) }
    }

    /// The caller behind a call with these headers over the connection of `peer`. A call over no
    /// connection is nobody's, and so is one without a token that counts, if there is no
    /// certificate. The headers have no token any more.
    pub fn of(peer: Option<&Peer>, headers: &mut HeaderMap) -> Authenticated {
        let Some(peer) = peer else {
            return Authenticated { caller: Caller::unknown(), outcome: Ok(None) };
        };
        let Some(remote) = &peer.remote else {
            return Authenticated { caller: peer.caller.clone(), outcome: Ok(None) };
        };
        match &remote.proof {
            Proof::Tokens(session) => {
                let admitted = session.admit(headers);
                headers.remove(AUTHORIZATION);
                match admitted {
                    Ok((caller, quota)) => Authenticated { caller, outcome: Ok(Some(quota)) },
                    Err(status) => Authenticated::refused(Caller::unknown(), status),
                }
            }
            Proof::Certificate(proof) => {
                proof.has_called.store(true, Ordering::Relaxed);
                let caller = proof.caller.clone();
                if headers.remove(AUTHORIZATION).is_some() {
                    return Authenticated::refused(caller, both());
                }
                let outcome = peer.check().map(|()| Some(proof.quota.clone()));
                Authenticated { caller, outcome }
            }
        }
    }
}

/// Which of the two is meant is not for the node to guess.
fn both() -> Status {
    Status::unauthenticated("a client shows a certificate or a token, not both")
}
