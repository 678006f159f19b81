//! Flags of `osbuild keys`.

use super::value;
use crate::plan::Date;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// What `osbuild keys` can do.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Make PK, KEK and db for firmware, and a key for releases, in `keys/NAME/`
    New {
        /// Their name: small letters, digits and hyphens
        name: String,
        /// What the certificates say
        #[command(flatten)]
        terms: Terms,
    },
    /// Show keys: certificates, fingerprints, last days
    Show {
        /// Their name; without one, all keys of the project
        name: Option<String>,
    },
    /// Make a new key, by default that for db, by which images are signed from now on; the old one
    /// is trusted too, until it is revoked
    Rotate {
        /// Their name
        name: String,
        /// Which key: `db`, `release`, by which releases are signed, or `root`, which says in
        /// root.json whose releases are believed
        #[arg(long, value_name = "ROLE", default_value = "db")]
        role: Rotated,
        /// What the certificate says
        #[command(flatten)]
        terms: Terms,
    },
    /// Trust an image or an old certificate no longer: it goes to dbx, which stands over db
    Revoke {
        /// Their name
        name: String,
        /// A UKI that is signed well and must not start any more: `node.efi`
        #[arg(long, value_name = "FILE", required_unless_present = "certificate")]
        uki: Option<PathBuf>,
        /// A certificate: all that its key signed starts no more, even if another key signed it too
        #[arg(long, value_name = "FILE", conflicts_with = "uki")]
        certificate: Option<PathBuf>,
    },
    /// Write what gives these keys to a machine: EFI signature lists (`.esl`) and signed updates
    /// (`.auth`)
    Enroll {
        /// Their name
        name: String,
        /// The folder to write into [default: `keys/NAME/enroll`]
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
        /// Write a copy of this file of UEFI variables too, with the keys in it and Secure Boot on:
        /// `OVMF_VARS_4M.fd`
        #[arg(long, value_name = "FILE")]
        vars: Option<PathBuf>,
    },
}

/// What can be rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rotated {
    /// The key that signs images
    Db,
    /// The key that signs releases
    Release,
    /// The key of the root of trust of releases
    Root,
}

/// What new certificates say, and where the key for db is.
#[derive(Clone, Debug, Args)]
pub struct Terms {
    /// The first day of the certificates [default: today]
    #[arg(long, value_name = "DAY", value_parser = value::<Date>)]
    pub as_of: Option<Date>,
    /// For how many years the certificates are valid; firmware does not look at it, and `osbuild`
    /// does
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u16).range(1..=30))]
    pub years: u16,
    /// Make no key for db, but use this RSA key that is in a token, a PKCS#11 URI with
    /// `module-path` and `pin-source`, or in AWS KMS, an ARN; with `keys rotate --role release` a
    /// key on P-256 in AWS KMS
    #[arg(long, value_name = "URI")]
    pub token: Option<String>,
}
