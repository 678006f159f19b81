//! Detached signatures, in a file beside the content: PKCS#7 in DER without content and without
//! attributes, as iPXE's `imgverify` and `openssl smime` verify them.

use crate::certificate::Certificate;
use crate::error::Error;
use crate::pkcs7::{self, Content, Signer};
use sha2::{Digest as _, Sha256};

/// Returns the file with a signature of `content`: RSASSA-PKCS1-v1_5 with SHA-256 over the content
/// itself.
///
/// # Errors
/// The signature was not made for this content with this certificate's key.
pub fn write(
    content: &[u8],
    certificate: &Certificate,
    signature: &[u8],
) -> Result<Vec<u8>, Error> {
    write_of(&Sha256::digest(content).into(), certificate, signature)
}

/// Does the same for content with this SHA-256.
///
/// # Errors
/// Those of [`write`].
pub fn write_of(
    sha256: &[u8; 32],
    certificate: &Certificate,
    signature: &[u8],
) -> Result<Vec<u8>, Error> {
    if !certificate.verifies_digest(sha256, signature) {
        return Err(Error::OtherKey(certificate.name()));
    }
    let signed = pkcs7::signed_data(&Content::Elsewhere, certificate, signature);
    signed.and_then(|signed| pkcs7::wrapped(&signed)).map_err(Error::SignedData)
}

/// Verifies that a key of one of these certificates signed `content`, and returns that certificate.
/// Dates are ignored.
///
/// # Errors
/// The signature is not valid or not trusted, or `file` is not a detached signature.
pub fn verify<'a>(
    content: &[u8],
    file: &[u8],
    trusted: &'a [Certificate],
) -> Result<&'a Certificate, Error> {
    let (signed, signer) = Signer::read(file)?;
    if signed.encap_content_info.econtent.is_some() || !signer.signed_content() {
        return Err(Error::Unsupported("a content or attributes of its own"));
    }
    let named = trusted.iter().filter(|certificate| signer.names(certificate)).collect::<Vec<_>>();
    if named.is_empty() {
        return Err(Error::NotTrusted(vec![signer.name()]));
    }
    named.into_iter().find(|certificate| signer.is(certificate, content)).ok_or(Error::Digest)
}
