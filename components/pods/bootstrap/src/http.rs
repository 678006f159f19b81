//! Requests to the metadata service of a machine.

use osbuild_failure::{Explain, Failure, Outcome};
use std::time::Duration;
use ureq::Agent;
use ureq::http::{Response, StatusCode};

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A client. Neither a proxy nor a redirection leads to the service of this machine.
pub fn agent() -> Agent {
    Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .build()
        .into()
}

/// The body of an answer of at most `max` bytes; none if the service has nothing at `url`.
///
/// # Errors
/// There is no such answer.
pub fn body(
    url: &str,
    answer: Result<Response<ureq::Body>, ureq::Error>,
    max: usize,
) -> Outcome<Option<Vec<u8>>> {
    let mut answer = answer.explain(url)?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::NO_CONTENT | StatusCode::NOT_FOUND => return Ok(None),
        status => return Err(Failure::new(format!("{url}: {status}"))),
    }
    let body = answer.body_mut().with_config().limit(max as u64).read_to_vec();
    body.map(Some).explain(url)
}
