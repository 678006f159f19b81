//! `osbuild keys`: makes, shows and enrolls keys.

use super::{Session, given};
use crate::cli;
use crate::engine::digest::Digest;
use crate::engine::stop;
use crate::error::{Context, Error, Result};
use crate::plan::Date;
use crate::produce::sign::Certified;
use crate::report::Outcome;
use crate::ship::keys::{
    DEV, Enrollment, Keys, Role, Shown, Terms, complete, enrolled, is_for_development, make,
    revoke, rotate, rotate_release, rotate_root, show,
};
use osbuild_signatures::authenticode;
use osbuild_signatures::certificate::Certificate;
use osbuild_signatures::efi::Listed;
use serde_json::json;
use std::path::{Path, PathBuf};

/// For how many years the certificates of keys are valid that nobody asked for.
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
            let keys = named(&name)?;
            make(&keys, of(&terms), terms.token.as_deref())?;
            data(session, &show(&keys, session.today)?);
            Ok(())
        }
        cli::Keys::Show { name } => {
            let all = match name {
                Some(name) => vec![named(&name)?],
                None => whole(session)?,
            };
            let shown = all
                .iter()
                .map(|keys| show(keys, session.today))
                .collect::<Result<Vec<_>>>()?
                .concat();
            data(session, &shown);
            Ok(())
        }
        cli::Keys::Rotate { name, role, terms } => {
            let keys = named(&name)?;
            session.report.note(rotated(&keys, role, of(&terms), terms.token.as_deref())?);
            data(session, &show(&keys, session.today)?);
            Ok(())
        }
        cli::Keys::Revoke { name, uki, certificate } => {
            let keys = named(&name)?;
            revoke(&keys, listed(uki.as_deref(), certificate.as_deref())?)?;
            session.report.note(
                "a machine refuses it once it has dbx.auth of `osbuild keys \
                                 enroll`: see first that it has something else to start",
            );
            data(session, &show(&keys, session.today)?);
            Ok(())
        }
        cli::Keys::Enroll { name, to, vars } => {
            enroll(session, &named(&name)?, to, vars.as_deref())
        }
    }
}

/// All keys of the project. What is among them but lacks the certificate that images are signed by
/// is named, and left out.
fn whole(session: &Session) -> Result<Vec<Keys>> {
    let (whole, others): (Vec<Keys>, Vec<Keys>) =
        Keys::all(session.root())?.into_iter().partition(Keys::exist);
    for keys in others {
        session.report.warning(format!(
            "`keys/{}` has no `db.crt`, so images cannot be signed with these keys",
            keys.name
        ));
    }
    Ok(whole)
}

/// Rotates one of these keys, and says what is to be done then.
fn rotated(
    keys: &Keys,
    role: cli::Rotated,
    terms: Terms,
    token: Option<&str>,
) -> Result<&'static str> {
    match role {
        cli::Rotated::Db => {
            rotate(keys, terms, token)?;
            Ok("machines start what the new key signs once they have db.auth of `osbuild keys \
                 enroll`, which trusts the old one as well")
        }
        cli::Rotated::Release => {
            rotate_release(keys, terms, token)?;
            Ok("nodes learn of the new key from the next release, and of the old one nothing more")
        }
        cli::Rotated::Root if token.is_some() => {
            Err(Error::usage("the key of the root of trust is always a file").hint(format!(
                "take it away to a safe: cargo osbuild keys rotate {} --role root",
                keys.name
            )))
        }
        cli::Rotated::Root if keys.roots()?.is_empty() => {
            complete(keys, terms)?;
            Ok("the keys have a root of trust now")
        }
        cli::Rotated::Root => {
            rotate_root(keys, terms)?;
            Ok("nodes learn of the new key from the next release: the old one has vouched for it")
        }
    }
}

/// What the command line says to revoke: it names one of both.
fn listed(uki: Option<&Path>, certificate: Option<&Path>) -> Result<Listed> {
    match (uki, certificate) {
        (Some(path), _) => {
            let digest = authenticode::digest(&given(path)?);
            digest
                .map(Listed::Image)
                .or_build(|| format!("`{}` is not a UKI", path.display()))
                .map_err(Error::of_usage)
        }
        (None, Some(path)) => {
            let certificate = Certificate::from_pem(&given(path)?);
            certificate
                .map(Listed::from)
                .or_build(|| format!("cannot read `{}`", path.display()))
                .map_err(Error::of_usage)
        }
        (None, None) => {
            Err(Error::usage("nothing to revoke is given").hint("name `--uki` or `--certificate`"))
        }
    }
}

fn enroll(session: &Session, keys: &Keys, to: Option<PathBuf>, vars: Option<&Path>) -> Result<()> {
    let folder = to.unwrap_or_else(|| keys.folder().join("enroll"));
    let mut enrollment = Enrollment::of(keys)?;
    if let Some(path) = vars {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let variables = enrolled(given(path)?, &keys.trust()?).map_err(Error::of_usage)?;
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

/// Who signs images with the keys of this name. The keys for development are made when they are
/// first used.
///
/// # Errors
/// There are no such keys, or their certificate has expired.
pub fn signer(session: &Session, name: &str) -> Result<Certified> {
    let keys = session.keys(name)?;
    if name == DEV {
        make_dev(session, &keys)?;
    }
    certificate(session, name)?;
    keys.signer(Role::Db)
}

/// Makes the keys for development. Of two first builds at once, one makes them and the other waits.
fn make_dev(session: &Session, keys: &Keys) -> Result<()> {
    let terms = Terms { since: session.today, years: DEV_YEARS };
    let place = Digest::of(keys.folder().as_os_str().as_encoded_bytes());
    let _alone = session.store()?.lock(&format!("keys-{place}"), stop::check)?;
    if keys.exist() {
        return complete(keys, terms);
    }
    let step = session.report.step("keys dev");
    make(keys, terms, None)?;
    step.done(&keys.folder().display().to_string(), None, Outcome::Ran);
    Ok(())
}

/// The certificate of who signs images with the keys of this name, if it may still be used.
pub fn certificate(session: &Session, name: &str) -> Result<Certificate> {
    let certificate = session.keys(name)?.certificate(Role::Db)?;
    let until = Date::from_unix(certificate.not_after());
    if until < session.today {
        return Err(Error::build(format!("the certificate of the keys `{name}` has expired"))
            .cause(format!("its last day was {until}"))
            .hint("make new keys with `cargo osbuild keys new NAME`, and use `--key NAME`"));
    }
    if name != DEV && is_for_development(&certificate) {
        session.report.warning(format!(
            "the keys `{name}` are for development only: their certificate says so"
        ));
    }
    Ok(certificate)
}
