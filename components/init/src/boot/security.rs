//! The security state of the machine and the kernel. It does not change until the next boot.

use std::fs;
use std::path::Path;

use osbuild_abi::paths::FIRMWARE_VARIABLES;
use osbuild_formats::signature_list::{self, X509};
use osbuild_protocol::Fingerprint;
use sha2::{Digest, Sha256};

use super::secure_boot::{self, SecureBoot};
use crate::variable;

/// The variable with the certificates that the firmware trusts, and its vendor
/// (`EFI_IMAGE_SECURITY_DATABASE`; UEFI 2.10, 32.6.1).
const DB: &str = "db-d719b2cb-3d3a-4596-a3bc-dad00e67656f";

/// The highest number of certificates that `status` reports. A firmware has three or four.
const MAX_CERTIFICATES: usize = 16;

/// The file with the levels of the kernel's lockdown, of which the present one is in brackets
/// (kernel_lockdown(7)).
const LOCKDOWN: &str = "/sys/kernel/security/lockdown";

/// The security state of the machine and the kernel.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// The state of Secure Boot.
    pub secure_boot: SecureBoot,
    /// The level of the kernel's lockdown; empty if there is none.
    pub lockdown: String,
    /// The certificates that the firmware trusts.
    pub certificates: Vec<Fingerprint>,
}

/// Asks the firmware and the kernel.
pub fn observe() -> Security {
    let levels = fs::read_to_string(LOCKDOWN).unwrap_or_default();
    let db = fs::read(Path::new(FIRMWARE_VARIABLES).join(DB)).unwrap_or_default();
    Security {
        secure_boot: secure_boot::observe(),
        lockdown: level(&levels).unwrap_or_default().to_owned(),
        certificates: certificates(variable::value(&db)),
    }
}

/// The present level.
fn level(levels: &str) -> Option<&str> {
    let (_, rest) = levels.split_once('[')?;
    rest.split_once(']').map(|(level, _)| level)
}

/// The certificates in signature lists; none if the lists are damaged.
fn certificates(lists: &[u8]) -> Vec<Fingerprint> {
    let entries = signature_list::entries(lists).unwrap_or_default();
    let certificates = entries.iter().filter(|entry| entry.kind == X509);
    let fingerprint = |certificate: &[u8]| Fingerprint::of(&Sha256::digest(certificate).into());
    certificates.take(MAX_CERTIFICATES).map(|entry| fingerprint(entry.bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_formats::signature_list::{Entry, SHA256, append};

    #[test]
    fn the_level_in_brackets_counts() {
        assert_eq!(level("none [integrity] confidentiality\n"), Some("integrity"));
        assert_eq!(level("[none] integrity confidentiality\n"), Some("none"));
        assert_eq!(level(""), None);
    }

    #[test]
    fn certificates_of_db_are_reported_and_digests_of_images_are_not() {
        let mut lists = Vec::new();
        for number in 0..20 {
            let bytes = &[number; 32];
            append(&mut lists, Entry { kind: SHA256, bytes }, Default::default());
            append(&mut lists, Entry { kind: X509, bytes }, Default::default());
        }
        let found = certificates(&lists);
        assert_eq!(found.len(), MAX_CERTIFICATES);
        assert_eq!(found[1], Fingerprint::of(&Sha256::digest([1; 32]).into()));
        assert_eq!(certificates(&lists[1..]), []);
    }
}
