//! Tokens that PyJWT has signed.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// The program, in the folder of the tests.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tokens.py");

/// The `iss` and `aud` of the tokens of the tests, and the node that accepts them.
pub const ISSUER: &str = "https://kubernetes.default.svc";
pub const AUDIENCE: &str = "node-api.osbuild";
pub const NODE: &str = "edge-7";

/// Makes tokens with keys of its own. It ends with the test.
pub struct Signer {
    child: Child,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    keys: Value,
}

/// A token, as it is asked for.
#[derive(Clone)]
pub struct Wanted {
    pub key: &'static str,
    pub algorithm: &'static str,
    pub header: Value,
    pub claims: Value,
}

impl Signer {
    pub fn start() -> Signer {
        let mut command = Command::new("python3");
        let piped = command.arg(PROGRAM).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        stdout.read_line(&mut first).unwrap();
        let keys = serde_json::from_str(&first).expect("python3 has PyJWT and cryptography");
        Signer { child, pipes: Mutex::new((stdin, stdout)), keys }
    }

    /// A public key in PEM, or a set with it.
    pub fn pem(&self, key: &str) -> String {
        self.keys["pem"][key].as_str().unwrap().to_owned()
    }

    pub fn key_set(&self, key: &str) -> String {
        self.keys["jwks"][key].to_string()
    }

    pub fn sign(&self, wanted: &Wanted) -> String {
        let Wanted { key, algorithm, header, claims } = wanted;
        let line = json!({
            "key": key,
            "algorithm": algorithm,
            "header": header,
            "claims": claims,
        });
        let (stdin, stdout) = &mut *self.pipes.lock().unwrap();
        writeln!(stdin, "{line}").unwrap();
        let mut token = String::new();
        stdout.read_line(&mut token).unwrap();
        assert!(!token.is_empty(), "PyJWT signs no {claims}");
        token.trim_end().to_owned()
    }

    /// The token of a pod of this ServiceAccount on this node that is good for so many seconds.
    pub fn of_pod(&self, account: &str, pod: &str, seconds: u64) -> String {
        self.sign(&wanted(account, pod, seconds))
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The claims that the API server would sign for a pod in the namespace `fleet`.
pub fn wanted(account: &str, pod: &str, seconds: u64) -> Wanted {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({
        "aud": [AUDIENCE],
        "exp": now + seconds,
        "iat": now,
        "nbf": now,
        "iss": ISSUER,
        "jti": "7f9c2ba4-e88f-4271-8f02-5a4d6e5f0a11",
        "kubernetes.io": {
            "namespace": "fleet",
            "node": { "name": NODE, "uid": "0c1d2e3f-1111-4222-8333-444455556666" },
            "pod": { "name": pod, "uid": format!("{pod}-5b0f9f7e") },
            "serviceaccount": { "name": account, "uid": "9d8c7b6a-1111-4222-8333-444455556666" },
        },
        "sub": format!("system:serviceaccount:fleet:{account}"),
    });
    Wanted { key: "ec", algorithm: "ES256", header: json!({}), claims }
}
