//! EC2's instance metadata service, version 2
//! (`https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html`).
//!
//! A request needs a token, which the service gives only in answer to a PUT: a program that can be
//! made to send a GET somewhere cannot read user data. Its answers do not leave the machine,
//! because EC2 sends them with a hop limit of 1 unless an account changes that: the pod uses the
//! network of its host.

use crate::Given;
use crate::dmi::{Dmi, Mark};
use crate::http::{agent, body};
use crate::instance::Instance;
use crate::user_data::MAX_RAW;
use osbuild_failure::{Explain, Failure, Outcome};
use ureq::Agent;

/// The header with the token, and the one with the time for which it is valid, in seconds. A token
/// is used for the requests of one attempt.
const TOKEN: &str = "X-aws-ec2-metadata-token";
const TOKEN_TTL: (&str, &str) = ("X-aws-ec2-metadata-token-ttl-seconds", "60");
/// The longest token, and the largest identity document, in bytes.
const MAX_TOKEN: usize = 1 << 10;
const MAX_IDENTITY: usize = 16 << 10;

/// How EC2's firmware names the vendor of a machine.
const MARKS: [Mark; 1] = [Mark::Is("sys_vendor", "Amazon EC2")];

/// Whether the firmware names EC2. On any other machine any neighbour may have taken the service's
/// address.
pub fn is_here(dmi: Dmi) -> bool {
    dmi.has(&MARKS)
}

/// Asks the service at the first of these URLs that gives a token. None if the instance has no
/// user data.
///
/// # Errors
/// The service does not answer yet, or its answer is malformed.
pub fn ask(endpoints: &[String]) -> Outcome<Option<Given>> {
    let mut failures = Vec::new();
    for endpoint in endpoints {
        match Session::open(endpoint) {
            Ok(session) => return session.ask(),
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    Err(Failure::new(failures.join("; ")))
}

/// A token of the service.
struct Session<'a> {
    agent: Agent,
    endpoint: &'a str,
    token: String,
}

impl<'a> Session<'a> {
    fn open(endpoint: &'a str) -> Outcome<Self> {
        let agent = agent();
        let url = format!("{endpoint}/latest/api/token");
        let answer = agent.put(&url).header(TOKEN_TTL.0, TOKEN_TTL.1).send_empty();
        let token = body(&url, answer, MAX_TOKEN)?
            .and_then(|token| String::from_utf8(token).ok())
            .ok_or_else(|| Failure::new(format!("{url}: there is no token")))?;
        Ok(Session { agent, endpoint, token })
    }

    fn ask(&self) -> Outcome<Option<Given>> {
        let identity = self.get("dynamic/instance-identity/document", MAX_IDENTITY)?;
        let identity = identity.ok_or_else(|| Failure::new("the instance has no identity"))?;
        let identity: serde_json::Value =
            serde_json::from_slice(&identity).explain("read the identity of the instance")?;
        let instance = Instance::parse(identity["instanceId"].as_str().unwrap_or_default())?;
        let bytes = self.get("user-data", MAX_RAW)?.filter(|bytes| !bytes.is_empty());
        Ok(bytes.map(|bytes| Given { instance, bytes }))
    }

    fn get(&self, path: &str, max: usize) -> Outcome<Option<Vec<u8>>> {
        let url = format!("{}/latest/{path}", self.endpoint);
        let answer = self.agent.get(&url).header(TOKEN, &self.token).call();
        body(&url, answer, max)
    }
}
