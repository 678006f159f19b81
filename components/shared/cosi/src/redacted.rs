//! `Debug` of the messages with secrets.

use crate::v1::{RegistryCredentialSpec, WireguardLink, WireguardPeer};
use std::fmt;

impl fmt::Debug for RegistryCredentialSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryCredentialSpec")
            .field("registry", &self.registry)
            .field("username", &self.username)
            .field("plain_http", &self.plain_http)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WireguardLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireguardLink")
            .field("listen_port", &self.listen_port)
            .field("fwmark", &self.fwmark)
            .field("peers", &self.peers)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for WireguardPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireguardPeer")
            .field("public_key", &self.public_key)
            .field("endpoint", &self.endpoint)
            .field("allowed_ips", &self.allowed_ips)
            .field("persistent_keepalive", &self.persistent_keepalive)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_printed() {
        let spec = RegistryCredentialSpec {
            registry: "a".to_owned(),
            password: "hunter2".to_owned(),
            token: "hunter2".to_owned(),
            ..RegistryCredentialSpec::default()
        };
        let text = format!("{spec:?}");
        assert!(text.contains("registry") && !text.contains("hunter2"), "{text}");
        let peer = WireguardPeer { preshared_key: "hunter2".to_owned(), ..Default::default() };
        let link = WireguardLink {
            private_key: "hunter2".to_owned(),
            peers: vec![peer],
            ..WireguardLink::default()
        };
        let text = format!("{link:?}");
        assert!(text.contains("allowed_ips") && !text.contains("hunter2"), "{text}");
    }
}
