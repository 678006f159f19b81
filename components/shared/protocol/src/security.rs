//! The security state of the node, as the `admin` socket's `status` reports it.

use std::fmt::Write;

use crate::Fingerprint;
use crate::fields::printable;

/// The security state of the node. A fact that was not found is empty or missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// The state of Secure Boot in the firmware: `on`, `off` or `setup-mode`.
    pub secure_boot: String,
    /// The level of the kernel's lockdown: `none`, `integrity` or `confidentiality`.
    pub lockdown: String,
    /// The security epoch of the image that runs.
    pub epoch: Option<u32>,
    /// The certificates in the firmware's `db`: with Secure Boot, it starts what their keys have
    /// signed.
    pub certificates: Vec<Fingerprint>,
    /// The certificate with which the node API was served last; none before that.
    pub api: Option<Fingerprint>,
}

impl Security {
    pub(crate) fn encode(&self) -> String {
        // Writing to a string cannot fail.
        let mut text = String::new();
        let _ = writeln!(text, "secure-boot {}", printable(&self.secure_boot));
        if !self.lockdown.is_empty() {
            let _ = writeln!(text, "lockdown {}", printable(&self.lockdown));
        }
        if let Some(epoch) = self.epoch {
            let _ = writeln!(text, "security-epoch {epoch}");
        }
        for certificate in &self.certificates {
            let _ = writeln!(text, "firmware-certificate {certificate}");
        }
        if let Some(api) = &self.api {
            let _ = writeln!(text, "api-certificate {api}");
        }
        text
    }

    /// Reads the lines. What another release writes in another form counts as missing.
    pub(crate) fn decode(lines: &[String]) -> Result<Self, String> {
        let all = |key: &'static str| {
            lines.iter().filter_map(move |line| line.strip_prefix(key)?.strip_prefix(' '))
        };
        let secure_boot = all("secure-boot").next().ok_or("there is no line `secure-boot`")?;
        let fingerprint = |word: &str| Fingerprint::parse(word).ok();
        Ok(Security {
            secure_boot: secure_boot.to_owned(),
            lockdown: all("lockdown").next().unwrap_or_default().to_owned(),
            epoch: all("security-epoch").next().and_then(|word| word.parse().ok()),
            certificates: all("firmware-certificate").filter_map(fingerprint).collect(),
            api: all("api-certificate").next().and_then(fingerprint),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_enforced_reads_back() {
        let certificate = |byte| Fingerprint::of(&[byte; 32]);
        let security = Security {
            secure_boot: "on".to_owned(),
            lockdown: "integrity".to_owned(),
            epoch: Some(2),
            certificates: vec![certificate(1), certificate(2)],
            api: Some(certificate(3)),
        };
        assert_eq!(Security::decode(&lines(&security.encode())), Ok(security));
    }

    #[test]
    fn an_older_release_reports_secure_boot_alone() {
        let security = Security { secure_boot: "off".to_owned(), ..Security::default() };
        assert_eq!(security.encode(), "secure-boot off\n");
        let with_others = "secure-boot off\nsecurity-epoch high\nfirmware-certificate md5:00\n";
        assert_eq!(Security::decode(&lines(with_others)), Ok(security));
        assert!(Security::decode(&lines("lockdown none\n")).is_err());
    }
}
