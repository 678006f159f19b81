//! Certificate authorities.

use std::fmt;

use crate::Refusal;

/// The maximum number of certificates.
const MAX_CERTIFICATES: usize = 4;
/// The characters of a line of PEM (RFC 7468).
const LINE: usize = 64;
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// Certificates, each as base64. Only its form is checked, as PID 1 reads no certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities(Vec<String>);

impl Authorities {
    /// Reads certificates in PEM. Text between them is left out.
    ///
    /// # Errors
    /// There is none or more than 4, one is malformed, or the text has a private key.
    pub fn from_pem(text: &str) -> Result<Self, Refusal> {
        if text.contains("PRIVATE KEY-----") {
            let reason = "a private key is not a certificate, and does not belong on a node";
            return Err(Refusal::malformed(reason));
        }
        let (mut certificates, mut open) = (Vec::new(), None::<String>);
        for line in text.lines().map(str::trim) {
            match (line, open.as_mut()) {
                (BEGIN, None) => open = Some(String::new()),
                (END, Some(_)) => certificates.extend(open.take()),
                (_, Some(base64)) => base64.push_str(line),
                (_, None) => {}
            }
        }
        match open {
            None => Self::new(certificates),
            Some(_) => Err(Refusal::malformed(format!("`{BEGIN}` has no `{END}`"))),
        }
    }

    /// Reads what [`Display`](fmt::Display) writes.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        Self::new(text.split(',').map(str::to_owned).collect())
    }

    fn new(certificates: Vec<String>) -> Result<Self, Refusal> {
        if !(1..=MAX_CERTIFICATES).contains(&certificates.len()) {
            let reason = format!("1 to {MAX_CERTIFICATES} certificates in PEM are expected");
            return Err(Refusal::malformed(reason));
        }
        match certificates.iter().all(|one| is_certificate(one)) {
            true => Ok(Self(certificates)),
            false => Err(Refusal::malformed("a certificate is not base64 of DER")),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The certificates in PEM. Empty if there is none.
    pub fn to_pem(&self) -> String {
        self.each_pem().collect()
    }

    /// Each certificate in PEM.
    pub fn each_pem(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|base64| {
            // It is ASCII, so any place is one between characters.
            let starts = (0..base64.len()).step_by(LINE);
            let lines = starts.map(|start| &base64[start..base64.len().min(start + LINE)]);
            format!("{BEGIN}\n{}\n{END}\n", lines.collect::<Vec<_>>().join("\n"))
        })
    }
}

impl fmt::Display for Authorities {
    /// Writes them with commas between.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// Whether this is base64 (RFC 4648) that begins as a SEQUENCE of DER whose length needs bytes of
/// its own: 0x30, and then 0x81 or more.
fn is_certificate(base64: &str) -> bool {
    let digits = base64.trim_end_matches('=');
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    base64.starts_with("MI")
        && base64.len().is_multiple_of(4)
        && base64.len() - digits.len() <= 2
        && digits.bytes().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pem(base64: &str) -> String {
        format!("{BEGIN}\n{base64}\n{END}\n")
    }

    #[test]
    fn certificates_are_written_as_they_were_read() {
        let long = format!("MII{}=", "A".repeat(100));
        let text = format!("subject=a\n{}{}", pem("MIIB"), pem(&long));
        let read = Authorities::from_pem(&text).unwrap();
        assert_eq!(read.to_string(), format!("MIIB,{long}"));
        assert_eq!(Authorities::parse(&read.to_string()), Ok(read.clone()));
        assert_eq!(Authorities::from_pem(&read.to_pem()), Ok(read.clone()));
        assert!(read.to_pem().lines().all(|line| line.len() <= LINE));
    }

    #[test]
    fn only_certificates_are_authorities() {
        for text in [
            "",
            "/etc/ca.crt",
            BEGIN,
            &pem(""),
            &pem("MI"),
            &pem("AAAA"),
            &pem("MI=A"),
            &pem("MI A"),
            &pem("M==="),
            &format!("{BEGIN}\nMIIB\n"),
            &format!("{}-----BEGIN PRIVATE KEY-----\nMIIB\n", pem("MIIB")),
            &pem("MIIB").repeat(MAX_CERTIFICATES + 1),
        ] {
            assert!(Authorities::from_pem(text).is_err(), "{text}");
        }
        for text in ["", "MIIB,", "MIIB MIIB", "MIIB\nMIIB"] {
            assert!(Authorities::parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_read_from_any_pem_is_written_and_read_again(
            text in "((-----(BEGIN|END) CERTIFICATE-----|MI[A-D+/=]{0,6}|\\PC{0,4})\n){0,8}"
        ) {
            if let Ok(read) = Authorities::from_pem(&text) {
                prop_assert_eq!(Authorities::from_pem(&read.to_pem()), Ok(read));
            }
        }
    }
}
