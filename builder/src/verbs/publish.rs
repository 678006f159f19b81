//! `osbuild publish aws`

use super::{Session, image};
use crate::cli;
use crate::engine::digest::Digest;
use crate::engine::remote::Trust;
use crate::error::{Error, Result};
use crate::plan::{BinaryName, Locked, Plan, Signing};
use crate::produce::aws::client;
use crate::produce::out::Built;
use crate::report::Outcome;
use crate::ship::aws::{Content, OWNER, Options, Subject, publish, tags, would_remove};
use crate::ship::keys::{Role, is_for_development};
use osbuild_aws::{DryRun, ReadOnly};
use osbuild_signatures::efi::uefi_data;

/// `osbuild publish aws`
pub fn run(mut session: Session, flags: &cli::PublishAws) -> Result<()> {
    // As in a release, what others get was made on this machine.
    session.trust = Trust::Here;
    let session = &session;
    // Before the build, during which another one may be checked out.
    let commit = session.checkout.commit();
    session.check_set(&[&flags.recipe])?;
    let (plan, signing) = session.locked_for(&flags.recipe, &flags.signing)?;
    let signing = signing.as_ref();
    check_flags(session, signing, flags)?;
    let built = image::build(session, &plan, signing, flags.sources.clone())?;
    let more = [(OWNER, flags.owner.clone()), ("osbuild:commit", commit)];
    let subject = subject(session, &plan, signing, &built, more)?;
    let options = options(session, flags);
    if flags.dry_run {
        let dry_run = DryRun::new();
        publish(&dry_run, session.report, &subject, &options)?;
        dry_run.calls().iter().for_each(|call| session.report.data(call.to_string()));
        session.report.note("nothing was changed: these would be the calls of a first publish");
        return show_prune(session, &subject, &options);
    }
    let published = publish(&client()?, session.report, &subject, &options)?;
    session.report.note(match published.was_there {
        true => format!("{} was published already", published.name),
        false => format!("{} is published", published.name),
    });
    session.report.data(published.to_json(&subject).to_string());
    Ok(())
}

/// Shows which images and snapshots `--prune` would remove.
fn show_prune(session: &Session, subject: &Subject, options: &Options) -> Result<()> {
    if options.prune.is_none() {
        return Ok(());
    }
    let lines = would_remove(&ReadOnly(client()?), subject, options)?;
    lines.iter().for_each(|line| session.report.data(line.to_string()));
    session.report.note(format!("`--prune` would remove {} images and snapshots", lines.len()));
    Ok(())
}

/// Refuses flags that cannot work, before the build.
fn check_flags(
    session: &Session,
    signing: Option<&Signing>,
    flags: &cli::PublishAws,
) -> Result<()> {
    if session.common.offline && !flags.dry_run {
        return Err(Error::usage("cannot publish with `--offline`")
            .hint("use `--dry-run` to see the calls"));
    }
    if session.common.offline && flags.prune.is_some() {
        let error = Error::usage("cannot look up what `--prune` would remove with `--offline`");
        return Err(error.hint("omit `--prune`"));
    }
    if let Some(day) = flags.deprecate.filter(|day| *day <= session.today) {
        return Err(Error::usage(format!("`--deprecate {day}` is in the past"))
            .cause("AWS accepts future dates only"));
    }
    let Some(Signing { key: name, .. }) = signing else {
        session.report.warning(
            "the image is unsigned: anyone who can write to its disk can boot other code from it",
        );
        return Ok(());
    };
    // The keys `dev` do not exist before the first build.
    let keys = session.keys_to_make(name)?;
    let for_development = name == crate::ship::keys::DEV
        || keys.exist() && is_for_development(&keys.certificate(Role::Db)?);
    if for_development && !flags.allow_dev_key && !flags.dry_run {
        let error = Error::usage(format!(
            "the keys `{name}` are for development only and cannot publish an image"
        ));
        return Err(error.hint(
            "make keys with `cargo osbuild keys new NAME` and use `--key NAME`, or pass \
             `--allow-dev-key`",
        ));
    }
    Ok(())
}

/// Reads the disk, and collects its tags, with those of `known` that have a value, and Secure Boot
/// keys.
fn subject(
    session: &Session,
    plan: &Plan<Locked>,
    signing: Option<&Signing>,
    built: &Built,
    known: [(&'static str, Option<String>); 2],
) -> Result<Subject> {
    let step = session.report.step("read image");
    let content = Content::read(&built.image)?;
    step.done("", Some(content.digest.size()), Outcome::Ran);
    let lock = plan.lock.get();
    let mut more = vec![
        ("Name", format!("{} {}", plan.recipe, plan.version)),
        ("osbuild:version", plan.version.clone()),
        ("osbuild:lock", Digest::of(lock.print().as_bytes()).hex()),
        ("osbuild:linux", plan.kernel_source().version.clone()),
    ];
    let programs = [
        (BinaryName::Kubelet, "osbuild:kubelet"),
        (BinaryName::Containerd, "osbuild:containerd"),
        (BinaryName::Runc, "osbuild:runc"),
    ];
    more.extend(
        programs
            .into_iter()
            .filter_map(|(name, tag)| Some((tag, plan.component(name).version()?.to_string()))),
    );
    more.extend(known.into_iter().filter_map(|(name, value)| Some((name, value?))));
    Ok(Subject {
        tags: tags(&plan.recipe, &content.digest.hex(), &more),
        content,
        recipe: plan.recipe.clone(),
        version: plan.version.clone(),
        architecture: plan.architecture,
        uefi_data: signing.map(|signing| trusted(session, &signing.key)).transpose()?,
    })
}

/// The keys that the firmware trusts, in the encoding of AWS.
fn trusted(session: &Session, name: &str) -> Result<String> {
    let updates = session.keys(name)?.trust()?.updates();
    uefi_data(&updates).ok_or_else(|| {
        Error::build(format!(
            "the certificates and revocations of the keys `{name}` exceed the 64 KiB of EC2"
        ))
        .hint(format!("make keys without revocations: cargo osbuild keys new {name}-2"))
    })
}

fn options(session: &Session, flags: &cli::PublishAws) -> Options {
    Options {
        region: flags.region.clone(),
        copies: flags.copy_to.clone(),
        share: flags.share.clone(),
        public: flags.public,
        deprecate: flags.deprecate,
        prune: flags.prune.map(usize::from),
        today: session.today,
    }
}
