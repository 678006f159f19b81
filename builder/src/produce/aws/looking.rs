//! AWS for who only looks: what `--dry-run` asks.

use super::{Answer, Cloud, Failure, Live, Patience, Region, Request};
use crate::error::Error;

/// AWS as this machine reaches it, to which no call is sent that changes anything.
pub struct Looking(Live);

impl Looking {
    /// AWS for who is called so by this process's environment.
    pub fn usual() -> Self {
        Looking(Live::usual())
    }
}

impl Cloud for Looking {
    fn call(&self, region: &Region, request: &Request) -> Result<Answer, Failure> {
        match request.action.only_looks() {
            true => self.0.call(region, request),
            false => Err(Failure::Unsent(Error::build(format!(
                "a dry run does not call {}",
                request.action.permission()
            )))),
        }
    }

    fn workers(&self) -> usize {
        self.0.workers()
    }

    fn patience(&self) -> &Patience {
        self.0.patience()
    }
}
