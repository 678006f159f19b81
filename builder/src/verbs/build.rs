//! `osbuild build`

use super::{Session, image};
use crate::cli;
use crate::engine::executor::Rebuild;
use crate::engine::fs_error::IoContext;
use crate::engine::remote::Use;
use crate::error::{Error, Result};
use crate::pipeline;
use crate::plan::makes_programs;
use crate::produce::copy::Format;
use crate::produce::fetch::SourceOrigin;
use crate::produce::out::Built;
use crate::produce::out::{Out, PLAN, PROGRAMS};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `osbuild build`
pub fn run(
    session: &Session,
    recipe: &str,
    sources: Option<PathBuf>,
    rebuild: Option<Vec<String>>,
    format: Format,
    signing: &cli::Signing,
) -> Result<()> {
    let started = Instant::now();
    let rebuild = match rebuild {
        None => Rebuild::Nothing,
        Some(words) if words.is_empty() => Rebuild::Everything,
        Some(words) => Rebuild::Steps(words),
    };
    if makes_programs(&session.project, recipe) {
        refuse_image_flags(recipe, format, signing)?;
        return programs(session, recipe, session.from(sources)?, rebuild);
    }
    let (plan, signing) = session.locked_for(recipe, signing)?;
    let from = session.from(sources)?;
    session.need(&image::tools(&from))?;
    let built = image::signed(session, &plan, signing.as_ref(), from, rebuild)?;
    let file =
        format.of_image(&session.store()?, session.report, &Out::open(session.root(), recipe)?)?;
    report(session, recipe, &built, &file, started)
}

/// Refuses flags for images if the recipe makes programs, which have neither format nor signature.
fn refuse_image_flags(recipe: &str, format: Format, signing: &cli::Signing) -> Result<()> {
    let flag = match signing {
        _ if format != Format::Raw => "--format",
        cli::Signing { unsigned: true, .. } => "--unsigned",
        cli::Signing { key: Some(_), .. } => "--key",
        _ => return Ok(()),
    };
    let error = Error::usage(format!(
        "`{flag}` is for images, but recipe `{recipe}` makes programs for this machine"
    ));
    Err(error.hint(format!("cargo osbuild build {recipe}")))
}

/// Builds the programs of a recipe into `out/<recipe>/bin/`.
fn programs(session: &Session, recipe: &str, from: SourceOrigin, rebuild: Rebuild) -> Result<()> {
    let started = Instant::now();
    let plan = session.locked_programs(recipe)?;
    session.need(&image::tools(&from))?;
    let out = Out::open(session.root(), recipe)?;
    std::fs::write(out.path(PLAN), plan.print()).at("write", &out.path(PLAN))?;
    let store = session.store()?;
    let options = session.build_options(&store, from, rebuild)?;
    let files = pipeline::build_programs(&options, &plan, &out)?;
    session
        .report
        .note(format!("{recipe} is built after {}", crate::report::duration(started.elapsed())));
    let (folder, remote) = (out.path(PROGRAMS), remote(session)?);
    session.data(
        || json!({ "recipe": recipe, "folder": folder, "programs": files, "remote": remote }),
        || folder.display().to_string(),
    );
    Ok(())
}

/// Reports a finished build; `file` is the result for stdout.
///
/// # Errors
/// The configuration of the cache is invalid.
pub fn report(
    session: &Session,
    recipe: &str,
    built: &Built,
    file: &Path,
    started: Instant,
) -> Result<()> {
    let state = if built.was_current { "was up to date" } else { "is built" };
    session
        .report
        .note(format!("{recipe} {state} after {}", crate::report::duration(started.elapsed())));
    let remote = remote(session)?;
    let json = || {
        json!({
            "recipe": recipe,
            "file": file,
            "image": built.image,
            "uki": built.uki,
            "initramfs": built.initramfs,
            "initramfs-signature": built.initramfs_signature,
            "to-sign": built.to_sign,
            "was-current": built.was_current,
            "remote": remote,
        })
    };
    session.data(json, || file.display().to_string());
    Ok(())
}

/// Prints what the shared cache did, and returns it for `--json`; null without a cache.
fn remote(session: &Session) -> Result<Value> {
    let Some(remote) = session.remote()? else { return Ok(Value::Null) };
    let Use { hits, misses, traffic } = remote.used();
    if hits + misses > 0 {
        session.report.note(remote.summary());
    }
    Ok(json!({
        "hits": hits,
        "misses": misses,
        "bytes-received": traffic.received,
        "bytes-sent": traffic.sent,
    }))
}
