//! The CAs of clients, which may change while the program runs.

use super::identity::Identity;
use super::rules::Rules;
use super::tls;
use osbuild_failure::{Explain, Outcome};
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The files with their certificates in PEM. The first one that exists counts.
pub struct Clients {
    files: Vec<PathBuf>,
    identity: Identity,
    rules: Arc<Rules>,
    /// The PEM that was read last, and the acceptor for its CAs.
    current: Option<(Vec<u8>, TlsAcceptor)>,
}

impl Clients {
    /// The CAs in the first of these files that exists, for a node with this identity and these
    /// rules.
    pub fn new(files: Vec<PathBuf>, identity: Identity, rules: Arc<Rules>) -> Clients {
        Clients { files, identity, rules, current: None }
    }

    /// The rules that exclude clients.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// The identity of the node.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the acceptor for clients with a certificate that one of the current CAs has signed.
    /// `None` means that no file with CAs exists.
    ///
    /// # Errors
    /// The file cannot be read, or has no certificate.
    pub fn acceptor(&mut self) -> Outcome<Option<TlsAcceptor>> {
        let Some(pem) = self.read()? else { return Ok(None) };
        match &self.current {
            Some((read, acceptor)) if *read == pem => Ok(Some(acceptor.clone())),
            _ => {
                let acceptor = tls::acceptor(&pem, &self.identity, self.rules.clone())?;
                self.current = Some((pem, acceptor.clone()));
                Ok(Some(acceptor))
            }
        }
    }

    fn read(&self) -> Outcome<Option<Vec<u8>>> {
        for file in &self.files {
            match fs::read(file) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                read => return read.explain(format_args!("read `{}`", file.display())).map(Some),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::SharedStore;

    #[test]
    fn the_first_file_counts_and_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let [document, image] = ["document", "image"].map(|name| folder.path().join(name));
        let pem = || {
            let mut params = rcgen::CertificateParams::default();
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
        };
        let identity = Identity::temporary().unwrap();
        let store = Arc::new(SharedStore::new().unwrap());
        let rules = Arc::new(Rules::new(store, None));
        let mut clients = Clients::new(vec![document.clone(), image.clone()], identity, rules);
        assert!(clients.acceptor().unwrap().is_none());
        let (first, second) = (pem(), pem());
        let read = |clients: &Clients| clients.current.as_ref().unwrap().0.clone();
        fs::write(&image, &first).unwrap();
        assert!(clients.acceptor().unwrap().is_some());
        assert_eq!(read(&clients), first.as_bytes());
        fs::write(&document, &second).unwrap();
        assert!(clients.acceptor().unwrap().is_some());
        assert_eq!(read(&clients), second.as_bytes());
        for malformed in ["", "no certificate", "-----BEGIN CERTIFICATE-----\n"] {
            fs::write(&document, malformed).unwrap();
            assert!(clients.acceptor().is_err(), "{malformed}");
        }
    }
}
