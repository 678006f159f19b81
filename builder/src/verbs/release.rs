//! `osbuild release`: builds a recipe and publishes it in a channel.

use super::image::SignWith;
use super::{Session, image, keys};
use crate::cli;
use crate::engine::executor::Rebuild;
use crate::engine::fs_error::{IoContext, remove};
use crate::engine::remote::Trust;
use crate::error::{Error, Kind, Result, in_words};
use crate::plan::{Date, Locked, Plan, Signing, Strictness, parse_as, resolve};
use crate::produce::fetch::git;
use crate::produce::out::{Out, RELEASE_TO_SIGN, RELEASED};
use crate::produce::sign::{OfflineReleaseSigner, OfflineSigner, ReleaseSigner, Signer};
use crate::report::Outcome;
use crate::ship::audit::inspect::programs;
use crate::ship::keys::{Keys, Role, is_for_development};
use crate::ship::release::{
    Commit, Parts, Place, Published, RolloutChange, current, promote, publish,
};
use crate::ship::tuf::{ROOT, Repository, Root, TARGETS};
use osbuild_release::{Document, target};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `osbuild release`
pub fn run(mut session: Session, flags: &cli::Release) -> Result<()> {
    session.today = flags.as_of.unwrap_or(session.today);
    if !flags.remote_trusted {
        session.trust = Trust::Here;
    }
    session.check_set(&[&flags.recipe])?;
    let rollout = rollout_change(flags)?;
    let plan = match builds(flags) {
        true => Some(session.locked_as(&flags.recipe, Strictness::Lock)?),
        // A release can be promoted and stopped at once, whatever its recipe says today.
        false => None,
    };
    let before = plan.as_ref().and_then(|_| commit(&session, flags));
    let signing = &signing(&session, flags, plan.as_ref())?;
    let name = &signing.key;
    let signer = plan.as_ref().map(|_| image_signer(&session, flags, name)).transpose()?;
    let keys = session.keys(name)?;
    let folder = folder(&session, flags);
    let repository = Repository::at(&folder);
    check_keys(&session, flags, &keys, &repository)?;
    let release_signer = release_signer(&session, flags, &keys)?;
    let until = session.today.plus_days(flags.days);
    let keep = flags.keep.map(usize::from);
    let place = |repository| Place {
        repository,
        channel: flags.channel,
        keys: &keys,
        signer: &release_signer,
        rollout: rollout.clone(),
        today: session.today,
        until,
        keep,
    };
    let busy = format!("waiting for another release to `{}`", folder.display());
    let writer = || repository.writer(|| session.report.note(&busy));
    let published = match plan.as_ref().zip(signer.as_ref()) {
        None => {
            let writer = writer()?;
            let place = place(&writer);
            let version = match &flags.promote {
                Some(version) => version.clone(),
                None => current(&place, &flags.recipe)?,
            };
            promote(&place, &flags.recipe, &version)?
        }
        Some((plan, signer)) => {
            let from = session.from(flags.sources.clone())?;
            session.need(&image::tools(&from))?;
            let sign = SignWith { keys: signing, signer: &**signer };
            let built = image::with_signer(&session, plan, from, Rebuild::Nothing, Some(sign))?;
            let (node, boot) = programs(&built.image)?;
            let writer = writer()?;
            let commit = before.map(|before| before.until(commit(&session, flags)));
            let (date, made) = (session.today, built.steps.made);
            let set = session.project.overrides.values().clone();
            let parts = Parts { plan, set, node, boot, date, commit, made };
            let published = release(&session, &place(&writer), parts)?;
            copy_documents(
                &Out::open(session.root(), &flags.recipe)?,
                &folder,
                &published.document,
            )?;
            published
        }
    };
    report(&session, flags, &keys, &published, &folder);
    Ok(())
}

/// Refuses keys whose releases nodes of this repository would not accept.
fn check_keys(
    session: &Session,
    flags: &cli::Release,
    keys: &Keys,
    repository: &Repository,
) -> Result<()> {
    if !flags.allow_dev_key {
        refuse_development(keys)?;
    }
    repository.check_roots(&keys.roots()?, &keys.name)?;
    refuse_expired_root(keys, session.today)
}

/// Refuses keys that are for development only.
fn refuse_development(keys: &Keys) -> Result<()> {
    if !is_for_development(&keys.certificate(Role::Db)?) {
        return Ok(());
    }
    let name = &keys.name;
    Err(Error::usage(format!(
        "the keys `{name}` are for development only and cannot sign a release"
    ))
    .hint(
        "make keys with `cargo osbuild keys new NAME` and use `--key NAME`, or pass \
         `--allow-dev-key`",
    ))
}

/// Refuses keys whose root of trust has expired: nodes would refuse all releases with it.
fn refuse_expired_root(keys: &Keys, today: Date) -> Result<()> {
    let roots = keys.roots()?;
    let Some(until) = roots.last().map(Root::until).filter(|until| *until < today) else {
        return Ok(());
    };
    let name = &keys.name;
    Err(Error::build(format!("the root of trust of the keys `{name}` has expired"))
        .cause(format!("the last day of `root.json` was {until}: nodes refuse what it signs"))
        .hint(format!("cargo osbuild keys rotate {name} --role root")))
}

/// The folder of the release.
fn folder(session: &Session, flags: &cli::Release) -> PathBuf {
    let default = || session.root().join("out").join(&flags.recipe).join("release");
    flags.to.clone().unwrap_or_else(default)
}

/// Whether the command makes a release. It applies to an earlier one otherwise, that of `--promote`
/// or that of the channel, and only signs metadata.
fn builds(flags: &cli::Release) -> bool {
    flags.promote.is_none() && !matches!(flags.rollout, cli::Rollout::All | cli::Rollout::Stop)
}

/// The change that the publisher wants for the release's rollout.
fn rollout_change(flags: &cli::Release) -> Result<RolloutChange> {
    Ok(match &flags.rollout {
        cli::Rollout::Keep => RolloutChange::Keep,
        cli::Rollout::All => RolloutChange::ToAll,
        cli::Rollout::Stop => RolloutChange::Stop,
        cli::Rollout::File(path) => {
            let text = fs::read_to_string(path).at("read", path).map_err(|error| {
                error.of_usage().hint("a rollout is the path of a file, or `stop`, `all` or `keep`")
            })?;
            RolloutChange::Follow(parse_as(Kind::Usage, &path.display().to_string(), &text)?)
        }
    })
}

/// The keys: from the command line, or else from the recipe.
fn signing(
    session: &Session,
    flags: &cli::Release,
    plan: Option<&Plan<Locked>>,
) -> Result<Signing> {
    let default = || match plan {
        Some(plan) => Ok(plan.default_signing.clone()),
        None => resolve(&session.project, &flags.recipe, session.today, Strictness::Build)
            .map(|plan| plan.default_signing.clone()),
    };
    let named = flags.key.as_deref().map(Signing::with);
    named.map_or_else(default, |named| Ok(Some(named)))?.ok_or_else(|| {
        Error::usage(format!("recipe `{}` names no signing keys", flags.recipe))
            .hint("name the keys with `--key NAME`")
    })
}

/// The signer of the image: the keys here, or offline signatures.
fn image_signer(session: &Session, flags: &cli::Release, name: &str) -> Result<Box<dyn Signer>> {
    Ok(match &flags.attach {
        Some(folder) => Box::new(OfflineSigner::open(folder, keys::certificate(session, name)?)?),
        None => Box::new(keys::signer(session, name)?),
    })
}

/// The signer of the release: the keys here, or offline signatures.
fn release_signer(
    session: &Session,
    flags: &cli::Release,
    keys: &Keys,
) -> Result<Arc<dyn ReleaseSigner>> {
    let Some(folder) = &flags.attach else {
        let hint = "`--attach DIR` lists what has to be signed on the machine with the key, and \
                    reads the signatures";
        let with_hint = |error: Error| match keys.has_release_key() {
            true => error,
            false => error.hint(hint),
        };
        return keys.release_key().map_err(with_hint);
    };
    let to_sign = Out::open(session.root(), &flags.recipe)?.path(RELEASE_TO_SIGN);
    Ok(Arc::new(OfflineReleaseSigner::open(folder, keys.release_public()?, &to_sign)?))
}

/// The commit of the project. The folders of the command line are no part of it, although pipelines
/// have them in the checkout.
fn commit(session: &Session, flags: &cli::Release) -> Option<Commit> {
    let to = folder(session, flags);
    let others = [&flags.sources, &flags.attach].into_iter().flatten();
    let beside: Vec<&Path> = others.chain([&to]).map(PathBuf::as_path).collect();
    let is_dirty = git::is_dirty(session.root(), &beside);
    Some(Commit { id: session.checkout.commit()?, is_dirty })
}

fn release(session: &Session, place: &Place, parts: Parts) -> Result<Published> {
    let plan = parts.plan;
    let step = session.report.step("release");
    let size = (parts.node.len() + parts.boot.len()) as u64;
    let published = publish(place, &parts)?;
    step.done(&format!("{} {}", plan.recipe, plan.version), Some(size), Outcome::Ran);
    Ok(published)
}

/// The files of a release that are for people and their tools, not for nodes.
const DOCUMENTS: [&str; 4] = [target::SBOM, target::PROVENANCE, target::LOCK, target::SOURCES];

/// Copies the documents of the release from the repository at `folder` to `out/`, in place of those
/// of an earlier one.
fn copy_documents(out: &Out, folder: &Path, document: &Document) -> Result<()> {
    let released = out.path(RELEASED);
    remove(&released)?;
    fs::create_dir_all(&released).at("make", &released)?;
    for (name, file) in document.files.iter().filter(|(name, _)| DOCUMENTS.contains(&name.as_str()))
    {
        let name = target::file(&document.recipe, &document.version, name);
        let (from, to) =
            (folder.join(TARGETS).join(format!("{}.{name}", file.sha256)), released.join(name));
        fs::copy(&from, &to).at("write", &to)?;
    }
    Ok(())
}

fn report(
    session: &Session,
    flags: &cli::Release,
    keys: &Keys,
    published: &Published,
    folder: &Path,
) {
    let (document, (until, first)) = (&published.document, &published.times.until);
    let (recipe, version, channel) = (&document.recipe, &document.version, flags.channel);
    session.report.note(format!("channel {channel} has version {version} of {recipe}"));
    if let Some(rollout) = &document.rollout {
        session.report.note(rollout.to_string());
    }
    if !published.dropped.is_empty() {
        let dropped = in_words(published.dropped.iter().map(String::as_str));
        session.report.note(format!("removed {dropped} of {recipe} from the repository"));
    }
    let renewal = match first.as_str() {
        ROOT => format!("`cargo osbuild keys rotate {} --role root` and `--promote", keys.name),
        _ => "make a release or `--promote".to_owned(),
    };
    session.report.note(format!(
        "nodes accept it until {until}, when {first} expires: {renewal} {version}` before"
    ));
    let json = || {
        json!({
            "recipe": recipe,
            "version": version,
            "channel": channel.name(),
            "folder": folder,
            "until": until.to_string(),
            "metadata-version": published.times.version,
            "rollout": document.rollout,
            "dropped": published.dropped,
        })
    };
    session.data(json, || folder.display().to_string());
}
