//! The credentials of a user: a certificate, or the token of a Kubernetes ServiceAccount.

use crate::error::{Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// The most bytes of a token that nodes accept.
const MAX_TOKEN: usize = 8 << 10;

/// The file with the credentials that a user shows to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// The PEM file with the certificate and its key.
    Certificate(PathBuf),
    /// The file with the token, which the kubelet replaces before it expires.
    TokenFile(PathBuf),
}

/// A certificate chain and its key.
pub type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Credentials {
    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Credentials::Certificate(path) | Credentials::TokenFile(path) => path,
        }
    }

    /// Reads the certificate if it is one, and makes the interceptor that adds the token to each
    /// call if it is one.
    ///
    /// # Errors
    /// The file cannot be read, or has something else.
    pub fn read(&self) -> Result<(Option<Identity>, Bearer)> {
        match self {
            Credentials::Certificate(path) => Ok((Some(certificate(path)?), Bearer(None))),
            Credentials::TokenFile(path) => {
                token(path).map_err(|cause| {
                    let cannot = format!("cannot read `{}`", path.display());
                    Error::usage(cannot).cause(cause).hint(
                        "a pod has the file of a projected volume `serviceAccountToken`; \
                         builder/docs/pods-as-clients.md has an example",
                    )
                })?;
                Ok((None, Bearer(Some(path.clone()))))
            }
        }
    }
}

/// Adds the token in a file to each call, as it is then: a long watch outlasts a token of an hour,
/// and its next call shows the newer one.
#[derive(Clone, Debug)]
pub struct Bearer(Option<PathBuf>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> std::result::Result<Request<()>, Status> {
        if let Some(path) = &self.0 {
            let value = token(path).map_err(|cause| {
                Status::invalid_argument(format!("cannot read `{}`: {cause}", path.display()))
            })?;
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

/// The token in a file, as calls have it. It is in no message.
fn token(path: &Path) -> std::result::Result<MetadataValue<Ascii>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    let text = text.trim();
    if !(1..=MAX_TOKEN).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("it has no token".to_owned());
    }
    let value = MetadataValue::try_from(format!("Bearer {text}"));
    let mut value = value.map_err(|_| "it has no token".to_owned())?;
    // HTTP/2 keeps it out of the table of headers (RFC 7541, section 7.1.3).
    value.set_sensitive(true);
    Ok(value)
}

/// The certificate chain and the key in a PEM file.
fn certificate(path: &Path) -> Result<Identity> {
    let cannot = || format!("cannot read `{}`", path.display());
    let pem = std::fs::read(path).map_err(|error| Error::usage(cannot()).caused_by(&error))?;
    let chain = CertificateDer::pem_slice_iter(&pem).collect::<std::result::Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let key = PrivateKeyDer::from_pem_slice(&pem).ok();
    match (chain, key) {
        (Some(chain), Some(key)) => Ok((chain, key)),
        _ => Err(Error::usage(cannot())
            .cause("it must have a certificate and its private key in PEM")
            .hint("cargo osbuild keys issue NAME USER --role ROLE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_the_token_that_the_file_has_then() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let credentials = Credentials::TokenFile(file.clone());
        assert!(credentials.read().is_err(), "there is no file");
        for (text, is_token) in [("", false), ("a b", false), ("eyJ.e30.c2ln\n", true)] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(credentials.read().is_ok(), is_token, "{text}");
        }
        let (identity, mut bearer) = credentials.read().unwrap();
        assert!(identity.is_none());
        let mut shown = || {
            let request = bearer.call(Request::new(()))?;
            let value = request.metadata().get("authorization").unwrap();
            Ok::<_, Status>((value.to_str().unwrap().to_owned(), value.is_sensitive()))
        };
        assert_eq!(shown().unwrap(), ("Bearer eyJ.e30.c2ln".to_owned(), true));
        std::fs::write(&file, "later").unwrap();
        assert_eq!(shown().unwrap().0, "Bearer later");
        std::fs::remove_file(&file).unwrap();
        assert!(shown().unwrap_err().message().contains("cannot read"));
    }
}
