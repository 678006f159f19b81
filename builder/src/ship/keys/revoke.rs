//! Revokes certificates and images.

use super::public_file::write_public;
use super::trust::list;
use super::{Keys, Role};
use crate::error::{Error, Result};
use osbuild_signatures::efi::Listed;

/// Adds a certificate or an image to dbx. It takes effect on a machine that enrolls the new list.
///
/// # Errors
/// It is the certificate that signs images now: machines would boot none of them. Or it never
/// signed an image, like that of PK, so that revoking it has no effect.
pub fn revoke(keys: &Keys, what: Listed) -> Result<()> {
    if what == keys.certificate(Role::Db)?.into() {
        return Err(Error::usage(format!(
            "the keys `{}` sign images with this certificate",
            keys.name
        ))
        .cause("machines that revoke it would boot none of them")
        .hint(format!("cargo osbuild keys rotate {}", keys.name)));
    }
    if let Listed::Certificate(certificate) = &what
        && !keys.retired()?.iter().any(|(_, retired)| retired == &**certificate)
    {
        return Err(Error::usage(format!(
            "the certificate `{}` never signed images for the keys `{}`",
            certificate.name(),
            keys.name
        ))
        .hint(format!(
            "revocable certificates are named db-1, db-2 and so on: cargo osbuild keys show {}",
            keys.name
        )));
    }
    let mut revoked = keys.revoked()?;
    if revoked.contains(&what) {
        return Ok(());
    }
    revoked.push(what);
    write_public(&keys.dbx(), list(&revoked))
}
