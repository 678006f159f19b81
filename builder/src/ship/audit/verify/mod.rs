//! `osbuild verify`: checks the signatures and the contents of an image, a UKI, an initramfs or a
//! release, from the bytes and the certificates alone.

mod contents;
mod disk_checks;
mod rebuilt;
mod release;

pub use rebuilt::Rebuilt;
pub use release::Reader;

use super::inspect::{Inspection, Kind, Opened, open};
use crate::error::{Context, Error, Problem, Result};
use crate::plan::Date;
use crate::printable::printable;
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::efi::Listed;
use osbuild_signatures::{authenticode, detached};
use serde::Serialize;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The certificates that a machine's firmware trusts, and the day of the check: unlike firmware, we
/// also check the dates of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whether to check signatures. Before a file is signed there are none.
    pub signed: bool,
    /// The trusted certificates.
    pub db: Vec<Certificate>,
    /// The revoked certificates and images.
    pub dbx: Vec<Listed>,
    /// The day.
    pub day: Date,
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Verification {
    /// The file.
    pub file: PathBuf,
    /// The kind of the file; `None` for a release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// The checks, in order.
    pub checks: Vec<Check>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Check {
    /// Its subject.
    pub name: &'static str,
    /// Whether it passed.
    pub holds: bool,
    /// The finding.
    pub found: String,
}

/// The names of the checks of one signed program.
struct Names {
    signature: &'static str,
    dates: &'static str,
    revocation: &'static str,
}

/// The checks of the program that the firmware starts from a disk.
const BOOT: Names =
    Names { signature: "boot signature", dates: "boot dates", revocation: "boot revocation" };
/// The checks of the UKI or the initramfs.
const CONTENTS: Names = Names { signature: "signature", dates: "dates", revocation: "revocation" };
/// The checks of the UKI in the other slot.
const OTHER: Names =
    Names { signature: "other signature", dates: "other dates", revocation: "other revocation" };

/// The maximum size of a signature file. A real one has about 1,500 bytes.
const MAX_SIGNATURE: u64 = 64 << 10;

/// Checks a file, and compares it with a rebuilt one if that is given.
///
/// # Errors
/// The file cannot be read, or is of another kind. A failed check is not an error here: see
/// [`Verification::outcome`].
pub fn verify(path: &Path, policy: &Policy, rebuilt: Option<&Rebuilt>) -> Result<Verification> {
    let mut opened = open(path)?;
    let kind = opened.kind;
    let others = opened.take_others();
    let mut checks = Vec::new();
    let esp =
        opened.disk.as_ref().map(|disk| (std::mem::take(&mut opened.esp), disk.boot.path.clone()));
    if let (Some(disk), Some(boot)) = (&opened.disk, &opened.boot) {
        checks.extend([
            disk_checks::table(disk),
            disk_checks::partitions(&disk.partitions),
            disk_checks::slots(&disk.slots),
        ]);
        checks.extend(policy.program(BOOT, boot));
    }
    if kind == Kind::Initramfs && policy.signed {
        checks.extend(policy.signature(CONTENTS, detached_signer(path, &opened, &policy.db)?));
    } else {
        checks.extend(policy.program(CONTENTS, &opened.bytes));
    }
    if let Some(header) = opened.version() {
        checks.push(disk_checks::version(header, &opened.bytes));
    }
    if let Some(rebuilt) = rebuilt {
        checks.extend(rebuilt.compare(path, &opened)?);
    }
    let found = opened.inspect();
    // The signed root determines whether the ESP may have settings.
    let installs = found.as_ref().is_ok_and(Inspection::installs);
    checks.extend(esp.map(|(files, boot)| disk_checks::esp(&files, &boot, installs)));
    checks.extend(contents::contents(found));
    for (name, other) in others {
        let mut found = policy.program(OTHER, &other.bytes);
        found.extend(contents::contents(other.inspect()));
        checks.extend(
            found
                .into_iter()
                .map(|check| Check { found: format!("{name}: {}", check.found), ..check }),
        );
    }
    Ok(Verification { file: path.to_owned(), kind: Some(kind), checks })
}

/// Checks the folder of a release as a node does, and more thoroughly.
///
/// # Errors
/// The folder cannot be read. A failed check is not an error here: see [`Verification::outcome`].
pub fn verify_release(folder: &Path, reader: &Reader, policy: &Policy) -> Result<Verification> {
    Ok(Verification {
        file: folder.to_owned(),
        kind: None,
        checks: release::checks(folder, reader, policy)?,
    })
}

/// The trusted certificate that signed an initramfs, from the signature file beside it.
fn detached_signer<'a>(
    path: &Path,
    opened: &Opened,
    trusted: &'a [Certificate],
) -> Result<std::result::Result<&'a Certificate, osbuild_signatures::Error>> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".sig");
    let mut signature = Vec::new();
    match File::open(&beside)
        .and_then(|file| file.take(MAX_SIGNATURE + 1).read_to_end(&mut signature))
    {
        Ok(length) if length as u64 > MAX_SIGNATURE => {
            Ok(Err(osbuild_signatures::Error::Unsupported("the file is too large for a signature")))
        }
        Ok(_) => Ok(detached::verify(&opened.bytes, &signature, trusted)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Ok(Err(osbuild_signatures::Error::Unsigned))
        }
        Err(error) => {
            Err(error).or_build(|| format!("cannot read `{}`", Path::new(&beside).display()))
        }
    }
}

impl Policy {
    /// Checks a program that firmware starts.
    fn program(&self, names: Names, bytes: &[u8]) -> Vec<Check> {
        if !self.signed {
            return Vec::new();
        }
        let revocation = revoked(&names, bytes, &self.dbx);
        let mut checks = self
            .signature(names, authenticode::verify(bytes, &self.db).map(|verified| verified.by));
        // A revoked certificate can only be found among signatures that can be read.
        checks.extend(authenticode::signatures(bytes).is_ok().then_some(revocation));
        checks
    }

    /// Checks the signer of a file.
    fn signature(
        &self,
        names: Names,
        by: std::result::Result<&Certificate, osbuild_signatures::Error>,
    ) -> Vec<Check> {
        let certificate = match by {
            Ok(certificate) => certificate,
            Err(error) => return vec![Check::fails(names.signature, with_sources(&error))],
        };
        let found =
            format!("by {}, certificate sha256:{}", certificate.name(), certificate.fingerprint());
        vec![Check::holds(names.signature, found), dates(names.dates, certificate, self.day)]
    }
}

/// An error and its sources, in one line.
fn with_sources(error: &dyn std::error::Error) -> String {
    std::iter::successors(error.source(), |cause| cause.source())
        .fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn dates(name: &'static str, certificate: &Certificate, day: Date) -> Check {
    let [since, until] = [certificate.not_before(), certificate.not_after()].map(Date::from_unix);
    match (day < since, until < day) {
        (true, _) => {
            Check::fails(name, format!("the certificate is valid from {since}, but today is {day}"))
        }
        (_, true) => Check::fails(name, format!("the certificate expired on {until}")),
        _ => Check::holds(name, format!("the certificate is valid until {until}")),
    }
}

/// Firmware refuses an image if its digest or any of its signers is revoked.
fn revoked(names: &Names, program: &[u8], dbx: &[Listed]) -> Check {
    let is = |listed: &&Listed| match listed {
        Listed::Image(digest) => authenticode::digest(program).is_ok_and(|found| found == *digest),
        Listed::Certificate(certificate) => authenticode::signatures(program)
            .is_ok_and(|all| all.iter().any(|signature| signature.is_by(certificate))),
    };
    match dbx.iter().find(is) {
        Some(Listed::Image(_)) => Check::fails(names.revocation, "the image is revoked".to_owned()),
        Some(Listed::Certificate(certificate)) => Check::fails(
            names.revocation,
            format!("it has a signature by `{}`, which is revoked", certificate.name()),
        ),
        None => Check::holds(
            names.revocation,
            format!("none of the {} entries of dbx matches", dbx.len()),
        ),
    }
}

impl Verification {
    /// Succeeds if every check passed.
    ///
    /// # Errors
    /// All failed checks (`Kind::Digest`).
    pub fn outcome(&self) -> Result<()> {
        let wrong = self.checks.iter().filter(|check| !check.holds);
        let problem = |check: &Check| {
            Problem::new(printable(&format!("`{}`: {}", self.file.display(), check.found)))
        };
        let problems: Vec<Problem> = wrong.map(problem).collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Error::many(crate::error::Kind::Digest, problems))
        }
    }
}

impl fmt::Display for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |check: &Check| {
            let outcome = if check.holds { "ok" } else { "WRONG" };
            format!("{outcome:5}  {:15}  {}", check.name, printable(&check.found))
        };
        f.write_str(&self.checks.iter().map(line).collect::<Vec<_>>().join("\n"))
    }
}

impl Check {
    fn holds(name: &'static str, found: String) -> Self {
        Check { name, holds: true, found }
    }

    fn fails(name: &'static str, found: String) -> Self {
        Check { name, holds: false, found }
    }
}
