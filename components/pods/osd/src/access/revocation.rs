//! Which certificates and tokens are excluded: the specs of `Revocations.osbuild`.

use super::caller::ShownCertificate;
use super::token::issuer::ShownToken;
use osbuild_cosi::v1::RevocationSpec;
use osbuild_protocol::Fingerprint;
use osbuild_resources::{Names, PrintColumn};
use std::time::SystemTime;
use x509_cert::der::DateTime;

/// The names of the type.
pub const NAMES: Names = Names { plural: "Revocations", singular: "Revocation", suffix: "osbuild" };

/// Its columns.
pub const COLUMNS: &[PrintColumn] = &[
    PrintColumn { name: "User", json_path: "{.user}" },
    PrintColumn { name: "Issued before", json_path: "{.issuedBefore}" },
    PrintColumn { name: "Certificate", json_path: "{.certificate}" },
];

/// The most bytes of the name of a user, which RFC 5280 limits to 64 characters.
const MAX_USER: usize = 256;

/// The certificates that one resource excludes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// The certificate with this fingerprint.
    Certificate(Fingerprint),
    /// Certificates or tokens of a user.
    User {
        /// Their common name, or the name of a ServiceAccount as a user.
        name: String,
        /// Those that begin earlier. Without it, all.
        issued_before: Option<SystemTime>,
    },
}

impl Revocation {
    /// Checks the spec of a revocation.
    ///
    /// # Errors
    /// The spec names neither a certificate nor a user, or both, or something is malformed.
    pub fn new(spec: &RevocationSpec) -> Result<Revocation, String> {
        let RevocationSpec { certificate, user, issued_before } = spec;
        match (certificate.as_str(), user.as_str(), issued_before.as_str()) {
            ("", "", _) => Err("a revocation has a `certificate` or a `user`".to_owned()),
            (_, "", "") => Fingerprint::parse(certificate)
                .map(Revocation::Certificate)
                .map_err(|refusal| refusal.reason),
            ("", _, _) if user.len() > MAX_USER => {
                Err(format!("the name of a user has at most {MAX_USER} bytes"))
            }
            ("", _, "") => Ok(Revocation::User { name: user.clone(), issued_before: None }),
            ("", _, time) => {
                let issued_before = Some(moment(time)?);
                Ok(Revocation::User { name: user.clone(), issued_before })
            }
            _ => Err("a revocation has `certificate` alone, or `user` and perhaps \
                      `issuedBefore`"
                .to_owned()),
        }
    }

    /// Whether it excludes the holder of this certificate.
    pub fn covers(&self, shown: &ShownCertificate) -> bool {
        match self {
            Revocation::Certificate(fingerprint) => *fingerprint == shown.fingerprint,
            Revocation::User { .. } => self.covers_user(shown.user.as_deref(), shown.issued),
        }
    }

    /// Whether it excludes the holder of this token.
    pub fn covers_token(&self, shown: &ShownToken) -> bool {
        self.covers_user(Some(&shown.user()), shown.claims.issued)
    }

    fn covers_user(&self, user: Option<&str>, issued: SystemTime) -> bool {
        let Revocation::User { name, issued_before } = self else { return false };
        user == Some(name) && issued_before.is_none_or(|before| issued < before)
    }
}

/// Reads a date or a time in UTC (RFC 3339, with seconds).
fn moment(text: &str) -> Result<SystemTime, String> {
    let time = match text.len() {
        10 => format!("{text}T00:00:00Z").parse::<DateTime>(),
        _ => text.parse(),
    };
    let time = time.map_err(|_| {
        format!(
            "`{}` is no date such as `2026-11-26` and no time such as `2026-11-26T12:00:00Z`",
            text.escape_debug()
        )
    })?;
    Ok(time.to_system_time())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn spec([certificate, user, issued_before]: [&str; 3]) -> RevocationSpec {
        let [certificate, user, issued_before] =
            [certificate, user, issued_before].map(str::to_owned);
        RevocationSpec { certificate, user, issued_before }
    }

    fn fingerprint(byte: u8) -> Fingerprint {
        Fingerprint::of(&[byte; 32])
    }

    /// A certificate that begins so many days after that of 2026-11-26.
    fn shown(byte: u8, user: Option<&str>, day: u64) -> ShownCertificate {
        let issued = UNIX_EPOCH + Duration::from_secs((20_783 + day) * 86_400);
        let (fingerprint, user) = (fingerprint(byte), user.map(str::to_owned));
        ShownCertificate { fingerprint, user, organizations: Vec::new(), issued }
    }

    #[test]
    fn a_revocation_excludes_exactly_what_it_names() {
        let first = fingerprint(1).to_string();
        let bob = Some("bob");
        for (fields, covered, spared) in [
            ([first.as_str(), "", ""], vec![shown(1, None, 0)], vec![shown(2, bob, 0)]),
            (
                ["", "bob", ""],
                vec![shown(1, bob, 0), shown(2, bob, 9000)],
                vec![shown(1, Some("Bob"), 0), shown(1, Some("bobby"), 0), shown(1, None, 0)],
            ),
            (["", "bob", "2026-11-27"], vec![shown(1, bob, 0)], vec![shown(1, bob, 1)]),
            (["", "bob", "2026-11-26T00:00:01Z"], vec![shown(1, bob, 0)], vec![shown(1, bob, 1)]),
            (["", "bob", "2026-11-26"], vec![], vec![shown(1, bob, 0)]),
            (["", "unnamed", ""], vec![], vec![shown(1, None, 0)]),
        ] {
            let revocation = Revocation::new(&spec(fields)).unwrap();
            for one in covered {
                assert!(revocation.covers(&one), "{fields:?} {one:?}");
            }
            for one in spared {
                assert!(!revocation.covers(&one), "{fields:?} {one:?}");
            }
        }
    }

    #[test]
    fn a_revocation_that_says_nothing_or_two_things_is_refused() {
        let (first, long) = (fingerprint(1).to_string(), "a".repeat(MAX_USER + 1));
        for fields in [
            ["", "", ""],
            ["", "", "2026-11-26"],
            [&first, "bob", ""],
            [&first, "", "2026-11-26"],
            ["sha256:00", "", ""],
            ["", "bob", "yesterday"],
            ["", "bob", "2026-13-01"],
            ["", "bob", "2026-11-26T12:00:00+01:00"],
            ["", &long, ""],
        ] {
            assert!(Revocation::new(&spec(fields)).is_err(), "{fields:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_moment_or_an_error(text in "[0-9TZ:-]{0,24}|\\PC{0,24}") {
            let _ = moment(&text);
        }
    }
}
