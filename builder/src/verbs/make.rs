//! Verbs that make something: images, running nodes.

use super::{Session, clean, keys};
use crate::cli;
use crate::engine::executor::{Rebuild, Steps};
use crate::engine::fs_error::IoContext;
use crate::error::{Error, Kind, Result};
use crate::host::{self, Tool};
use crate::pipeline;
use crate::plan::{Date, Locked, Plan, Qemu, Signing, makes_programs};
use crate::produce::build::{BuildOptions, Carried};
use crate::produce::copy::Format;
use crate::produce::fetch::SourceOrigin;
use crate::produce::out::{Built, Out, PLAN, PROGRAMS, REBUILT};
use crate::produce::sign::{OfflineSigner, Signer};
use crate::ship::machine::{Download, Firmware, Network, SecureBoot};
use crate::ship::run::{RunOptions, Until};
use crate::ship::tuf::Root;
use osbuild_signatures::certificate::Certificate;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// `osbuild build`
pub fn build(
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
        refuse_what_is_of_images(recipe, format, signing)?;
        return programs(session, recipe, session.from(sources)?, rebuild);
    }
    let plan = session.locked_for(recipe, signing)?;
    let from = session.from(sources)?;
    session.need(&for_build(&from))?;
    let signer =
        plan.signing.as_ref().map(|signing| keys::signer(session, &signing.key)).transpose()?;
    let built =
        image(session, &plan, from, rebuild, signer.as_ref().map(|signer| signer as &dyn Signer))?;
    let file =
        format.of_image(&session.store()?, session.report, &Out::open(session.root(), recipe)?)?;
    say(session, recipe, &built, &file, started);
    Ok(())
}

/// Programs have no format and nobody signs them.
fn refuse_what_is_of_images(recipe: &str, format: Format, signing: &cli::Signing) -> Result<()> {
    let flag = match signing {
        _ if format != Format::Raw => "--format",
        cli::Signing { unsigned: true, .. } => "--unsigned",
        cli::Signing { key: Some(_), .. } => "--key",
        _ => return Ok(()),
    };
    let error = Error::usage(format!(
        "`{flag}` is for images, and recipe `{recipe}` makes programs for this machine"
    ));
    Err(error.hint(format!("cargo osbuild build {recipe}")))
}

/// Builds the programs of a recipe into `out/<recipe>/bin/`.
fn programs(session: &Session, recipe: &str, from: SourceOrigin, rebuild: Rebuild) -> Result<()> {
    let started = Instant::now();
    let plan = session.locked_programs(recipe)?;
    session.need(&for_build(&from))?;
    let out = Out::open(session.root(), recipe)?;
    std::fs::write(out.path(PLAN), plan.print()).at("write", &out.path(PLAN))?;
    let (store, project, report, jobs) =
        (session.store()?, session.root(), session.report, session.jobs());
    let options = BuildOptions {
        project,
        store: &store,
        report,
        origin: from,
        rebuild,
        jobs,
        signer: None,
        carried: None,
    };
    let files = pipeline::build_programs(&options, &plan, &out)?;
    session
        .report
        .note(format!("{recipe} is built after {}", crate::report::duration(started.elapsed())));
    let folder = out.path(PROGRAMS);
    session.data(
        || json!({ "recipe": recipe, "folder": folder, "programs": files }),
        || folder.display().to_string(),
    );
    Ok(())
}

/// Says what a build has left, and that `file` is what was asked for.
fn say(session: &Session, recipe: &str, built: &Built, file: &Path, started: Instant) {
    let state = if built.was_current { "was up to date" } else { "is built" };
    session
        .report
        .note(format!("{recipe} {state} after {}", crate::report::duration(started.elapsed())));
    let json = || {
        json!({ "recipe": recipe, "file": file, "image": built.image, "uki": built.uki, "initramfs": built.initramfs,
        "initramfs-signature": built.initramfs_signature, "to-sign": built.to_sign, "was-current": built.was_current })
    };
    session.data(json, || file.display().to_string());
}

/// `osbuild sign`: builds once more, which takes no longer than to assemble, with a signer who is
/// elsewhere.
pub fn sign(
    session: &Session,
    recipe: &str,
    attach: &Path,
    key: Option<String>,
    sources: Option<PathBuf>,
) -> Result<()> {
    let started = Instant::now();
    let plan = session.locked_for(recipe, &cli::Signing { key, unsigned: false })?;
    let Signing { key: name, .. } = plan.signing.as_ref().ok_or_else(|| {
        Error::usage(format!("recipe `{recipe}` does not say who signs it"))
            .hint("name the keys by `--key NAME`")
    })?;
    let certificate = keys::certificate(session, name)?;
    let signer = OfflineSigner::open(attach, certificate).map_err(Error::of_usage)?;
    let from = session.from(sources)?;
    session.need(&for_build(&from))?;
    let built =
        image(session, &plan, from, Rebuild::Nothing, Some(&signer)).map_err(
            |error| {
                match error.kind {
            Kind::Digest => error.hint(format!(
                "sign what `cargo osbuild build {recipe} --unsigned` leaves in out/{recipe}/to-sign"
            )),
            _ => error,
        }
            },
        )?;
    session.report.note(match built.was_current {
        true => "the image has these signatures already",
        false => "every signature that is needed was there: no other round is needed",
    });
    say(session, recipe, &built, &built.image, started);
    Ok(())
}

/// What a build needs of this machine: who has the sources in a folder needs nothing that fetches.
pub fn for_build(from: &SourceOrigin) -> Vec<Tool> {
    let fetching =
        if matches!(from, SourceOrigin::Registries) { host::for_sources() } else { Vec::new() };
    [host::for_steps(), fetching].concat()
}

/// Builds a recipe once more into a folder of its own, unsigned, for a comparison. With
/// [`Rebuild::Everything`], nothing that was there before is used.
pub fn again(
    session: &Session,
    recipe: &str,
    sources: Option<PathBuf>,
    rebuild: Rebuild,
) -> Result<Built> {
    let plan = session.locked_for(recipe, &cli::Signing { key: None, unsigned: true })?;
    let from = session.from(sources)?;
    session.need(&for_build(&from))?;
    let out = Out::open(session.root(), &format!("{recipe}/{REBUILT}"))?;
    if rebuild == Rebuild::Everything {
        out.begin()?;
    }
    image_into(&out, session, &plan, from, rebuild, None)
}

/// Builds a locked plan into its folder in `out/`, from such a folder of sources if there is one,
/// signed by the keys that it names.
pub fn signed(session: &Session, plan: &Plan<Locked>, sources: Option<PathBuf>) -> Result<Built> {
    let from = session.from(sources)?;
    session.need(&for_build(&from))?;
    let signer =
        plan.signing.as_ref().map(|signing| keys::signer(session, &signing.key)).transpose()?;
    image(
        session,
        plan,
        from,
        Rebuild::Nothing,
        signer.as_ref().map(|signer| signer as &dyn Signer),
    )
}

/// Builds a locked plan into its folder in `out/`.
pub fn image(
    session: &Session,
    plan: &Plan<Locked>,
    from: SourceOrigin,
    rebuild: Rebuild,
    signer: Option<&dyn Signer>,
) -> Result<Built> {
    image_into(&Out::open(session.root(), &plan.recipe)?, session, plan, from, rebuild, signer)
}

fn image_into(
    out: &Out,
    session: &Session,
    plan: &Plan<Locked>,
    from: SourceOrigin,
    rebuild: Rebuild,
    signer: Option<&dyn Signer>,
) -> Result<Built> {
    check_root(session, plan)?;
    let limit = clean::limit(std::env::var_os(clean::MAX_GIB))?;
    let text =
        plan.print() + &signer.map_or_else(String::new, |signer| signature(signer.certificate()));
    std::fs::write(out.path(PLAN), text).at("write", &out.path(PLAN))?;
    let store = session.store()?;
    let (carried, carried_steps) = carried(session, plan, &from, &rebuild, signer)?.unzip();
    let (project, report, jobs) = (session.root(), session.report, session.jobs());
    let options = BuildOptions {
        project,
        store: &store,
        report,
        origin: from,
        rebuild,
        jobs,
        signer,
        carried,
    };
    let built = pipeline::build(&options, plan, out)?;
    clean::daily(session, &store, limit)?;
    let Some((installs, carried_steps)) = plan.installs.as_ref().zip(carried_steps) else {
        return Ok(built);
    };
    Ok(Built { steps: built.steps.with(&installs.recipe, carried_steps), ..built })
}

/// Refuses a file as root of trust that is none: a node with it would never update itself.
fn check_root(session: &Session, plan: &Plan<Locked>) -> Result<()> {
    let Some(updates) = &plan.updates else { return Ok(()) };
    let hint = "`cargo osbuild keys new NAME` makes one: keys/NAME/root.json";
    let path = session.root().join(&updates.root);
    let bytes = std::fs::read(&path).at("read", &path).map_err(|error| error.hint(hint))?;
    let refused = |error: Error| {
        Error::usage(format!("`{}` is no root of trust", updates.root))
            .cause(error.problems[0].causes.join(": "))
            .hint(hint)
    };
    Root::parse(&bytes).map(drop).map_err(refused)
}

/// Builds what an installer carries, if this is one, and says how its steps came to their results.
/// Whoever signs the installer signs that too.
fn carried(
    session: &Session,
    plan: &Plan<Locked>,
    from: &SourceOrigin,
    rebuild: &Rebuild,
    signer: Option<&dyn Signer>,
) -> Result<Option<(Carried, Steps)>> {
    let Some(installs) = &plan.installs else { return Ok(None) };
    let recipe = &installs.recipe;
    session.report.note(format!("`{}` carries `{recipe}`, which is built first", plan.recipe));
    let mut target = session.locked(recipe)?;
    target.product.signing = plan.signing.as_ref().map(|signing| Signing::with(&signing.key));
    let out = Out::open(session.root(), recipe)?;
    // Words that name steps name those of the installer.
    let rebuild =
        if *rebuild == Rebuild::Everything { Rebuild::Everything } else { Rebuild::Nothing };
    if rebuild == Rebuild::Everything {
        out.begin()?;
    }
    let built = image(session, &target, from.clone(), rebuild, signer)?;
    let image = Format::RawZst.of_image(&session.store()?, session.report, &out)?;
    let certificate = signer.map(|signer| signer.certificate().pem().into_bytes());
    Ok(Some((Carried { image, certificate }, built.steps)))
}

/// What `plan.toml` says of the certificate, in its last section.
fn signature(certificate: &Certificate) -> String {
    let until = Date::from_unix(certificate.not_after());
    format!(
        "signer = {:?}\ncertificate = \"sha256:{}\"\nuntil = {until}\n",
        certificate.name(),
        certificate.fingerprint()
    )
}

/// `osbuild run`
pub fn run(session: &Session, flags: &cli::Run) -> Result<()> {
    let plan = session.locked_for(&flags.recipe, &flags.signing)?;
    let qemu = machine(&plan, flags)?;
    disk_holds_image(&plan, flags)?;
    let forwards =
        flags.forward.iter().map(|forward| forward.parse()).collect::<Result<Vec<_>>>()?;
    flags.firmware.as_deref().map(Firmware::named).transpose()?;
    let wants_firmware = flags.firmware.is_none() && !flags.download_firmware;
    let from = session.from(flags.sources.clone())?;
    session.need(&[for_build(&from), host::for_run(plan.architecture, wants_firmware)].concat())?;
    let signer =
        plan.signing.as_ref().map(|signing| keys::signer(session, &signing.key)).transpose()?;
    let built = image(
        session,
        &plan,
        from,
        Rebuild::Nothing,
        signer.as_ref().map(|signer| signer as &dyn Signer),
    )?;
    let (store, out) = (session.store()?, Out::open(session.root(), &plan.recipe)?);
    let until = if flags.until == Some(cli::Until::Ready) { Until::Ready } else { Until::PowerOff };
    let options = RunOptions {
        image: built.image,
        architecture: plan.architecture,
        qemu,
        sector_size: plan.board.sector_size,
        firmware: flags.firmware.clone(),
        download: if flags.download_firmware {
            Download::Into(store.state("firmware")?)
        } else {
            Download::Refused
        },
        disk_size_mib: flags.disk_size,
        keep: flags.keep.then(|| out.path("disk.raw")),
        record: None,
        forwards,
        network: match flags.network {
            cli::Network::Both => Network::Both,
            cli::Network::Ipv4 => Network::Ipv4,
            cli::Network::Ipv6 => Network::Ipv6,
        },
        hostname: flags.hostname.clone(),
        watchdog: plan.board.watchdog_s > 0,
        arguments: Vec::new(),
        until,
        secure_boot: secure_boot(session, &plan, flags)?,
        timeout: (until == Until::Ready).then(|| Duration::from_secs(flags.timeout)),
        show_console: !session.common.quiet,
        log: out.logs().join("console.log"),
        cache: store.state("run")?,
    };
    let boot = crate::ship::run::run(session.report, &options)?;
    if session.common.json {
        session.report.data(boot.json().to_string());
    }
    Ok(())
}

/// Said before an image is built that would not fit the disk.
fn disk_holds_image(plan: &Plan<Locked>, flags: &cli::Run) -> Result<()> {
    let least = plan.board.image_size_mib();
    match flags.disk_size {
        Some(size) if size < least => Err(Error::usage(format!(
            "a disk of {size} MiB is too small for the image of `{}`",
            plan.recipe
        ))
        .hint(format!("at least `--disk-size {least}`"))),
        _ => Ok(()),
    }
}

/// What the firmware is to start.
fn secure_boot(session: &Session, plan: &Plan<Locked>, flags: &cli::Run) -> Result<SecureBoot> {
    match flags.trust.as_ref().or(plan.signing.as_ref().map(|signing| &signing.key)) {
        _ if flags.setup_mode => Ok(SecureBoot::Setup),
        Some(name) if !flags.insecure => Ok(SecureBoot::enforced(session.keys(name)?.trust()?)),
        _ => Ok(SecureBoot::Off),
    }
}

/// The board's machine, with what the user wants otherwise.
fn machine(plan: &Plan<Locked>, flags: &cli::Run) -> Result<Qemu> {
    let board = &plan.board.name;
    let qemu = plan.board.qemu.clone().ok_or_else(|| {
        Error::usage(format!("QEMU cannot stand in for board `{board}`"))
            .hint(format!("give `boards/{board}.toml` a `[qemu]` section"))
    })?;
    Ok(Qemu {
        memory_mib: flags.memory.unwrap_or(qemu.memory_mib),
        cpus: flags.cpus.unwrap_or(qemu.cpus),
        bus: flags.bus.unwrap_or(qemu.bus),
        ..qemu
    })
}
