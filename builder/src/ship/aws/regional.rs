//! AWS in one region.

use crate::error::Result;
use crate::produce::aws::{Action, Answer, Cloud, Element, Failure, Region, Request};

/// Whoever answers calls, in one region.
pub(super) struct Regional<'a> {
    pub cloud: &'a dyn Cloud,
    pub region: Region,
}

impl Regional<'_> {
    /// Makes a call that has to succeed.
    pub fn call(&self, request: &Request) -> Result<Answer> {
        self.said(request.action, self.attempt(request))
    }

    /// Makes a call whose failure may mean something.
    pub fn attempt(&self, request: &Request) -> std::result::Result<Answer, Failure> {
        self.cloud.call(&self.region, request)
    }

    /// Makes a call of EC2 that has to succeed.
    pub fn query(&self, action: Action, parameters: Vec<(String, String)>) -> Result<Answer> {
        self.call(&Request::query(action, parameters))
    }

    /// A failure as an error.
    pub fn said<T>(&self, action: Action, done: std::result::Result<T, Failure>) -> Result<T> {
        done.map_err(|failure| failure.error(action, &self.region))
    }
}

/// The parameters that choose what is ours and fits these filters, as EC2's calls that look want
/// them.
pub(super) fn ours(filters: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    for (number, (name, value)) in (1..).zip(filters) {
        parameters.push((format!("Filter.{number}.Name"), (*name).to_owned()));
        parameters.push((format!("Filter.{number}.Value.1"), (*value).to_owned()));
    }
    parameters
}

/// A list of parameters from names and values.
pub(super) fn parameters<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The tags of an image or a snapshot in an answer of EC2's, names and values.
pub(super) fn tags(item: &Element) -> Vec<(String, String)> {
    let pair = |tag: &Element| {
        Some((tag.get("key")?.to_owned(), tag.get("value").unwrap_or_default().to_owned()))
    };
    item.items("tagSet").iter().filter_map(pair).collect()
}

/// The value of the tag with this name.
pub(super) fn tag<'a>(tags: &'a [(String, String)], name: &str) -> Option<&'a str> {
    tags.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}
