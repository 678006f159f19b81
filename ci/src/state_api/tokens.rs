//! A client with the token of a ServiceAccount, which PyJWT has signed, in the place of a
//! certificate.

use super::remote::{Listening, Remote, claim};
use crate::check::Outcome;
use osbuild::error::{Context, Error, Result};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The program that signs tokens, in the checkout.
const SIGNER: &str = "components/pods/osd/tests/tokens.py";

/// The issuer of the tokens, and the node of the pod, as which `osd` knows itself.
const ISSUER: &str = "https://kubernetes.default.svc";
pub const NODE: &str = "edge-7";

/// The reason of `osctl` if the node has no issuer.
const NO_TOKENS: &str = "it takes no tokens";

/// osctl and grpcurl may do what the binding of their ServiceAccount says, once there is one.
pub fn count_as_their_issuer_says(
    remote: &Remote,
    node: &Listening,
    outcome: &mut Outcome,
) -> Result<()> {
    let (keys, token) = sign(remote)?;
    let write = |name: &str, text: &str| {
        let path = remote.folder.join(name);
        fs::write(&path, text).or_build(|| format!("cannot write `{}`", path.display()))?;
        Ok::<_, Error>(path.display().to_string())
    };
    let file = write("token", &token)?;
    let add = ["node", "add", "pod", &node.address, "--token-file", &file];
    let ran = remote.run(&add)?;
    let is_refused = ran.code == Some(2) && ran.output.contains("only to a node that is known");
    outcome.check("a token is shown to no unknown node", is_refused, || ran.output);
    let add = [&add[..], &["--fingerprint", &node.fingerprint]].concat();
    let ran = remote.run(&add)?;
    let is_refused = ran.code == Some(1) && ran.output.contains(NO_TOKENS);
    outcome.check("no token counts without an issuer", is_refused, || ran.output);
    let binding = json!({ "namespace": "fleet", "serviceAccount": "observer", "role": "reader" });
    let spec = json!({ "issuer": ISSUER, "publicKeys": keys, "bindings": [binding] });
    let issuer = json!({ "type": "TokenIssuer", "id": "cluster", "spec": spec });
    let issuer = write("issuer.yaml", &issuer.to_string())?;
    remote.finish(&["--node", "admin", "apply", "-f", &issuer])?;
    claim(outcome, "a node is added with a token", &remote.run(&add)?, Some(0));
    let ran = remote.run(&["--node", "pod", "get", "resolvers"])?;
    claim(outcome, "its ServiceAccount may read", &ran, Some(0));
    let documents = write("by-a-pod.yaml", "{type: Resolver, id: pod, spec: {search: local}}")?;
    let ran = remote.run(&["--node", "pod", "apply", "-f", &documents])?;
    claim(outcome, "and may change nothing", &ran, Some(2));
    let grpcurl = |header: &str| {
        let mut grpcurl = Command::new(remote.grpcurl);
        grpcurl.args(["-insecure", "-H", header, &node.address, "list"]);
        remote.site.run("state-api-grpcurl", &mut grpcurl)
    };
    let ran = grpcurl(&format!("authorization: Bearer {token}"))?;
    claim(outcome, "grpcurl shows a token", &ran, Some(0));
    let ran = grpcurl(&format!("authorization: Bearer {token}A"))?;
    let is_refused = ran.code != Some(0) && ran.output.contains("Unauthenticated");
    outcome.check("one with another signature is refused", is_refused, || ran.output);
    remote.finish(&["--node", "admin", "delete", "tokenissuer", "cluster"])?;
    let ran = remote.run(&["--node", "pod", "get", "resolvers"])?;
    let is_refused = ran.code == Some(1) && ran.output.contains(NO_TOKENS);
    outcome.check("none counts after its issuer", is_refused, || ran.output);
    remote.finish(&["node", "remove", "pod"]).map(drop)
}

/// The public keys, as the API server shows them, and the token of a pod.
fn sign(remote: &Remote) -> Result<(String, String)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let named = |name: &str| json!({ "name": name, "uid": "4f1c2d3e" });
    let claims = json!({
        "iss": ISSUER, "aud": ["node-api.osbuild"], "iat": now, "nbf": now, "exp": now + 3600,
        "sub": "system:serviceaccount:fleet:observer",
        "kubernetes.io": {
            "namespace": "fleet",
            "serviceaccount": named("observer"),
            "pod": named("observer-x7k2p"),
            "node": named(NODE),
        },
    });
    let wanted = json!({ "key": "rsa", "algorithm": "RS256", "claims": claims, "header": {} });
    let mut python = Command::new("python3");
    python.arg(remote.site.root.join(SIGNER)).arg(wanted.to_string());
    let output = remote.site.finish("state-api-tokens", &mut python)?.output;
    let unsigned = || Error::build("PyJWT has signed no token").cause(output.clone());
    let (keys, token) = output.trim().split_once('\n').ok_or_else(unsigned)?;
    let keys: Value = serde_json::from_str(keys).map_err(|_| unsigned())?;
    Ok((keys["jwks"]["rsa"].to_string(), token.to_owned()))
}
