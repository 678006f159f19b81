//! Builds images for the verbs that need one.

use super::{Session, clean, keys};
use crate::engine::executor::{Rebuild, Steps};
use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use crate::host::{self, Tool};
use crate::pipeline;
use crate::plan::{Date, Locked, Plan, Signing};
use crate::produce::build::{BuildOptions, Carried};
use crate::produce::copy::Format;
use crate::produce::fetch::SourceOrigin;
use crate::produce::out::Built;
use crate::produce::out::{Out, PLAN, REBUILT};
use crate::produce::sign::Signer;
use crate::ship::tuf::Root;
use osbuild_signatures::certificate::Certificate;
use std::path::PathBuf;

/// The keys of a build, and their signer.
#[derive(Clone, Copy)]
pub struct SignWith<'a> {
    pub keys: &'a Signing,
    pub signer: &'a dyn Signer,
}

/// The tools that a build needs on this machine. Exported sources need no clients.
pub fn tools(from: &SourceOrigin) -> Vec<Tool> {
    let fetching =
        if matches!(from, SourceOrigin::Registries) { host::for_sources() } else { Vec::new() };
    [host::for_steps(), fetching].concat()
}

/// Rebuilds a recipe unsigned, in a separate folder, for comparison. [`Rebuild::Everything`]
/// ignores cached results.
pub fn unsigned(
    session: &Session,
    recipe: &str,
    sources: Option<PathBuf>,
    rebuild: Rebuild,
) -> Result<Built> {
    let plan = session.locked(recipe)?;
    let from = session.from(sources)?;
    session.need(&tools(&from))?;
    let out = Out::open(session.root(), &format!("{recipe}/{REBUILT}"))?;
    if rebuild == Rebuild::Everything {
        out.begin()?;
    }
    into_folder(&out, session, &plan, from, rebuild, None)
}

/// Checks the required tools, then builds a locked plan, signed with these keys. `sources` is a
/// folder of exported sources.
pub fn build(
    session: &Session,
    plan: &Plan<Locked>,
    signing: Option<&Signing>,
    sources: Option<PathBuf>,
) -> Result<Built> {
    let from = session.from(sources)?;
    session.need(&tools(&from))?;
    signed(session, plan, signing, from, Rebuild::Nothing)
}

/// Builds a locked plan into its folder in `out/`, signed with these keys.
pub fn signed(
    session: &Session,
    plan: &Plan<Locked>,
    signing: Option<&Signing>,
    from: SourceOrigin,
    rebuild: Rebuild,
) -> Result<Built> {
    let Some(keys) = signing else { return with_signer(session, plan, from, rebuild, None) };
    let signer = &keys::signer(session, &keys.key)?;
    with_signer(session, plan, from, rebuild, Some(SignWith { keys, signer }))
}

/// Builds a locked plan into its folder in `out/`, with any signer, or unsigned.
pub fn with_signer(
    session: &Session,
    plan: &Plan<Locked>,
    from: SourceOrigin,
    rebuild: Rebuild,
    sign: Option<SignWith<'_>>,
) -> Result<Built> {
    into_folder(&Out::open(session.root(), &plan.recipe)?, session, plan, from, rebuild, sign)
}

fn into_folder(
    out: &Out,
    session: &Session,
    plan: &Plan<Locked>,
    from: SourceOrigin,
    rebuild: Rebuild,
    sign: Option<SignWith<'_>>,
) -> Result<Built> {
    check_root(session, plan)?;
    let limit = clean::limit(std::env::var_os(clean::MAX_GIB))?;
    let signer = sign.map(|sign| sign.signer);
    let text = plan.print_signed(sign.map(|sign| sign.keys))
        + &signer.map_or_else(String::new, |signer| signature(signer.certificate()));
    std::fs::write(out.path(PLAN), text).at("write", &out.path(PLAN))?;
    let store = session.store()?;
    let (carried, carried_steps) = carried(session, plan, &from, &rebuild, sign)?.unzip();
    let options = BuildOptions { signer, carried, ..session.build_options(&store, from, rebuild)? };
    let built = pipeline::build(&options, plan, out)?;
    clean::daily(session, &store, limit)?;
    let Some((installs, carried_steps)) = plan.installs.as_ref().zip(carried_steps) else {
        return Ok(built);
    };
    Ok(Built { steps: built.steps.with(&installs.recipe, carried_steps), ..built })
}

/// Refuses an invalid root of trust, with which a node could never update itself.
fn check_root(session: &Session, plan: &Plan<Locked>) -> Result<()> {
    let Some(updates) = &plan.updates else { return Ok(()) };
    let hint = "`cargo osbuild keys new NAME` makes one: keys/NAME/root.json";
    let path = session.root().join(&updates.root);
    let bytes = std::fs::read(&path).at("read", &path).map_err(|error| error.hint(hint))?;
    let refused = |error: Error| {
        Error::usage(format!("`{}` is not a valid root of trust", updates.root))
            .cause(error.problems[0].causes.join(": "))
            .hint(hint)
    };
    Root::parse(&bytes).map(drop).map_err(refused)
}

/// For an installer: builds the image that it carries, with the installer's signer. Returns its
/// steps too.
fn carried(
    session: &Session,
    plan: &Plan<Locked>,
    from: &SourceOrigin,
    rebuild: &Rebuild,
    sign: Option<SignWith<'_>>,
) -> Result<Option<(Carried, Steps)>> {
    let Some(installs) = &plan.installs else { return Ok(None) };
    let recipe = &installs.recipe;
    session.report.note(format!("`{}` contains `{recipe}`, which is built first", plan.recipe));
    let target = session.locked(recipe)?;
    let out = Out::open(session.root(), recipe)?;
    // `--rebuild STEP` names steps of the installer.
    let rebuild =
        if *rebuild == Rebuild::Everything { Rebuild::Everything } else { Rebuild::Nothing };
    if rebuild == Rebuild::Everything {
        out.begin()?;
    }
    let keys = sign.map(|sign| Signing::with(&sign.keys.key));
    let sign = keys.as_ref().zip(sign).map(|(keys, sign)| SignWith { keys, ..sign });
    let built = with_signer(session, &target, from.clone(), rebuild, sign)?;
    let image = Format::RawZst.of_image(&session.store()?, session.report, &out)?;
    let certificate = sign.map(|sign| sign.signer.certificate().pem().into_bytes());
    Ok(Some((Carried { image, certificate }, built.steps)))
}

/// The lines about the certificate in the last section of `plan.toml`.
fn signature(certificate: &Certificate) -> String {
    let until = Date::from_unix(certificate.not_after());
    format!(
        "signer = {:?}\ncertificate = \"sha256:{}\"\nuntil = {until}\n",
        certificate.name(),
        certificate.fingerprint()
    )
}
