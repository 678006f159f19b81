//! Names of blobs.

use prost::Message;

/// The name of some bytes: their SHA-256 and length, as the message `Digest` of the API.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct BlobId {
    /// Lower-case hexadecimal SHA-256.
    #[prost(string, tag = "1")]
    pub hash: String,
    /// Length in bytes.
    #[prost(int64, tag = "2")]
    pub size: i64,
}

impl BlobId {
    /// The name of bytes with this hash, in lower-case hexadecimal, and this length.
    pub fn new(hash: String, size: u64) -> Self {
        BlobId { hash, size: i64::try_from(size).expect("no file is larger than eight exabytes") }
    }

    /// The length in bytes; 0 for a negative one.
    pub fn length(&self) -> u64 {
        u64::try_from(self.size).unwrap_or(0)
    }
}
