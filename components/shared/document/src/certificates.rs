//! Certificates in PEM.

use serde::Deserialize;

/// One or more certificates in PEM (RFC 7468).
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Certificates(String);

impl Certificates {
    /// The PEM text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Certificates {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.contains("PRIVATE KEY-----") {
            return Err("a private key is not a certificate, and does not belong on a node");
        }
        let begin = text.find("-----BEGIN CERTIFICATE-----");
        let has_end =
            begin.is_some_and(|begin| text[begin..].contains("-----END CERTIFICATE-----"));
        match has_end {
            true => Ok(Self(text)),
            false => Err("the text of certificates in PEM is expected, not the path of a file"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_certificates_are_accepted_as_an_authority() {
        let pem = |label: &str| format!("-----BEGIN {label}-----\nAA==\n-----END {label}-----\n");
        assert!(Certificates::try_from(pem("CERTIFICATE")).is_ok());
        assert!(Certificates::try_from(pem("CERTIFICATE").repeat(2)).is_ok());
        for text in ["", "/etc/kubernetes/pki/ca.crt", "-----BEGIN CERTIFICATE-----\nAA==\n"] {
            assert!(Certificates::try_from(text.to_owned()).is_err(), "{text}");
        }
        let with_key = pem("CERTIFICATE") + &pem("EC PRIVATE KEY");
        assert!(Certificates::try_from(with_key).unwrap_err().contains("private key"));
    }
}
