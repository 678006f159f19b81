//! Issuers of tokens that count, and the roles of their ServiceAccounts: the specs of
//! `TokenIssuers.osbuild`.

use super::key::{PublicKey, Thumbprint};
use super::{Bound, Claims, Token};
use crate::access::custom_role;
use crate::access::sys::clock_is_synchronized;
use osbuild_cosi::v1::{TokenBinding, TokenIssuerSpec};
use osbuild_resources::{Names, PrintColumn};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The names of the type.
pub const NAMES: Names =
    Names { plural: "TokenIssuers", singular: "TokenIssuer", suffix: "osbuild" };

/// Its columns.
pub const COLUMNS: &[PrintColumn] = &[
    PrintColumn { name: "Issuer", json_path: "{.issuer}" },
    PrintColumn { name: "Audience", json_path: "{.audience}" },
    PrintColumn { name: "Accounts", json_path: "{.bindings[:].serviceAccount}" },
    PrintColumn { name: "Roles", json_path: "{.bindings[:].role}" },
];

/// The audience of tokens unless the issuer names another. A projected volume names it.
pub const AUDIENCE: &str = "node-api.osbuild";

/// The lifetime that a token may have: unless the issuer has another, and at most.
const LIFETIME: Duration = Duration::from_secs(3600);
const MAX_LIFETIME: Duration = Duration::from_secs(86_400);

/// The time by which the clock of the API server may be ahead of the node's.
const LEEWAY: Duration = Duration::from_secs(60);

/// The most bindings of an issuer, and bytes of its name and of its audience.
const MAX_BINDINGS: usize = 64;
const MAX_TEXT: usize = 512;

/// The most bytes of the names of a namespace and of a ServiceAccount (RFC 1123).
const MAX_NAMESPACE: usize = 63;
const MAX_ACCOUNT: usize = 253;

/// The time, as far as the node knows it.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time of its clock.
    pub now: SystemTime,
    /// Set once a server has set the clock. Before that it may be decades behind.
    pub is_synchronized: bool,
}

impl Moment {
    /// The time now.
    pub fn now() -> Moment {
        Moment { now: SystemTime::now(), is_synchronized: clock_is_synchronized() }
    }
}

/// An issuer whose tokens count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenIssuer {
    name: String,
    keys: Vec<PublicKey>,
    audience: String,
    max_lifetime: Duration,
    any_node: bool,
    /// The names of roles, by namespace and name of the ServiceAccount.
    bindings: BTreeMap<(String, String), String>,
}

/// The content of a token whose signature is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownToken {
    /// Its claims.
    pub claims: Claims,
    /// The key that has signed it.
    pub key: Thumbprint,
}

impl ShownToken {
    /// The name of its ServiceAccount as a user.
    pub fn user(&self) -> String {
        self.claims.user().to_string()
    }

    /// The pod that has shown it and its node, as the record has them.
    pub fn origin(&self) -> String {
        let Claims { pod, node, .. } = &self.claims;
        let named = |what: &str, bound: &Option<Bound>| {
            let text =
                |bound: &Bound| format!(" {what} {:?} ({})", bound.name, bound.uid.escape_debug());
            bound.as_ref().map(text).unwrap_or_default()
        };
        named("in pod", pod) + &named("on node", node)
    }

    /// Returns whether the same pod has shown both, or the same ServiceAccount without a pod.
    pub fn is_of_same_client(&self, other: &ShownToken) -> bool {
        let whose = |token: &ShownToken| {
            let Claims { issuer, namespace, account, pod, .. } = &token.claims;
            (issuer.clone(), namespace.clone(), account.clone(), pod.clone())
        };
        whose(self) == whose(other)
    }
}

impl TokenIssuer {
    /// Reads the spec.
    ///
    /// # Errors
    /// Something is missing or malformed, or says two things.
    pub fn new(spec: &TokenIssuerSpec) -> Result<TokenIssuer, String> {
        let TokenIssuerSpec { issuer, public_keys, audience, .. } = spec;
        if !is_word(issuer) {
            return Err("`issuer` is what tokens have as `iss`, such as \
                        `https://kubernetes.default.svc.cluster.local`"
                .to_owned());
        }
        let audience = if audience.is_empty() { AUDIENCE } else { audience };
        if !is_word(audience) {
            return Err(format!("`audience` is one word, such as `{AUDIENCE}`"));
        }
        let max_lifetime = match spec.max_lifetime_seconds {
            0 => LIFETIME,
            seconds => Duration::from_secs(seconds.into()),
        };
        if max_lifetime > MAX_LIFETIME {
            let most = MAX_LIFETIME.as_secs();
            return Err(format!("`maxLifetimeSeconds` is at most {most}, a day"));
        }
        Ok(TokenIssuer {
            name: issuer.clone(),
            keys: PublicKey::all(public_keys)?,
            audience: audience.to_owned(),
            max_lifetime,
            any_node: spec.any_node,
            bindings: bindings(&spec.bindings)?,
        })
    }

    /// The claim `iss` of its tokens.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Verifies a token of this issuer that is shown to the node with this name, if it has one.
    /// Returns what the token says, and the name of the role that it has. The signature comes last,
    /// as it takes the longest.
    ///
    /// # Errors
    /// The token does not count here, or not now.
    pub fn verify(
        &self,
        token: Token,
        at: Moment,
        node: Option<&str>,
    ) -> Result<(ShownToken, &str), String> {
        let Claims { expires, not_before, issued, .. } = token.claims;
        if at.now >= expires {
            return Err("the token has expired".to_owned());
        }
        let is_early = |time: SystemTime| time > at.now + LEEWAY;
        if at.is_synchronized && not_before.into_iter().chain([issued]).any(is_early) {
            return Err("the token is not valid yet".to_owned());
        }
        let role = self.permit(&token.claims, node)?;
        let named = |key: &&PublicKey| token.key_id.as_deref().is_some_and(|id| key.is_named(id));
        // A signer outside the API server may give its keys other names than PEM does.
        let is_known = self.keys.iter().any(|key| named(&key));
        let mut keys = self.keys.iter().filter(|key| !is_known || named(key));
        let key = keys.find(|key| key.verifies(&token));
        let key = key.ok_or("the signature of the token is not by a key of its issuer")?;
        Ok((ShownToken { key: key.thumbprint(), claims: token.claims }, role))
    }

    /// The name of the role that a token has which was verified before.
    ///
    /// # Errors
    /// It would not be accepted any more.
    pub fn recheck(&self, shown: &ShownToken, node: Option<&str>) -> Result<&str, String> {
        match self.keys.iter().any(|key| key.thumbprint() == shown.key) {
            true => self.permit(&shown.claims, node),
            false => Err("the key of the token is not one of its issuer any more".to_owned()),
        }
    }

    /// The checks that depend neither on the time nor on keys.
    fn permit(&self, claims: &Claims, node: Option<&str>) -> Result<&str, String> {
        if !claims.audiences.contains(&self.audience) {
            let audience = &self.audience;
            return Err(format!("the token is not for the audience `{audience}`"));
        }
        let lifetime = claims.expires.duration_since(claims.issued).unwrap_or_default();
        if lifetime > self.max_lifetime {
            let (has, most) = (lifetime.as_secs(), self.max_lifetime.as_secs());
            return Err(format!("the token is valid for {has} seconds, and {most} are allowed"));
        }
        if !self.any_node {
            let node = node.ok_or("the node does not know its name in the cluster")?;
            if claims.node.as_ref().is_none_or(|bound| bound.name != node) {
                return Err(format!("the token is of no pod on the node `{node}`"));
            }
        }
        let account = (claims.namespace.clone(), claims.account.clone());
        let role = self.bindings.get(&account);
        role.map(String::as_str).ok_or_else(|| "its ServiceAccount has no role here".to_owned())
    }
}

/// Returns whether a text may be a claim: printable characters of ASCII without spaces.
fn is_word(text: &str) -> bool {
    (1..=MAX_TEXT).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic())
}

fn bindings(written: &[TokenBinding]) -> Result<BTreeMap<(String, String), String>, String> {
    if !(1..=MAX_BINDINGS).contains(&written.len()) {
        return Err(format!("an issuer has 1 to {MAX_BINDINGS} `bindings`"));
    }
    let mut bindings = BTreeMap::new();
    for TokenBinding { namespace, service_account, role } in written {
        for (key, name, max) in [
            ("namespace", namespace, MAX_NAMESPACE),
            ("serviceAccount", service_account, MAX_ACCOUNT),
        ] {
            if !is_name(name, max) {
                let name = name.escape_debug();
                return Err(format!("`{name}` is no name for `{key}`: it stands for one alone"));
            }
        }
        custom_role::check_reference(role)?;
        let account = (namespace.clone(), service_account.clone());
        if bindings.insert(account, role.clone()).is_some() {
            return Err(format!("`{namespace}/{service_account}` has two bindings"));
        }
    }
    Ok(bindings)
}

/// Returns whether Kubernetes gives an object such a name (RFC 1123).
fn is_name(name: &str, max: usize) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    (1..=max).contains(&name.len()) && name.chars().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
    use serde_json::json;
    use std::time::UNIX_EPOCH;

    /// The time at which the tokens of these tests are issued, in seconds since 1970.
    const ISSUED: u64 = 1_795_780_800;

    fn spec(keys: &str) -> TokenIssuerSpec {
        let word = str::to_owned;
        let binding = TokenBinding {
            namespace: word("fleet"),
            service_account: word("observer"),
            role: word("reader"),
        };
        TokenIssuerSpec {
            issuer: word("https://example.org"),
            public_keys: word(keys),
            bindings: vec![binding],
            ..TokenIssuerSpec::default()
        }
    }

    /// A token for an hour that counts from `not_before` on.
    fn token(key: &rcgen::KeyPair, not_before: u64) -> String {
        let claims = json!({
            "aud": AUDIENCE, "iss": "https://example.org", "exp": ISSUED + 3600, "iat": ISSUED,
            "nbf": not_before, "sub": "system:serviceaccount:fleet:observer",
            "kubernetes.io": {
                "namespace": "fleet",
                "node": { "name": "edge-7", "uid": "n" },
                "serviceaccount": { "name": "observer", "uid": "s" },
            },
        });
        let parts = [json!({ "alg": "ES256" }), claims].map(|part| part.to_string());
        let signed = parts.map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::from_pkcs8(algorithm, &key.serialize_der(), &random).unwrap();
        let signature = key.sign(&random, signed.as_bytes()).unwrap();
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    #[test]
    fn a_token_of_tomorrow_counts_only_while_the_clock_is_not_set() {
        let key = rcgen::KeyPair::generate().unwrap();
        let issuer = TokenIssuer::new(&spec(&key.public_key_pem())).unwrap();
        let verify = |text: &str, seconds: u64, is_synchronized: bool| {
            let now = UNIX_EPOCH + Duration::from_secs(seconds);
            let at = Moment { now, is_synchronized };
            let token = Token::parse(text).unwrap();
            issuer.verify(token, at, Some("edge-7")).map(|(_, role)| role.to_owned())
        };
        let reader = Ok("reader".to_owned());
        let (plain, late) = (token(&key, ISSUED), token(&key, ISSUED + 90));
        assert_eq!(verify(&plain, ISSUED + 3599, true), reader);
        assert!(verify(&plain, ISSUED + 3600, true).unwrap_err().contains("has expired"));
        assert!(verify(&plain, ISSUED + 3600, false).is_err(), "the end counts without a clock");
        assert_eq!(verify(&plain, ISSUED - 60, true), reader, "clocks differ");
        assert!(verify(&plain, ISSUED - 61, true).unwrap_err().contains("not valid yet"));
        assert_eq!(verify(&plain, 0, false), reader);
        assert!(verify(&late, ISSUED + 29, true).unwrap_err().contains("not valid yet"));
        assert_eq!(verify(&late, ISSUED + 30, true), reader);
        assert_eq!(verify(&late, ISSUED, false), reader);
    }

    #[test]
    fn a_token_counts_on_any_node_only_if_the_issuer_says_so() {
        let key = rcgen::KeyPair::generate().unwrap();
        let text = token(&key, ISSUED);
        let at = Moment { now: UNIX_EPOCH + Duration::from_secs(ISSUED), is_synchronized: true };
        for (any_node, node, counts) in [
            (false, Some("edge-7"), true),
            (false, Some("edge-8"), false),
            (false, None, false),
            (true, Some("edge-8"), true),
            (true, None, true),
        ] {
            let spec = TokenIssuerSpec { any_node, ..spec(&key.public_key_pem()) };
            let issuer = TokenIssuer::new(&spec).unwrap();
            let verified = issuer.verify(Token::parse(&text).unwrap(), at, node);
            assert_eq!(verified.is_ok(), counts, "{any_node} {node:?}");
        }
    }

    #[test]
    fn an_issuer_that_is_incomplete_or_too_generous_is_refused() {
        let good = spec(&rcgen::KeyPair::generate().unwrap().public_key_pem());
        assert!(TokenIssuer::new(&good).is_ok());
        let changed = |change: fn(&mut TokenIssuerSpec)| {
            let mut spec = good.clone();
            change(&mut spec);
            TokenIssuer::new(&spec).unwrap_err()
        };
        for (reason, refusal) in [
            (changed(|spec| spec.issuer.clear()), "`issuer` is what"),
            (changed(|spec| spec.issuer = "a b".to_owned()), "`issuer` is what"),
            (changed(|spec| spec.audience = "a\n".to_owned()), "`audience` is one word"),
            (changed(|spec| spec.public_keys.clear()), "has no key"),
            (changed(|spec| spec.max_lifetime_seconds = 86_401), "at most 86400"),
            (changed(|spec| spec.bindings.clear()), "1 to 64"),
            (changed(|spec| spec.bindings = vec![spec.bindings[0].clone(); 65]), "1 to 64"),
            (changed(|spec| spec.bindings = vec![spec.bindings[0].clone(); 2]), "two bindings"),
            (changed(|spec| spec.bindings[0].namespace = "*".to_owned()), "stands for one"),
            (changed(|spec| spec.bindings[0].service_account.clear()), "stands for one"),
            (changed(|spec| spec.bindings[0].role.clear()), "no name of a role"),
            (changed(|spec| spec.bindings[0].role = "Admin".to_owned()), "no name of a role"),
        ] {
            assert!(reason.contains(refusal), "{refusal}: {reason}");
        }
    }
}
