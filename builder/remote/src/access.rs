//! The credentials of a user for a cache, and the authorities that the user trusts.

use std::fmt;
use std::path::PathBuf;

/// Certificates and headers. `Debug` shows none of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Certificates of authorities in PEM, instead of those of the machine.
    pub roots: Option<Vec<u8>>,
    /// The certificate of this client and its private key, both in PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Headers of every call, such as `authorization`; the names are in lower case.
    pub headers: Vec<(String, String)>,
    /// A program that makes further headers, as Bazel runs it.
    pub credential_helper: Option<PathBuf>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Access")
    }
}
