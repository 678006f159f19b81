//! `osbuild publish`: what was built, where machines are rented.

use super::{Session, image};
use crate::cli;
use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use crate::plan::{BinaryName, Locked, Plan, Signing};
use crate::produce::aws::{Live, Looking, Rehearsal};
use crate::produce::out::Built;
use crate::report::Outcome;
use crate::ship::aws::{Content, OWNER, Share, Subject, Tags, Wish, publish, would_remove};
use crate::ship::keys::{Role, is_for_development};
use osbuild_signatures::efi::uefi_data;

/// `osbuild publish aws`
pub fn run(session: &Session, flags: &cli::PublishAws) -> Result<()> {
    let (plan, signing) = session.locked_for(&flags.recipe, &flags.signing)?;
    let signing = signing.as_ref();
    refuse_what_cannot_be(session, signing, flags)?;
    let built = image::build(session, &plan, signing, flags.sources.clone())?;
    let subject = subject(session, &plan, signing, &built, flags.owner.as_deref())?;
    let wish = wish(session, flags);
    if flags.dry_run {
        let rehearsal = Rehearsal::new();
        publish(&rehearsal, session.report, &subject, &wish)?;
        rehearsal.calls().iter().for_each(|call| session.report.data(call.to_string()));
        session
            .report
            .note("nothing was changed: these calls would be made if nothing were there yet");
        return say_what_would_go(session, &subject, &wish);
    }
    let published = publish(&Live::usual(), session.report, &subject, &wish)?;
    session.report.note(match published.was_there {
        true => format!("{} was there already", published.name),
        false => format!("{} is published", published.name),
    });
    session.report.data(published.to_json(&subject).to_string());
    Ok(())
}

/// Looks at AWS, and says which images and snapshots `--prune` would remove.
fn say_what_would_go(session: &Session, subject: &Subject, wish: &Wish) -> Result<()> {
    if wish.prune.is_none() {
        return Ok(());
    }
    let lines = would_remove(&Looking::usual(), subject, wish)?;
    lines.iter().for_each(|line| session.report.data(line.to_string()));
    session.report.note(format!("`--prune` would remove {} images and snapshots", lines.len()));
    Ok(())
}

/// What would be a mistake is told before anything is built.
fn refuse_what_cannot_be(
    session: &Session,
    signing: Option<&Signing>,
    flags: &cli::PublishAws,
) -> Result<()> {
    if session.common.offline && !flags.dry_run {
        return Err(Error::usage("nothing can be published with `--offline`")
            .hint("say `--dry-run` to see what would be asked"));
    }
    if session.common.offline && flags.prune.is_some() {
        return Err(Error::usage(
            "AWS cannot be asked what `--prune` would remove with `--offline`",
        )
        .hint("leave `--prune` away"));
    }
    if let Some(day) = flags.deprecate.filter(|day| *day <= session.today) {
        return Err(Error::usage(format!("`--deprecate {day}` is no day to come"))
            .cause("AWS takes none that is over"));
    }
    let Some(Signing { key: name, .. }) = signing else {
        session.report.warning("nobody signs this image: whoever can write to its disk can start something else from it");
        return Ok(());
    };
    // The keys `dev` are only made when somebody first signs by them.
    let keys = session.keys(name)?;
    let for_development = name == crate::ship::keys::DEV
        || keys.exist() && is_for_development(&keys.certificate(Role::Db)?);
    if for_development && !flags.allow_dev_key && !flags.dry_run {
        return Err(Error::usage(format!("the keys `{name}` are for development only, and publish nothing"))
            .hint("make keys with `cargo osbuild keys new NAME` and name them by `--key NAME`, or say `--allow-dev-key`"));
    }
    Ok(())
}

/// The disk, and what AWS is to know of it.
fn subject(
    session: &Session,
    plan: &Plan<Locked>,
    signing: Option<&Signing>,
    built: &Built,
    owner: Option<&str>,
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
    more.extend(owner.map(|owner| (OWNER, owner.to_owned())));
    more.extend(session.checkout.commit().map(|commit| ("osbuild:commit", commit)));
    Ok(Subject {
        tags: Tags::new(&plan.recipe, &content.digest.hex(), &more),
        content,
        recipe: plan.recipe.clone(),
        version: plan.version.clone(),
        architecture: plan.architecture,
        uefi_data: signing.map(|signing| trusted(session, &signing.key)).transpose()?,
    })
}

/// Whom the firmware of its machines trusts, as AWS holds it.
fn trusted(session: &Session, name: &str) -> Result<String> {
    let updates = session.keys(name)?.trust()?.updates();
    uefi_data(&updates).ok_or_else(|| {
        Error::build(format!("what is trusted and revoked by the keys `{name}` is more than the 64 KiB that EC2 takes"))
            .hint(format!("make keys that have nothing to revoke: cargo osbuild keys new {name}-2"))
    })
}

fn wish(session: &Session, flags: &cli::PublishAws) -> Wish {
    Wish {
        region: flags.region.clone(),
        copies: flags.copy_to.clone(),
        share: Share { accounts: flags.share.clone(), public: flags.public },
        deprecate: flags.deprecate,
        prune: flags.prune.map(usize::from),
        today: session.today,
    }
}
