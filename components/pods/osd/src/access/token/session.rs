//! A connection without a certificate, whose client shows a token with each call.

use super::issuer::{Moment, ShownToken};
use super::{Claims, MAX_TOKEN};
use crate::access::caller::Caller;
use crate::access::quota::{Held, Holder, Limited, Quota, Quotas, StrangerPlace};
use crate::access::record;
use crate::access::rules::Rules;
use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tonic::Status;
use tonic::codegen::http::HeaderMap;
use tonic::codegen::http::header::AUTHORIZATION;

/// The tokens that a connection may show in vain. Each costs the node the time of a verification.
const MAX_REFUSED: u8 = 3;

/// How long such a connection lasts after the next call, so that its client gets the refusal.
const GRACE: Duration = Duration::from_secs(1);

/// The scheme of a token in `authorization` (RFC 6750).
const SCHEME: &str = "bearer ";

/// The client of such a connection, as far as it is known.
pub struct TokenSession {
    rules: Arc<Rules>,
    quotas: Arc<Quotas>,
    from: SocketAddr,
    state: Mutex<State>,
}

struct State {
    refused: u8,
    /// When the connection ends, once a call was refused unread.
    spent: Option<SystemTime>,
    client: Client,
}

enum Client {
    /// It has not shown a token that counts.
    Stranger {
        _place: StrangerPlace,
    },
    Admitted(Box<Admitted>),
}

/// The client, once it has shown a token that counts.
struct Admitted {
    caller: Arc<Caller>,
    /// The last token, and when none counts any more that was shown.
    token: ShownToken,
    expires: SystemTime,
    quota: Quota,
    _place: Held,
}

impl TokenSession {
    /// The client of a connection from this address. Waits until there is a place for a stranger.
    pub async fn begin(rules: Arc<Rules>, quotas: Arc<Quotas>, from: SocketAddr) -> TokenSession {
        let client = Client::Stranger { _place: quotas.of_stranger().await };
        let state = Mutex::new(State { refused: 0, spent: None, client });
        TokenSession { rules, quotas, from, state }
    }

    /// The client, which is nobody until it has shown a token.
    pub fn caller(&self) -> Arc<Caller> {
        self.lock().client.admitted().map_or_else(Caller::unknown, |client| client.caller.clone())
    }

    /// The time at which the last of its tokens expires.
    pub fn expires(&self) -> Option<SystemTime> {
        self.lock().client.admitted().map(|client| client.expires)
    }

    /// The time at which the connection ends as it has shown too many tokens that do not count, if
    /// so. A client that takes it for a good one would never open another.
    pub fn spent(&self) -> Option<SystemTime> {
        self.lock().spent
    }

    /// Verifies the token of a call. All tokens of a connection have to be of one client, as it is
    /// closed when the last of them expires.
    ///
    /// # Errors
    /// There is none, or it does not count: `UNAUTHENTICATED`. Its ServiceAccount has too many
    /// connections: `RESOURCE_EXHAUSTED`.
    pub fn admit(&self, headers: &HeaderMap) -> Result<(Arc<Caller>, Quota), Status> {
        let text = bearer(headers)?;
        let mut state = self.lock();
        if state.refused >= MAX_REFUSED {
            state.spent.get_or_insert_with(|| SystemTime::now() + GRACE);
            return Err(Status::unauthenticated(
                "this connection has shown too many tokens that do not count: connect again",
            ));
        }
        let verified = self.rules.of_token(text, Moment::now());
        let (caller, token) = verified.map_err(|reason| {
            state.refused += 1;
            Status::unauthenticated(reason)
        })?;
        match &mut state.client {
            Client::Admitted(admitted) if admitted.token.is_of_same_client(&token) => {
                admitted.expires = admitted.expires.max(token.claims.expires);
                (admitted.caller, admitted.token) = (Arc::new(caller), token);
                Ok((admitted.caller.clone(), admitted.quota.clone()))
            }
            Client::Admitted(_) => {
                Err(Status::unauthenticated("this connection is of another pod"))
            }
            stranger @ Client::Stranger { .. } => {
                let first = self.first(caller, token)?;
                let admitted = (first.caller.clone(), first.quota.clone());
                *stranger = Client::Admitted(Box::new(first));
                Ok(admitted)
            }
        }
    }

    /// The client with its first token.
    fn first(&self, caller: Caller, token: ShownToken) -> Result<Admitted, Status> {
        let quota = self.quotas.of(holder(&token.claims));
        let place = quota.hold(Limited::Connections, 1)?;
        record::connected_with_token(&caller, &token, self.from);
        let (caller, expires) = (Arc::new(caller), token.claims.expires);
        Ok(Admitted { caller, token, expires, quota, _place: place })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    fn admitted(&self) -> Option<&Admitted> {
        match self {
            Client::Admitted(admitted) => Some(admitted),
            Client::Stranger { .. } => None,
        }
    }
}

/// All pods of a ServiceAccount share what one certificate may hold.
fn holder(claims: &Claims) -> Holder {
    let user = claims.user().to_string();
    Sha256::new()
        .chain_update(&claims.issuer)
        .chain_update([0])
        .chain_update(user)
        .finalize()
        .into()
}

/// The only token of a call.
fn bearer(headers: &HeaderMap) -> Result<&str, Status> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let refused = |reason: &str| Err(Status::unauthenticated(reason));
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value.as_bytes(),
        (None, _) => return refused("a client without a certificate shows a token with each call"),
        (Some(_), Some(_)) => return refused("the call has two headers `authorization`"),
    };
    let text = std::str::from_utf8(value).unwrap_or_default();
    match text.split_at_checked(SCHEME.len()) {
        Some((_, token)) if token.len() > MAX_TOKEN => {
            refused(&format!("the token has more than {MAX_TOKEN} bytes"))
        }
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(SCHEME) => Ok(token),
        _ => refused("the header `authorization` is not `Bearer` and a token"),
    }
}
