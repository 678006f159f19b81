//! The tokens of ServiceAccounts: JSON Web Tokens (RFC 7519) in the compact form (RFC 7515), as
//! Kubernetes signs them. This module reads them, and believes nothing: [`issuer`] decides.

pub mod issuer;
pub mod key;
pub mod session;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fmt::{self, Display};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most bytes of a token. Those of Kubernetes have about 1200.
pub const MAX_TOKEN: usize = 8 << 10;

/// The most bytes of the name of a pod or a node, and of a UID.
const MAX_NAME: usize = 253;

/// The last second of the year 9999, which RFC 3339 can write.
const MAX_TIME: u64 = 253_402_300_799;

/// The algorithm of a signature. There are no others: neither `none`, nor those with a shared
/// secret, for which a public key would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// ECDSA with the curve P-256 and SHA-256.
    Es256,
}

/// A token whose signature is not verified yet.
#[derive(Debug)]
pub struct Token<'a> {
    /// The algorithm that it claims.
    pub algorithm: Algorithm,
    /// The key that it claims to be signed with.
    pub key_id: Option<String>,
    /// Its claims.
    pub claims: Claims,
    /// The bytes that are signed.
    pub signed: &'a [u8],
    /// The signature.
    pub signature: Vec<u8>,
}

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Its issuer (`iss`).
    pub issuer: String,
    /// The servers that it is for.
    pub audiences: Vec<String>,
    /// The namespace of the ServiceAccount.
    pub namespace: String,
    /// Its name.
    pub account: String,
    /// The pod that it is bound to.
    pub pod: Option<Bound>,
    /// The node on which the pod runs.
    pub node: Option<Bound>,
    /// The time at which it was issued.
    pub issued: SystemTime,
    /// The first moment at which it counts.
    pub not_before: Option<SystemTime>,
    /// The first moment at which it does not count any more.
    pub expires: SystemTime,
}

/// An object that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Bound {
    /// Its name.
    pub name: String,
    /// Its UID, which no other object of its name has.
    pub uid: String,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct WrittenClaims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: u64,
    iat: u64,
    #[serde(default)]
    nbf: Option<u64>,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Kubernetes,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
struct Kubernetes {
    namespace: String,
    serviceaccount: Bound,
    #[serde(default)]
    pod: Option<Bound>,
    #[serde(default)]
    node: Option<Bound>,
}

impl<'a> Token<'a> {
    /// Reads a token.
    ///
    /// # Errors
    /// It is malformed, or no token that Kubernetes has bound to a pod or the like.
    pub fn parse(text: &'a str) -> Result<Token<'a>, String> {
        if text.len() > MAX_TOKEN {
            return Err(format!("the token has more than {MAX_TOKEN} bytes"));
        }
        let malformed = || "the token is no JSON Web Token".to_owned();
        let (signed, signature) = text.rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or_else(malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed());
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| malformed())?;
        let algorithm = match header.alg.as_str() {
            "RS256" => Algorithm::Rs256,
            "ES256" => Algorithm::Es256,
            _ => return Err("the token's algorithm is neither RS256 nor ES256".to_owned()),
        };
        if header.crit.is_some() {
            return Err("the token needs extensions, of which the node knows none".to_owned());
        }
        let claims = serde_json::from_slice(&decode(claims)?)
            .map_err(|_| "the token is none that Kubernetes binds to an object".to_owned())?;
        Ok(Token {
            algorithm,
            key_id: header.kid,
            claims: Claims::new(claims)?,
            signed: signed.as_bytes(),
            signature: decode(signature)?,
        })
    }
}

impl Claims {
    fn new(written: WrittenClaims) -> Result<Claims, String> {
        let WrittenClaims { iss, sub, aud, exp, iat, nbf, kubernetes } = written;
        let Kubernetes { namespace, serviceaccount, pod, node } = kubernetes;
        let is_long = |bound: &Bound| bound.name.len() > MAX_NAME || bound.uid.len() > MAX_NAME;
        if [&pod, &node].into_iter().flatten().any(is_long) {
            return Err("the token has a name that Kubernetes does not give".to_owned());
        }
        let audiences = match aud {
            Audience::One(one) => vec![one],
            Audience::Several(all) => all,
        };
        let account = serviceaccount.name;
        let claims = Claims {
            issuer: iss,
            audiences,
            namespace,
            account,
            pod,
            node,
            issued: moment(iat)?,
            not_before: nbf.map(moment).transpose()?,
            expires: moment(exp)?,
        };
        match claims.user().to_string() == sub {
            true => Ok(claims),
            false => Err("the token names two ServiceAccounts".to_owned()),
        }
    }

    /// The name of the ServiceAccount as a user.
    pub fn user(&self) -> User<'_> {
        User { namespace: &self.namespace, account: &self.account }
    }
}

/// The name of a ServiceAccount as a user, as Kubernetes writes it.
#[derive(Clone, Copy, Debug)]
pub struct User<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name there.
    pub account: &'a str,
}

impl Display for User<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "system:serviceaccount:{}:{}", self.namespace, self.account)
    }
}

fn moment(seconds: u64) -> Result<SystemTime, String> {
    match seconds <= MAX_TIME {
        true => Ok(UNIX_EPOCH + Duration::from_secs(seconds)),
        false => Err("the token has a time after the year 9999".to_owned()),
    }
}
