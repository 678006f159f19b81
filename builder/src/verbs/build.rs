//! `osbuild build`

use super::{Session, clean, image};
use crate::cli;
use crate::engine::executor::Rebuild;
use crate::engine::remote::Use;
use crate::error::{Error, Result};
use crate::pipeline;
use crate::plan::{HostPrograms, Locked, Plan, makes_programs};
use crate::produce::copy::Format;
use crate::produce::fetch::SourceOrigin;
use crate::produce::out::{Built, Out, PROGRAMS};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// `osbuild build`
pub fn run(
    session: &Session,
    recipes: &cli::Recipes,
    sources: Option<PathBuf>,
    rebuild: Option<Vec<String>>,
    format: Format,
    signing: &cli::Signing,
) -> Result<()> {
    let started = Instant::now();
    let recipes = session.selected(recipes)?;
    let has = |name: &str| session.project.files.contains_key(&format!("recipes/{name}.toml"));
    let rebuild = rebuild_of(rebuild, &recipes, has)?;
    let from = session.from(sources)?;
    let makes_programs = |recipe: &String| makes_programs(&session.project, recipe);
    let (programs, nodes): (Vec<_>, Vec<_>) = recipes.into_iter().partition(makes_programs);
    if nodes.is_empty() {
        programs.iter().try_for_each(|recipe| refuse_image_flags(recipe, format, signing))?;
    }
    let plans = each(&nodes, |recipe| session.locked_for(recipe, signing))?;
    let programs = each(&programs, |recipe| session.locked_programs(recipe))?;
    session.need(&image::tools(&from))?;
    let images = image::all(session, &plans, from.clone(), rebuild.clone())?;
    for ((plan, _), built) in plans.iter().zip(images) {
        let file = format.of_image(session.report, &built)?;
        report(session, &plan.recipe, &built, &file, started)?;
    }
    programs.iter().try_for_each(|plan| build_programs(session, plan, &from, &rebuild))?;
    summarize_remote(session)
}

/// The steps to run again.
///
/// # Errors
/// There are several recipes: a step that they share would run again for each. One that the project
/// lacks is most likely a step, which has to follow an `=`.
fn rebuild_of(
    words: Option<Vec<String>>,
    recipes: &[String],
    is_there: impl Fn(&str) -> bool,
) -> Result<Rebuild> {
    match words {
        None => Ok(Rebuild::Nothing),
        Some(_) if recipes.len() > 1 => {
            let (known, steps): (Vec<&str>, Vec<&str>) =
                recipes.iter().map(String::as_str).partition(|name| is_there(name));
            let recipe = known.first().unwrap_or(&"RECIPE");
            let steps =
                if steps.is_empty() { String::new() } else { format!("={}", steps.join(",")) };
            Err(Error::usage("`--rebuild` is for one recipe")
                .hint(format!("cargo osbuild build {recipe} --rebuild{steps}")))
        }
        Some(words) if words.is_empty() => Ok(Rebuild::Everything),
        Some(words) => Ok(Rebuild::Steps(words)),
    }
}

/// Plans each recipe. The problems of all recipes are one error.
fn each<T>(recipes: &[String], plan: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    let (mut plans, mut kind, mut problems) = (Vec::new(), None, Vec::new());
    for recipe in recipes {
        match plan(recipe) {
            Ok(plan) => plans.push(plan),
            Err(error) => {
                kind.get_or_insert(error.kind);
                problems.extend(error.problems);
            }
        }
    }
    match kind {
        Some(kind) => Err(Error::many(kind, problems)),
        None => Ok(plans),
    }
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
fn build_programs(
    session: &Session,
    plan: &Plan<Locked, HostPrograms<Locked>>,
    from: &SourceOrigin,
    rebuild: &Rebuild,
) -> Result<()> {
    let (started, recipe) = (Instant::now(), &plan.recipe);
    let limit = clean::limit(std::env::var_os(clean::MAX_GIB))?;
    let out = Out::open(session.root(), recipe)?.with_plan(plan.print());
    let store = session.store()?;
    let options = session.build_options(&store, from.clone(), rebuild.clone())?;
    let files = pipeline::build_programs(&options, plan, &out)?;
    session
        .report
        .note(format!("{recipe} is built after {}", crate::report::duration(started.elapsed())));
    clean::daily(session, &store, limit)?;
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
            "steps": built.steps.places(),
            "remote": remote,
        })
    };
    session.data(json, || file.display().to_string());
    Ok(())
}

/// Prints what the shared cache did for all recipes, if it was asked for a result.
///
/// # Errors
/// The configuration of the cache is invalid.
pub fn summarize_remote(session: &Session) -> Result<()> {
    if let Some(remote) = session.remote()?
        && remote.used().hits + remote.used().misses > 0
    {
        session.report.note(remote.summary());
    }
    Ok(())
}

/// The use of the shared cache so far, for `--json`; null without a cache.
fn remote(session: &Session) -> Result<Value> {
    let Some(remote) = session.remote()? else { return Ok(Value::Null) };
    let Use { hits, misses, executed, saved, traffic } = remote.used();
    Ok(json!({
        "hits": hits,
        "misses": misses,
        "executed": executed,
        "saved-s": saved.as_secs_f64(),
        "bytes-received": traffic.received,
        "bytes-sent": traffic.sent,
    }))
}
