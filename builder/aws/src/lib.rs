//! The calls to AWS that publish an image (EC2, EBS direct) and sign with a KMS key. Decision 14
//! explains why they do not use an SDK, decision 24 why they use `reqwest`.
//!
//! A [`RegionalClient`] makes the calls, one method each, through a [`Transport`]: [`Client`] is
//! AWS itself, [`ReadOnly`] refuses calls that change anything, and [`DryRun`] records calls and
//! sends none. To add a call, add its name to [`Action`] and a method to [`RegionalClient`].
//!
//! No credential is part of an error, of a log or of a `Debug` text.

mod action;
mod client;
mod credentials;
mod dry_run;
mod ebs;
mod ec2;
mod error;
mod kms;
mod read_only;
mod region;
mod regional;
mod request;
mod response;
mod retry;

pub use action::{Action, Service};
pub use client::Client;
pub use credentials::Credentials;
pub use dry_run::DryRun;
pub use ebs::{BLOCK_SIZE, NewSnapshot};
pub use ec2::{Image, ImageCopy, NewImage, Snapshot, Tag, tag};
pub use error::{Error, Failure, Result};
pub use kms::{InvalidArn, KeyArn, PublicKey};
pub use read_only::ReadOnly;
pub use region::{InvalidRegion, Region};
pub use regional::RegionalClient;
pub use request::{Method, Request};
pub use response::{Element, Response};
pub use retry::{Retry, Stopped};

/// Sends calls: AWS itself, or a stand-in.
pub trait Transport: Send + Sync {
    /// Makes one call in a region. Temporary failures are retried according to [`Retry`].
    fn call(&self, region: &Region, request: &Request) -> std::result::Result<Response, Failure>;

    /// The maximum number of parallel calls.
    fn workers(&self) -> usize;

    /// The timeouts and numbers of tries, also for code that polls AWS.
    fn retry(&self) -> &Retry;
}
