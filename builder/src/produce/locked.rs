//! The digests of locked sources. The lock has them, so a step can be named, and its result found,
//! before any of its sources is here.

use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use crate::plan::{Blob, DebianPackage, GoToolchain};

/// The digest of a package.
///
/// # Errors
/// The lock has something else in its place, as of all these functions.
pub fn package(package: &DebianPackage) -> Result<Digest> {
    digest(&package.sha256, package.size)
}

/// The digest of a file of a Go module.
pub fn blob(blob: &Blob) -> Result<Digest> {
    digest(&blob.sha256, blob.size)
}

/// The digest of the zip file with the Go toolchain.
pub fn go(toolchain: &GoToolchain) -> Result<Digest> {
    digest(&toolchain.sha256, toolchain.size)
}

/// The digest with this SHA-256 in hexadecimal and this size in bytes.
pub fn digest(sha256: &str, size: u64) -> Result<Digest> {
    Digest::parse(sha256, size).ok_or_else(|| {
        Error::lock(format!("`{sha256}` in the lock is not a SHA-256 digest"))
            .hint("`cargo osbuild lock` writes locks; do not edit them by hand")
    })
}
