//! `osbuild sign`

use super::image::SignWith;
use super::{Session, build, image};
use crate::cli;
use crate::engine::executor::Rebuild;
use crate::error::{Error, Kind, Result};
use crate::produce::sign::OfflineSigner;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `osbuild sign`: builds again with offline signatures. Only the image has to be assembled.
pub fn run(
    session: &Session,
    recipe: &str,
    attach: &Path,
    key: Option<String>,
    sources: Option<PathBuf>,
) -> Result<()> {
    let started = Instant::now();
    session.check_set(&[recipe])?;
    let (plan, signing) = session.locked_for(recipe, &cli::Signing { key, unsigned: false })?;
    let keys = signing.as_ref().ok_or_else(|| {
        Error::usage(format!("recipe `{recipe}` names no signing keys"))
            .hint("name the keys with `--key NAME`")
    })?;
    let certificate = super::keys::certificate(session, &keys.key)?;
    let signer = OfflineSigner::open(attach, certificate).map_err(Error::of_usage)?;
    let sign = SignWith { keys, signer: &signer };
    let from = session.from(sources)?;
    session.need(&image::tools(&from))?;
    let to_sign = |error: Error| match error.kind {
        Kind::Digest => error.hint(format!(
            "sign the files that `cargo osbuild build {recipe} --unsigned` writes to \
             out/{recipe}/to-sign"
        )),
        _ => error,
    };
    let built =
        image::with_signer(session, &plan, from, Rebuild::Nothing, Some(sign)).map_err(to_sign)?;
    session.report.note(match built.was_current {
        true => "the image already has these signatures",
        false => "the image is signed",
    });
    build::report(session, recipe, &built, &built.image, started)?;
    build::summarize_remote(session)
}
