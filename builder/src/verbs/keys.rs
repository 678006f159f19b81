//! `osbuild keys`: manages the keys that machines trust.

use super::{Session, read_argument};
use crate::cli;
use crate::engine::digest::Digest;
use crate::engine::stop;
use crate::error::{Context, Error, Result};
use crate::plan::Date;
use crate::produce::sign::Certified;
use crate::report::Outcome;
use crate::ship::keys::{
    DEV, Enrollment, Issued, Keys, Role, Shown, Terms, complete, complete_api, enrolled,
    is_for_development, issue, make, revoke, rotate, rotate_release, rotate_root, show,
};
use osbuild_signatures::authenticode;
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::efi::Listed;
use serde_json::json;
use std::path::{Path, PathBuf};

/// How many years the certificates of automatically made development keys are valid.
const DEV_YEARS: u16 = 10;

/// `osbuild keys`
pub fn run(session: &Session, what: cli::Keys) -> Result<()> {
    let named = |name: &str| session.keys(name);
    let of = |terms: &cli::Terms| Terms {
        since: terms.as_of.unwrap_or(session.today),
        years: terms.years,
    };
    match what {
        cli::Keys::New { name, terms } => {
            let keys = session.keys_to_make(&name)?;
            make(&keys, of(&terms), terms.token.as_deref())?;
            data(session, &show(&keys, session.today)?);
            Ok(())
        }
        cli::Keys::Show { name } => {
            let all = match name {
                Some(name) => vec![named(&name)?],
                None => usable(session)?,
            };
            let shown = all
                .iter()
                .map(|keys| show(keys, session.today))
                .collect::<Result<Vec<_>>>()?
                .concat();
            if shown.is_empty() {
                session.report.note("there are no keys: `cargo osbuild keys new NAME` makes some");
            }
            if !shown.is_empty() || session.common.json {
                data(session, &shown);
            }
            Ok(())
        }
        cli::Keys::Rotate { name, role, terms } => {
            let keys = named(&name)?;
            session.report.note(rotated(&keys, role, of(&terms), terms.token.as_deref())?);
            data(session, &show(&keys, session.today)?);
            Ok(())
        }
        cli::Keys::Issue { name, user, role, to, as_of, years } => {
            let terms = Terms { since: as_of.unwrap_or(session.today), years };
            let Issued { path, fingerprint } = issue(&named(&name)?, &user, &role, terms, to)?;
            session.report.note("the file has the private key: `osctl node add` takes it as it is");
            if !role.is_of_every_node() {
                session.report.note(format!(
                    "the certificate gives nothing on a node without a resource `Role` that has \
                     the identifier `{}`",
                    role.name()
                ));
            }
            session.report.note(format!("a node knows the certificate as {fingerprint}"));
            let text = || path.display().to_string();
            session.data(|| json!({ "file": path, "fingerprint": fingerprint }), text);
            Ok(())
        }
        cli::Keys::Revoke { name, uki, certificate } => {
            let keys = named(&name)?;
            revoke(&keys, listed(uki.as_deref(), certificate.as_deref())?)?;
            session.report.note(
                "a machine refuses it once it has enrolled dbx.auth of `osbuild keys enroll`: \
                 first make sure that it has something else to boot",
            );
            data(session, &show(&keys, session.today)?);
            Ok(())
        }
        cli::Keys::Enroll { name, to, vars } => {
            enroll(session, &named(&name)?, to, vars.as_deref())
        }
    }
}

/// The keys of the project that have a certificate for images. The others get a warning.
fn usable(session: &Session) -> Result<Vec<Keys>> {
    let (usable, others): (Vec<Keys>, Vec<Keys>) =
        Keys::all(session.root())?.into_iter().partition(Keys::exist);
    for keys in others {
        session.report.warning(format!(
            "`keys/{}` has no `db.crt`, so images cannot be signed with these keys",
            keys.name
        ));
    }
    Ok(usable)
}

/// Rotates one of these keys, and returns a note on the next step.
fn rotated(
    keys: &Keys,
    role: cli::Rotated,
    terms: Terms,
    token: Option<&str>,
) -> Result<&'static str> {
    match role {
        cli::Rotated::Db => {
            rotate(keys, terms, token)?;
            Ok("machines trust the new key once they have enrolled db.auth of `osbuild keys \
                enroll`; they still trust the old one")
        }
        cli::Rotated::Release => {
            rotate_release(keys, terms, token)?;
            Ok("nodes trust the new key, and no longer the old one, from the next release on")
        }
        cli::Rotated::Api if keys.api_certificate().exists() => {
            Err(Error::usage(format!("keys `{}` have a CA of the node API", keys.name))
                .cause("nodes would refuse the clients of the old one until they are updated")
                .hint(
                    "make other keys, and let the file that `[api]` names have both certificates",
                ))
        }
        cli::Rotated::Api => {
            complete_api(keys, terms)?;
            Ok("the keys have a CA of the node API now: name its certificate in `[api]`")
        }
        cli::Rotated::Root if token.is_some() => Err(Error::usage("the root key is always a file")
            .hint(format!(
                "make a new one, and keep it offline: cargo osbuild keys rotate {} --role root",
                keys.name
            ))),
        cli::Rotated::Root if keys.roots()?.is_empty() => {
            complete(keys, terms)?;
            Ok("the keys have a root of trust now")
        }
        cli::Rotated::Root => {
            rotate_root(keys, terms)?;
            Ok("nodes trust the new key from the next release on: the old key has signed it")
        }
    }
}

/// The entry to revoke, from one of the two flags.
fn listed(uki: Option<&Path>, certificate: Option<&Path>) -> Result<Listed> {
    match (uki, certificate) {
        (Some(path), _) => {
            let digest = authenticode::digest(&read_argument(path)?);
            digest
                .map(Listed::Image)
                .or_build(|| format!("`{}` is not a UKI", path.display()))
                .map_err(Error::of_usage)
        }
        (None, Some(path)) => {
            let certificate = Certificate::from_pem(&read_argument(path)?);
            certificate
                .map(Listed::from)
                .or_build(|| format!("cannot read `{}`", path.display()))
                .map_err(Error::of_usage)
        }
        (None, None) => unreachable!("the command line has one of them"),
    }
}

fn enroll(session: &Session, keys: &Keys, to: Option<PathBuf>, vars: Option<&Path>) -> Result<()> {
    let folder = to.unwrap_or_else(|| keys.folder().join("enroll"));
    let mut enrollment = Enrollment::of(keys)?;
    if let Some(path) = vars {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let variables = enrolled(read_argument(path)?, &keys.trust()?).map_err(Error::of_usage)?;
        enrollment.files.push((name, variables));
    }
    let written = enrollment.write(&folder)?;
    session.report.note("on a machine in setup mode, enroll PK.auth last: it ends that mode");
    let text =
        || written.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("\n");
    session.data(|| json!({ "files": written }), text);
    Ok(())
}

fn data(session: &Session, shown: &[Shown]) {
    let text = || shown.iter().map(Shown::to_string).collect::<Vec<_>>().join("\n");
    session.data(|| json!({ "keys": shown }), text);
}

/// The signer of images with these keys. Development keys are made at their first use.
///
/// # Errors
/// There are no such keys, or their certificate is not valid yet or has expired.
pub fn signer(session: &Session, name: &str) -> Result<Certified> {
    let keys = session.keys_to_make(name)?;
    if name == DEV {
        make_dev(session, &keys)?;
    }
    certificate(session, name)?;
    keys.signer(Role::Db)
}

/// Makes the development keys, unless a parallel build makes them.
fn make_dev(session: &Session, keys: &Keys) -> Result<()> {
    // A later day of `--as-of` would make keys with which nothing can be signed until then.
    let since = session.today.min(Date::from_unix(session.now));
    let terms = Terms { since, years: DEV_YEARS };
    let place = Digest::of(keys.folder().as_os_str().as_encoded_bytes());
    let _alone = session.store()?.lock(&format!("keys-{place}"), stop::check)?;
    if keys.exist() {
        return complete(keys, terms).and_then(|()| complete_api(keys, terms));
    }
    let step = session.report.step("keys dev");
    make(keys, terms, None)?;
    step.done(&keys.folder().display().to_string(), None, Outcome::Ran);
    Ok(())
}

/// The certificate that signs images with these keys.
///
/// # Errors
/// It is not valid yet, or has expired.
pub fn certificate(session: &Session, name: &str) -> Result<Certificate> {
    let certificate = session.keys(name)?.certificate(Role::Db)?;
    let until = Date::from_unix(certificate.not_after());
    if until < session.today {
        return Err(Error::build(format!("the certificate of the keys `{name}` has expired"))
            .cause(format!("its last day was {until}"))
            .hint(format!("cargo osbuild keys rotate {name}")));
    }
    let since = Date::from_unix(certificate.not_before());
    // A release as of an earlier day is signed now, with keys that may be newer than that day.
    if session.today.max(Date::from_unix(session.now)) < since {
        return Err(Error::build(format!("the certificate of the keys `{name}` is not valid yet"))
            .cause(format!("its first day is {since}"))
            .hint("`cargo osbuild keys new NAME` makes keys that are valid from today on"));
    }
    if name != DEV && is_for_development(&certificate) {
        session.report.warning(format!(
            "the keys `{name}` are for development only, according to their certificate"
        ));
    }
    Ok(certificate)
}
