//! The URL of an API server.

use serde::Deserialize;

/// An `https` URL with a host, without credentials, query and fragment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct ServerUrl(String);

impl ServerUrl {
    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ServerUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let host = text.strip_prefix("https://").unwrap_or_default();
        let is_plain =
            host.bytes().all(|byte| byte.is_ascii_graphic() && !b"@?#\"\\".contains(&byte));
        match is_plain && !host.is_empty() && !host.starts_with(['/', ':']) {
            true => Ok(Self(text)),
            false => Err(format!("`{text}` is not the `https` URL of an API server")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_server_has_an_https_url() {
        for url in ["https://10.0.2.2:6443", "https://[fd00::1]:6443", "https://a/k8s/c-1"] {
            assert_eq!(ServerUrl::try_from(url.to_owned()).unwrap().as_str(), url);
        }
        for url in ["", "10.0.2.2:6443", "http://a", "https://", "https://u:p@a", "https://a b"] {
            assert!(ServerUrl::try_from(url.to_owned()).is_err(), "{url}");
        }
    }
}
