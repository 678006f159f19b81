//! AWS itself: signs calls, sends them, and tries again what may pass.

use super::credentials::wait;
use super::patience::sleep;
use super::{
    Answer, Body, Cloud, Credentials, Failure, Method, Patience, Region, Request, Service, Source,
};
use crate::engine::digest::Digest;
use crate::error::Error;
use reqsign_aws_v4::{Credential, RequestSigner};
use reqsign_core::{Context, SignRequest};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use ureq::http::HeaderValue;
use ureq::http::header::CONTENT_LENGTH;
use ureq::{Agent, SendBody};

/// No answer that osbuild asks for is longer.
const LONGEST: u64 = 16 << 20;

/// How many calls are made at a time, each with a connection of its own.
const WORKERS: usize = 16;

/// AWS, as this machine reaches it.
pub struct Live {
    agent: Agent,
    credentials: Credentials,
    patience: Patience,
    /// Other addresses than AWS's own, by service: `AWS_ENDPOINT_URL_EBS` and so on, or
    /// `AWS_ENDPOINT_URL` for all.
    addresses: Vec<(Service, String)>,
}

impl Live {
    /// AWS for who is called so by this process's environment.
    pub fn usual() -> Self {
        let named = |service: Service| {
            let own = format!("AWS_ENDPOINT_URL_{}", service.name().to_uppercase());
            let found = [own.as_str(), "AWS_ENDPOINT_URL"]
                .into_iter()
                .find_map(|name| std::env::var(name).ok());
            Some((service, found.filter(|address| !address.is_empty())?))
        };
        let addresses =
            [Service::Ebs, Service::Ec2, Service::Kms].into_iter().filter_map(named).collect();
        let patience = Patience::default();
        Live::new(Credentials::usual(&patience), patience, addresses)
    }

    /// AWS for these, with this patience, and some services at other addresses.
    pub fn new(
        credentials: Credentials,
        patience: Patience,
        addresses: Vec<(Service, String)>,
    ) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections(WORKERS)
            .max_idle_connections_per_host(WORKERS)
            .timeout_connect(Some(patience.connect))
            .timeout_per_read(Some(patience.silence))
            .timeout_per_write(Some(patience.silence))
            .timeout_recv_response(Some(patience.silence))
            .user_agent(concat!("osbuild/", env!("CARGO_PKG_VERSION")));
        Live { agent: config.build().new_agent(), credentials, patience, addresses }
    }

    fn once(
        &self,
        region: &Region,
        request: &Request,
        credential: &Credential,
    ) -> Result<Answer, Failure> {
        let unsent = |error: &dyn std::fmt::Display| {
            Failure::Unclear(format!("the call cannot be written: {error}"))
        };
        let (mut parts, ()) =
            self.head(region, request).map_err(|error| unsent(&error))?.into_parts();
        let signer = RequestSigner::new(request.action.service().name(), region.name())
            .with_standard_session_token();
        wait(signer.sign_request(&Context::new(), &mut parts, Some(credential), None))
            .map_err(|error| unsent(&error.kind()))?;
        let mut response = self.send(parts, &request.body)?;
        let body = response.body_mut().with_config().limit(LONGEST).read_to_vec();
        let body = body.map_err(|error| Failure::Unreachable(error.to_string()))?;
        match response.status() {
            status if status.is_success() => Ok(Answer { body }),
            status => {
                let code = response
                    .headers()
                    .get("x-amzn-errortype")
                    .and_then(|value| value.to_str().ok());
                Err(Failure::refused(status.as_u16(), code, body))
            }
        }
    }

    /// Sends the call, and gives the answer without its body. A source's bytes go from where they
    /// are into the connection's buffer, and lie nowhere in between.
    fn send(
        &self,
        mut parts: http::request::Parts,
        body: &Body,
    ) -> Result<http::Response<ureq::Body>, Failure> {
        let unreachable = |error: ureq::Error| Failure::Unreachable(error.to_string());
        let source = match body {
            Body::Bytes(bytes) => {
                return self
                    .agent
                    .run(http::Request::from_parts(parts, &bytes[..]))
                    .map_err(unreachable);
            }
            Body::Source(source) => *source,
        };
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(source.length()));
        let mut reader = Reader { source, at: 0, failed: None };
        let sent =
            self.agent.run(http::Request::from_parts(parts, SendBody::from_reader(&mut reader)));
        reader.failed.map_or(sent.map_err(unreachable), |error| Err(Failure::Unsent(error)))
    }

    /// The call without its signature.
    fn head(&self, region: &Region, request: &Request) -> http::Result<http::Request<()>> {
        let service = request.action.service();
        let other = self
            .addresses
            .iter()
            .find(|(named, _)| *named == service)
            .map(|(_, address)| address.clone());
        let address = other.unwrap_or_else(|| region.address(service));
        let method = match request.method {
            Method::Post => http::Method::POST,
            Method::Put => http::Method::PUT,
        };
        let sha256 = match &request.body {
            Body::Bytes(bytes) => Digest::of(bytes),
            Body::Source(source) => Digest::new(source.sha256(), source.length()),
        };
        let head = http::Request::builder().method(method).uri(format!(
            "{}{}",
            address.trim_end_matches('/'),
            request.path
        ));
        let head = head.header("x-amz-content-sha256", sha256.hex());
        request.headers.iter().fold(head, |head, (name, value)| head.header(*name, value)).body(())
    }
}

impl Cloud for Live {
    fn call(&self, region: &Region, request: &Request) -> Result<Answer, Failure> {
        let mut failed = 0;
        let mut renewed = false;
        loop {
            let credential = self.credentials.get().map_err(Failure::Unsent)?;
            let failure = match self.once(region, request, &credential) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if failure.is_expired() && !renewed && self.credentials.replace(&credential) {
                renewed = true;
                continue;
            }
            failed += 1;
            if failed >= self.patience.tries || !failure.may_pass(request.action) {
                return Err(failure);
            }
            sleep(self.patience.pause(failed, chance())).map_err(Failure::Unsent)?;
        }
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn patience(&self) -> &Patience {
        &self.patience
    }
}

/// A source's bytes, in their order.
struct Reader<'a> {
    source: &'a dyn Source,
    at: u64,
    /// Why they cannot be read: not the connection's fault.
    failed: Option<Error>,
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(self.at, buffer).map_err(|error| {
            self.failed = Some(error);
            io::Error::other("the source cannot be read")
        })?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A number between 0 and 1 that differs from call to call.
fn chance() -> f64 {
    RandomState::new().hash_one(0) as f64 / u64::MAX as f64
}
