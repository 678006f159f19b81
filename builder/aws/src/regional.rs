//! Calls in one region.

use super::{Action, Error, Failure, Region, Request, Response, Result, Retry, Transport};

/// Makes calls in one region: those to EC2 are in `ec2.rs`, to EBS direct in `ebs.rs`, to KMS in
/// `kms.rs`.
pub struct RegionalClient<'a> {
    /// Sends the calls.
    pub transport: &'a dyn Transport,
    /// The region.
    pub region: Region,
}

impl<'a> RegionalClient<'a> {
    /// A client for this region.
    pub fn new(transport: &'a dyn Transport, region: &Region) -> Self {
        RegionalClient { transport, region: region.clone() }
    }

    /// The same client in another region.
    pub fn in_region(&self, region: &Region) -> Self {
        RegionalClient::new(self.transport, region)
    }

    /// The timeouts and numbers of tries.
    pub fn retry(&self) -> &Retry {
        self.transport.retry()
    }

    /// Makes a call, and reads its response.
    pub(crate) fn call<T>(
        &self,
        request: &Request,
        read: impl FnOnce(Response) -> std::result::Result<T, Failure>,
    ) -> Result<T> {
        let response = self.transport.call(&self.region, request).and_then(read);
        response.map_err(|failure| self.error(request.action, failure))
    }

    pub(crate) fn error(&self, action: Action, failure: Failure) -> Error {
        Error { action, region: self.region.clone(), failure }
    }
}
