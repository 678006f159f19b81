//! What is trusted no longer.

use super::trust::list;
use super::{Keys, Role};
use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use osbuild_signatures::efi::Listed;

/// Adds a certificate or an image to what is revoked. It takes effect on a machine when that is
/// given the list.
///
/// # Errors
/// It is the certificate by which images are signed now: no machine would start any of them. Or one
/// that never signed an image, as that of PK, which does nothing where firmware looks for it.
pub fn revoke(keys: &Keys, what: Listed) -> Result<()> {
    if what == keys.certificate(Role::Db)?.into() {
        return Err(Error::usage(format!(
            "the keys `{}` sign images with this certificate",
            keys.name
        ))
        .cause("a machine on which it is revoked would start none of them")
        .hint(format!("cargo osbuild keys rotate {}", keys.name)));
    }
    if let Listed::Certificate(certificate) = &what
        && !keys.retired()?.iter().any(|(_, retired)| retired == &**certificate)
    {
        return Err(Error::usage(format!(
            "the certificate `{}` is not one with which the keys `{}` signed images",
            certificate.name(),
            keys.name
        ))
        .hint(format!(
            "those are named db-1, db-2 and so on: cargo osbuild keys show {}",
            keys.name
        )));
    }
    let mut revoked = keys.revoked()?;
    if revoked.contains(&what) {
        return Ok(());
    }
    revoked.push(what);
    let (path, unfinished) = (keys.dbx(), keys.dbx().with_extension("unfinished"));
    std::fs::write(&unfinished, list(&revoked)).at("write", &unfinished)?;
    std::fs::rename(&unfinished, &path).at("write", &path)
}
