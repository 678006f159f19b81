//! A transport that refuses calls that change anything: `publish aws --dry-run --prune N` uses it.

use super::{Client, Failure, Region, Request, Response, Retry, Transport};

/// AWS, without the calls that change anything.
pub struct ReadOnly(pub Client);

impl Transport for ReadOnly {
    fn call(&self, region: &Region, request: &Request) -> Result<Response, Failure> {
        match request.action.is_read_only() {
            true => self.0.call(region, request),
            false => Err(Failure::ReadOnly),
        }
    }

    fn workers(&self) -> usize {
        self.0.workers()
    }

    fn retry(&self) -> &Retry {
        self.0.retry()
    }
}
