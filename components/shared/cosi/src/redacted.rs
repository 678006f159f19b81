//! `Debug` of the messages with secrets.

use crate::v1::RegistryCredentialSpec;
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
    }
}
