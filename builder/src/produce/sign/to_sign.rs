//! The digests that a person at another machine has to sign.

use super::Signable;
use crate::engine::fs_error::{IoContext, make_directory, remove};
use crate::error::Result;
use std::path::{Path, PathBuf};

/// Writes the digest of each product into a new `folder`: the 32 bytes of its SHA-256 in
/// `NAME.sha256`. Returns the files.
pub fn write(folder: &Path, products: &[(&str, &dyn Signable)]) -> Result<Vec<PathBuf>> {
    remove(folder)?;
    make_directory(folder)?;
    let write = |(name, product): &(&str, &dyn Signable)| {
        let path = folder.join(format!("{name}.sha256"));
        std::fs::write(&path, product.to_be_signed()?.hash()).at("write", &path)?;
        Ok(path)
    };
    products.iter().map(write).collect()
}
