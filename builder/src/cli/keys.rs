//! Flags of `osbuild keys`.

use super::value;
use crate::plan::Date;
use crate::ship::keys::ClientRole;
use clap::{ArgGroup, Args, Subcommand, ValueEnum, value_parser};
use std::path::PathBuf;

/// The verbs of `osbuild keys`.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Make PK, KEK and db for firmware, a key for releases and a CA for the node API, in
    /// `keys/NAME/`
    New {
        /// The name of the keys: lowercase letters, digits and hyphens
        name: String,
        /// The terms of the certificates
        #[command(flatten)]
        terms: Terms,
    },
    /// Show keys: certificates, fingerprints, expiry days
    Show {
        /// The name of the keys [default: all keys of the project]
        name: Option<String>,
    },
    /// Make a new key, by default the one for db, and sign with it from now on; the old one stays
    /// trusted until it is revoked
    Rotate {
        /// The name of the keys
        name: String,
        /// The key: `db` signs images, `release` signs releases, `root` signs root.json, which
        /// names the release key that nodes trust, `api` signs certificates for the node API
        #[arg(long, value_name = "ROLE", default_value = "db")]
        role: Rotated,
        /// The terms of the certificate
        #[command(flatten)]
        terms: Terms,
    },
    /// Issue a certificate to a client of the node API
    Issue {
        /// The name of the keys
        name: String,
        /// The name of the client, which nodes record with its calls
        user: String,
        /// Its role: `reader` reads resources, `operator` also changes settings that give
        /// nobody rights on the node, tries changes, and reboots, `admin` changes everything; any
        /// other name is that of a role that the nodes define
        #[arg(long, value_name = "ROLE", value_parser = value::<ClientRole>)]
        role: ClientRole,
        /// The PEM file to write [default: `keys/NAME/USER.pem`]
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
        /// The first day of the certificate [default: today]
        #[arg(long, value_name = "DAY", value_parser = value::<Date>)]
        as_of: Option<Date>,
        /// For how many years it is valid
        #[arg(long, value_name = "N", default_value = "1")]
        #[arg(value_parser = value_parser!(u16).range(1..=30))]
        years: u16,
    },
    /// Revoke an image or an old certificate: it is added to dbx, which overrides db
    #[command(group = ArgGroup::new("revoked").args(["uki", "certificate"]).required(true))]
    Revoke {
        /// The name of the keys
        name: String,
        /// A signed UKI that must no longer boot: `node.efi`
        #[arg(long, value_name = "FILE")]
        uki: Option<PathBuf>,
        /// A certificate: nothing that its key signed boots any longer, even if another key signed
        /// it
        #[arg(long, value_name = "FILE")]
        certificate: Option<PathBuf>,
    },
    /// Write the files that enroll these keys on a machine: EFI signature lists (`.esl`) and signed
    /// updates (`.auth`)
    Enroll {
        /// The name of the keys
        name: String,
        /// The folder to write into [default: `keys/NAME/enroll`]
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
        /// Also write a copy of this UEFI variable store with the keys enrolled and Secure Boot on:
        /// `OVMF_VARS_4M.fd`
        #[arg(long, value_name = "FILE")]
        vars: Option<PathBuf>,
    },
}

/// The keys that can be rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rotated {
    /// The key that signs images
    Db,
    /// The key that signs releases
    Release,
    /// The key of the root of trust of releases
    Root,
    /// The CA of the node API, for keys that have none
    Api,
}

/// The terms of new certificates, and an existing key to use.
#[derive(Clone, Debug, Args)]
pub struct Terms {
    /// The first day of the certificates [default: today]
    #[arg(long, value_name = "DAY", value_parser = value::<Date>)]
    pub as_of: Option<Date>,
    /// For how many years the certificates are valid; `osbuild` checks it, firmware does not
    #[arg(long, value_name = "N", default_value = "10")]
    #[arg(value_parser = value_parser!(u16).range(1..=30))]
    pub years: u16,
    /// Use an existing RSA key for db: in a token (a PKCS#11 URI with `module-path` and
    /// `pin-source`) or in AWS KMS (an ARN); with `keys rotate --role release` a key on P-256 in
    /// AWS KMS
    #[arg(long, value_name = "URI")]
    pub token: Option<String>,
}
