//! Builds images for the verbs that need one.

use super::{Session, clean, keys};
use crate::engine::executor::{Rebuild, Steps};
use crate::engine::fs_error::IoContext;
use crate::engine::store::Store;
use crate::error::{Error, Result};
use crate::host::{self, Tool};
use crate::pipeline::{self, Order};
use crate::plan::{Date, Installs, Locked, Plan, Signing, Volumes};
use crate::produce::build::{BuildOptions, Carried};
use crate::produce::copy::Format;
use crate::produce::fetch::SourceOrigin;
use crate::produce::out::{Built, Out, REBUILT};
use crate::produce::sign::Signer;
use crate::ship::tuf::Root;
use osbuild_document::Certificates;
use osbuild_signatures::certificate::Certificate;
use std::collections::BTreeMap;
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
        out.forget()?;
    }
    into_folder(session, Wanted { plan: &plan, out, sign: None }, from, rebuild)
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

/// Builds several locked plans, each with the keys that sign its image, into their folders in
/// `out/`. A step that several of them have runs once.
pub fn all(
    session: &Session,
    plans: &[(Plan<Locked>, Option<Signing>)],
    from: SourceOrigin,
    rebuild: Rebuild,
) -> Result<Vec<Built>> {
    let mut signers = BTreeMap::new();
    for keys in plans.iter().filter_map(|(_, signing)| signing.as_ref()) {
        if !signers.contains_key(&keys.key) {
            signers.insert(keys.key.clone(), keys::signer(session, &keys.key)?);
        }
    }
    let wanted = plans.iter().map(|(plan, keys)| {
        let out = Out::open(session.root(), &plan.recipe)?;
        let sign = keys.as_ref().map(|keys| SignWith { keys, signer: &signers[&keys.key] });
        Ok(Wanted { plan, out, sign })
    });
    into_folders(session, wanted.collect::<Result<_>>()?, from, rebuild)
}

/// Builds a locked plan into its folder in `out/`, with any signer, or unsigned.
pub fn with_signer(
    session: &Session,
    plan: &Plan<Locked>,
    from: SourceOrigin,
    rebuild: Rebuild,
    sign: Option<SignWith<'_>>,
) -> Result<Built> {
    let out = Out::open(session.root(), &plan.recipe)?;
    into_folder(session, Wanted { plan, out, sign }, from, rebuild)
}

/// An image to build: its plan, its folder and its signer.
struct Wanted<'a> {
    plan: &'a Plan<Locked>,
    out: Out,
    sign: Option<SignWith<'a>>,
}

fn into_folder(
    session: &Session,
    wanted: Wanted<'_>,
    from: SourceOrigin,
    rebuild: Rebuild,
) -> Result<Built> {
    let built = into_folders(session, vec![wanted], from, rebuild)?;
    Ok(built.into_iter().next().expect("each plan gives an image"))
}

fn into_folders(
    session: &Session,
    wanted: Vec<Wanted<'_>>,
    from: SourceOrigin,
    rebuild: Rebuild,
) -> Result<Vec<Built>> {
    wanted.iter().try_for_each(|one| check_root(session, one.plan))?;
    wanted.iter().try_for_each(|one| check_clients(session, one.plan))?;
    let limit = clean::limit(std::env::var_os(clean::MAX_GIB))?;
    let store = session.store()?;
    let (mut orders, mut carried_steps) = (Vec::new(), Vec::new());
    for Wanted { plan, out, sign } in wanted {
        let out = out.with_plan(describe(plan, sign));
        let (carried, steps) = carried(session, &store, plan, &from, &rebuild, sign)?.unzip();
        let options = session.build_options(&store, from.clone(), rebuild.clone())?;
        let signer = sign.map(|sign| sign.signer);
        orders.push(Order { options: BuildOptions { signer, carried, ..options }, plan, out });
        carried_steps.push(plan.installs.as_ref().zip(steps));
    }
    let built = pipeline::build(&orders)?;
    clean::daily(session, &store, limit)?;
    let with_carried = |(mut built, carried): (Built, Option<(&Installs, Steps)>)| {
        if let Some((installs, steps)) = carried {
            built.steps = built.steps.with(&installs.recipe, steps);
        }
        built
    };
    Ok(built.into_iter().zip(carried_steps).map(with_carried).collect())
}

/// The plan of a build, with the keys and the certificate that sign it.
fn describe(plan: &Plan<Locked>, sign: Option<SignWith<'_>>) -> String {
    let certificate = sign.map(|sign| signature(sign.signer.certificate()));
    plan.print_signed(sign.map(|sign| sign.keys)) + &certificate.unwrap_or_default()
}

/// Refuses an invalid root of trust, with which a node could never update itself or accept a
/// document.
fn check_root(session: &Session, plan: &Plan<Locked>) -> Result<()> {
    let hint = "`cargo osbuild keys new NAME` makes one: keys/NAME/root.json";
    let of_volumes = match &plan.volumes {
        Some(Volumes::Signed(root)) => Some(root),
        Some(Volumes::Unsigned) | None => None,
    };
    for root in plan.updates.iter().map(|updates| &updates.root).chain(of_volumes) {
        let path = session.root().join(root);
        let bytes = std::fs::read(&path).at("read", &path).map_err(|error| error.hint(hint))?;
        let refused = |error: Error| {
            Error::usage(format!("`{root}` is not a valid root of trust"))
                .cause(error.problems[0].causes.join(": "))
                .hint(hint)
        };
        Root::parse(&bytes).map(drop).map_err(refused)?;
    }
    Ok(())
}

/// Refuses a file of the CAs of clients that has a key, which everybody could read in the image, no
/// certificate, or a damaged one: a node would then serve nobody unless its document names CAs.
fn check_clients(session: &Session, plan: &Plan<Locked>) -> Result<()> {
    let Some(name) = plan.api.as_ref().and_then(|api| api.clients.as_ref()) else { return Ok(()) };
    let hint = "`[api] clients` names the certificates of CAs: keys/NAME/api.crt, which `cargo \
                osbuild keys new NAME` makes";
    let path = session.root().join(name);
    let text = std::fs::read(&path).at("read", &path).map_err(|error| error.hint(hint))?;
    let text = String::from_utf8_lossy(&text);
    let mut labels = text.lines().filter_map(|line| line.trim().strip_prefix("-----BEGIN "));
    let cause = match labels.find(|label| *label != "CERTIFICATE-----") {
        Some(label) => format!("it has a block `{}`", label.trim_end_matches('-')),
        None => match Certificates::from_pem(&text) {
            Ok(_) => return Ok(()),
            Err(reason) => reason.to_owned(),
        },
    };
    Err(Error::usage(format!("`{name}` is no file of certificates alone")).cause(cause).hint(hint))
}

/// For an installer: builds the image that it carries, with the installer's signer. Returns its
/// steps too.
fn carried(
    session: &Session,
    store: &Store,
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
        out.forget()?;
    }
    let keys = sign.map(|sign| Signing::with(&sign.keys.key));
    let sign = keys.as_ref().zip(sign).map(|(keys, sign)| SignWith { keys, ..sign });
    let built = with_signer(session, &target, from.clone(), rebuild, sign)?;
    // By its digest: another installer may carry the same recipe's image with another signature.
    let image = store.put_file(&Format::RawZst.of_image(session.report, &built)?)?;
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
