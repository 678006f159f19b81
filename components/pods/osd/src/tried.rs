//! A try, and the calls that are part of it.

use osbuild_abi::osd::TRY_METADATA;
use osbuild_resources::Resource;
use std::sync::Arc;
use std::time::Instant;
use tonic::Status;
use tonic::metadata::MetadataMap;

/// Changes that are tried.
pub struct Tried {
    /// The number of the try. No other try of the node had it lately.
    pub number: u64,
    /// The settings before the changes.
    pub before: Vec<Arc<Resource>>,
    /// When a setting was changed last.
    pub changed: Option<Instant>,
    /// The caller that began the try.
    pub caller: String,
}

/// The try of which a call is part. A client that names it can rely on it: a call that arrives after
/// its end would change the node for good.
#[derive(Clone, Copy, Debug, Default)]
pub struct PartOf(Option<u64>);

impl PartOf {
    /// Reads the metadata of a request.
    pub fn of(metadata: &MetadataMap) -> Result<PartOf, Status> {
        let Some(value) = metadata.get(TRY_METADATA) else { return Ok(PartOf(None)) };
        let number = value.to_str().ok().and_then(|text| text.parse().ok());
        let no_number = || format!("the metadata `{TRY_METADATA}` has no number of a try");
        let number = number.ok_or_else(|| Status::invalid_argument(no_number()))?;
        Ok(PartOf(Some(number)))
    }

    /// Refuses a call unless it names this try, which is running, or none.
    pub fn check(self, tried: Option<&Tried>) -> Result<(), Status> {
        match self.0 {
            Some(number) if tried.is_none_or(|tried| tried.number != number) => Err(
                Status::failed_precondition("the try that this call is part of has ended already"),
            ),
            _ => Ok(()),
        }
    }
}
