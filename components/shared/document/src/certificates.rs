//! Certificates in PEM.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// The characters of a line of PEM (RFC 7468).
const LINE: usize = 64;

/// Tags of DER (X.690), as far as a certificate needs them here.
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// One or more certificates in PEM (RFC 7468).
///
/// Each is decoded, and has the fields of a certificate, whose contents are not checked. One that
/// is cut would otherwise be found by the program that trusts it: the server of the node API, which
/// then serves nobody.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Certificates(String);

impl Certificates {
    /// The certificates in PEM, without other text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads certificates in PEM. Text between them and other blocks are left out.
    ///
    /// # Errors
    /// There is none, one is damaged, or the text has a private key.
    pub fn from_pem(text: &str) -> Result<Self, &'static str> {
        if text.contains("PRIVATE KEY-----") {
            return Err("a private key is not a certificate, and does not belong on a node");
        }
        let (mut pem, mut open) = (String::new(), None::<String>);
        // A label is at the start of its line, or TLS libraries do not see it.
        for line in text.lines().map(str::trim_end) {
            match (line, open.as_mut()) {
                (BEGIN, None) => open = Some(String::new()),
                (BEGIN, Some(_)) => break,
                (END, Some(base64)) => {
                    pem += &checked(base64)?;
                    open = None;
                }
                (_, Some(base64)) => base64.push_str(line.trim()),
                (_, None) => {}
            }
        }
        match (open, pem.is_empty()) {
            (Some(_), _) => Err("a certificate in PEM has a beginning and no end"),
            (None, true) => {
                Err("there is no certificate in PEM: its text is expected, not the path of a file")
            }
            (None, false) => Ok(Self(pem)),
        }
    }
}

impl TryFrom<String> for Certificates {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::from_pem(&text)
    }
}

/// The certificate with this base64 in PEM.
fn checked(base64: &str) -> Result<String, &'static str> {
    let der = STANDARD.decode(base64).map_err(|_| "a certificate in PEM is not base64")?;
    if !is_certificate(&der) {
        return Err("a certificate in PEM is not a whole X.509 certificate: a part is missing");
    }
    // It is ASCII, so any place is one between characters.
    let starts = (0..base64.len()).step_by(LINE);
    let lines = starts.map(|start| &base64[start..base64.len().min(start + LINE)]);
    Ok(format!("{BEGIN}\n{}\n{END}\n", lines.collect::<Vec<_>>().join("\n")))
}

/// Whether these bytes are one certificate, as far as the order and the lengths of its fields say
/// so (RFC 5280, section 4.1).
fn is_certificate(der: &[u8]) -> bool {
    let whole = elements(der);
    let Some([(SEQUENCE, certificate)]) = whole.as_deref() else { return false };
    let fields = elements(certificate);
    let Some([(SEQUENCE, signed), (SEQUENCE, _), (BIT_STRING, _)]) = fields.as_deref() else {
        return false;
    };
    let Some(fields) = elements(signed) else { return false };
    let tags: Vec<u8> = fields.iter().map(|(tag, _)| *tag).collect();
    // Number, algorithm, issuer, validity, subject, key. The first version has no field for it.
    let expected = [INTEGER, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE, SEQUENCE];
    tags.strip_prefix(&[VERSION]).unwrap_or(&tags).starts_with(&expected)
}

/// The elements that fill these bytes of DER, each with its tag and its contents. Nothing if one is
/// cut or malformed.
fn elements(mut der: &[u8]) -> Option<Vec<(u8, &[u8])>> {
    let mut elements = Vec::new();
    while let [tag, length, rest @ ..] = der {
        // A length below 128 is one byte; otherwise the byte is the number of bytes after it.
        let (length, rest) = match usize::from(*length) {
            short @ ..0x80 => (short, rest),
            long => {
                let (bytes, rest) = rest.split_at_checked(long - 0x80)?;
                let is_usual = (1..=size_of::<u32>()).contains(&bytes.len());
                let length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                (is_usual.then_some(length)?, rest)
            }
        };
        let (contents, after) = rest.split_at_checked(length)?;
        elements.push((*tag, contents));
        der = after;
    }
    der.is_empty().then_some(elements)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// That of the example, an authority on P-256.
    const BASE64: &str = "MIIBPzCB5aADAgECAhRSDBbwpVU5aIbDth+ScQpRXOdtLjAKBggqhkjOPQQDAjAV\
                          MRMwEQYDVQQDDApFeGFtcGxlIENBMB4XDTI2MTEyNzA3MTgyMVoXDTM2MTEyNDA3\
                          MTgyMVowFTETMBEGA1UEAwwKRXhhbXBsZSBDQTBZMBMGByqGSM49AgEGCCqGSM49\
                          AwEHA0IABNx44feKM85B79t58GY0dzILYuEMeyut7YHWYvA/kKs7jg4GAr8rMCGh\
                          aV5V+USWVQCQyF5B8HuQK7HD4qU39NajEzARMA8GA1UdEwEB/wQFMAMBAf8wCgYI\
                          KoZIzj0EAwIDSQAwRgIhAO1aaZMsID35mjkAN+kOOakPhiHR94RE1CMSf92+sAxu\
                          AiEAtF4beZBZoraCQQg4LL/egh5kP9mN6tme3+fpObjz+rI=";

    fn block(label: &str, base64: &str) -> String {
        format!("-----BEGIN {label}-----\n{base64}\n-----END {label}-----\n")
    }

    fn certificate(base64: &str) -> String {
        block("CERTIFICATE", base64)
    }

    fn error(text: &str) -> &'static str {
        Certificates::from_pem(text).unwrap_err()
    }

    #[test]
    fn only_certificates_are_accepted_as_an_authority() {
        let whole = certificate(BASE64);
        for text in [whole.clone(), whole.repeat(2), whole.replace('\n', "\r\n")] {
            assert!(Certificates::from_pem(&text).is_ok(), "{text}");
        }
        for text in ["", "/etc/kubernetes/pki/ca.crt", &format!("  {whole}")] {
            assert!(error(text).contains("not the path of a file"), "{text}");
        }
        assert!(error(&(whole + &block("EC PRIVATE KEY", "AA=="))).contains("private key"));
    }

    #[test]
    fn a_damaged_certificate_is_refused_beside_a_whole_one() {
        let der = STANDARD.decode(BASE64).unwrap();
        let with_tail = STANDARD.encode([&der[..], &[0; 3]].concat());
        let of_key = STANDARD.encode([&[SEQUENCE, 3], &[BIT_STRING, 1, 0][..]].concat());
        for (base64, reason) in [
            ("AA==", "not a whole"),
            ("", "not a whole"),
            ("MIIB", "not a whole"),
            ("MIIB\u{fc}", "not base64"),
            (&BASE64[..BASE64.len() - 1], "not base64"),
            (&format!("{}{}", &BASE64[..64], &BASE64[128..]), "not a whole"),
            (&with_tail, "not a whole"),
            (&of_key, "not a whole"),
        ] {
            let text = certificate(BASE64) + &certificate(base64);
            assert!(error(&text).contains(reason), "{base64}");
        }
        for length in 0..der.len() {
            assert!(!is_certificate(&der[..length]), "{length} bytes");
        }
        for text in [format!("{BEGIN}\n{BASE64}\n"), format!("{BEGIN}\n{}", certificate(BASE64))] {
            assert!(error(&text).contains("no end"), "{text}");
        }
    }

    #[test]
    fn text_between_certificates_is_left_out() {
        let text = format!("subject=a\n{}issuer=b\n", certificate(BASE64));
        let noted = block("X509 CRL", "AA==") + &text;
        let (read, plain) = (Certificates::from_pem(&noted), certificate(BASE64));
        let read = read.unwrap();
        assert_eq!(read, Certificates::from_pem(&plain).unwrap());
        assert!(read.as_str().lines().all(|line| line.len() <= LINE));
        assert_eq!(read.as_str().lines().count(), 2 + BASE64.len().div_ceil(LINE));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            is_certificate(&bytes);
        }
    }
}
