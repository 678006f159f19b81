//! Calls to AWS: who makes them ([`Credentials`]), where ([`Region`]), what is asked ([`Request`]),
//! how it is sent ([`Live`]), and what comes back ([`Answer`], [`Failure`]). Why no SDK does this:
//! decision 14.

mod action;
mod answer;
mod credentials;
mod failure;
mod live;
mod looking;
mod patience;
mod region;
mod rehearsal;
mod request;

pub use action::{Action, Service};
pub use answer::{Answer, Element};
pub use credentials::Credentials;
pub use failure::Failure;
pub use live::Live;
pub use looking::Looking;
pub use patience::Patience;
pub use region::Region;
pub use rehearsal::Rehearsal;
pub use request::{Body, Method, Request, Source};

/// Whoever answers calls: AWS, AWS for who only looks, or a rehearsal that sends nothing.
pub trait Cloud: Send + Sync {
    /// Makes one call in a region. What can be tried again has been tried again before this fails.
    fn call(&self, region: &Region, request: &Request) -> Result<Answer, Failure>;

    /// How many calls are made at a time where many are to be made.
    fn workers(&self) -> usize;

    /// How long to wait between two looks at something that takes minutes.
    fn patience(&self) -> &Patience;
}
