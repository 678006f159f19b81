//! `osbuild sign`

use super::{Session, build, image, keys};
use crate::cli;
use crate::engine::executor::Rebuild;
use crate::error::{Error, Kind, Result};
use crate::produce::sign::OfflineSigner;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `osbuild sign`: builds again with signatures that were made offline, which takes no longer than
/// assembling the image.
pub fn run(
    session: &Session,
    recipe: &str,
    attach: &Path,
    key: Option<String>,
    sources: Option<PathBuf>,
) -> Result<()> {
    let started = Instant::now();
    let plan = session.locked_for(recipe, &cli::Signing { key, unsigned: false })?;
    let name = plan.signing.as_ref().ok_or_else(|| {
        Error::usage(format!("recipe `{recipe}` does not say who signs it"))
            .hint("name the keys by `--key NAME`")
    })?;
    let certificate = keys::certificate(session, name)?;
    let signer = OfflineSigner::open(attach, certificate).map_err(Error::of_usage)?;
    let from = session.from(sources)?;
    session.need(&image::tools(&from))?;
    let to_sign = |error: Error| match error.kind {
        Kind::Digest => error.hint(format!(
            "sign what `cargo osbuild build {recipe} --unsigned` leaves in out/{recipe}/to-sign"
        )),
        _ => error,
    };
    let built = image::with_signer(session, &plan, from, Rebuild::Nothing, Some(&signer))
        .map_err(to_sign)?;
    session.report.note(match built.was_current {
        true => "the image has these signatures already",
        false => "the image is signed: every required signature was there",
    });
    build::report(session, recipe, &built, &built.image, started);
    Ok(())
}
