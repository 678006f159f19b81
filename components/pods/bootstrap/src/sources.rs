//! The sources of the machine's document, in their order.

use crate::settings::Settings;
use bootstrap::decision::Found;
use bootstrap::dmi::Dmi;
use bootstrap::instance::Instance;
use bootstrap::trust::Trust;
use bootstrap::volume::{self, OnVolume};
use bootstrap::{Given, fw_cfg, imds, place, user_data};
use osbuild_document::Document;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_protocol::{Client, ClientError, RefusalCode};
use std::fs::File;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long to wait for a volume: the kernel finds a disk on USB seconds after its start.
const VOLUME_WAIT: Duration = Duration::from_secs(10);
const VOLUME_INTERVAL: Duration = Duration::from_secs(1);
/// How long `init` may take to open a volume.
const VOLUME_TIMEOUT: Duration = Duration::from_secs(150);
/// The maximum number of volumes that are read.
const MAX_VOLUMES: usize = 16;
/// The instance of a machine whose volume has no identifier that counts.
const UNNAMED: &str = "volume";

/// The answer of a source: nothing, a document, or the reason why its document is refused.
type Answer = Option<Outcome<Found>>;

/// Names the sources on the console, in their order.
pub fn announce(settings: &Settings) {
    let named = |is_asked: bool, name: &str| is_asked.then(|| name.to_owned());
    let clouds = settings.clouds.iter().map(|service| Some(service.cloud.title.to_owned()));
    let names: Vec<String> = [
        named(settings.fw_cfg.is_some(), "QEMU's fw_cfg"),
        named(settings.volumes.is_some(), "volumes (NoCloud, config drive)"),
        named(!settings.imds.is_empty(), "EC2"),
    ]
    .into_iter()
    .chain(clouds)
    .flatten()
    .collect();
    settings.say(&format!("looks for a node document in this order: {}", names.join(", ")));
}

/// The document of the first source that has any, or the reason why that is refused.
///
/// # Errors
/// A source does not answer yet.
pub fn find(settings: &Settings) -> Outcome<Answer> {
    if let Some(folder) = &settings.fw_cfg
        && let Some(given) = fw_cfg::ask(folder)?
    {
        return Ok(Some(read(settings, "QEMU's fw_cfg", given)));
    }
    if let Some(folder) = &settings.volumes {
        let trust = Trust::read(folder)?;
        let found = on_volumes(settings, &trust)?;
        if found.is_some() {
            return Ok(found);
        }
    }
    in_cloud(settings)
}

fn in_cloud(settings: &Settings) -> Outcome<Answer> {
    let dmi = Dmi::new(&settings.dmi);
    if !settings.imds.is_empty() {
        if imds::is_here(dmi) {
            let given = imds::ask(&settings.imds)?;
            return Ok(given.map(|given| read(settings, "EC2's user data", given)));
        }
        settings.say("this machine is no EC2 instance");
    }
    match settings.clouds.iter().find(|service| service.is_here(dmi)) {
        Some(service) => {
            let source = format!("{}'s user data", service.cloud.title);
            Ok(service.ask()?.map(|given| read(settings, &source, given)))
        }
        None => {
            let names: Vec<&str> =
                settings.clouds.iter().map(|service| service.cloud.title).collect();
            if !names.is_empty() {
                settings.say(&format!("the firmware names none of {}", names.join(", ")));
            }
            Ok(None)
        }
    }
}

/// Decodes and checks a document. `source` names where it comes from.
fn read(settings: &Settings, source: &str, given: Given) -> Outcome<Found> {
    let Given { instance, bytes } = given;
    let what = || format!("{source} of the instance `{instance}`");
    let text = user_data::decode(&bytes).explain(what())?;
    let here = Dmi::new(&settings.dmi).machine();
    let text = Trust::Anyone.open(&text, here.as_ref()).explain(what())?.text;
    Document::parse(&text).explain(what())?;
    settings.say(&format!("{} has a node document", what()));
    Ok(Found { instance, replaces: None, text })
}

/// The document of the machine's volumes. All that are good have to have the same one.
fn on_volumes(settings: &Settings, trust: &Trust) -> Outcome<Answer> {
    let (volumes, here) = (wait_for_volumes(settings)?, Dmi::new(&settings.dmi).machine());
    let (mut found, mut refusals) = (None::<(String, OnVolume)>, Vec::new());
    for (name, file) in volumes {
        match volume::read(file, trust, here.as_ref()) {
            Ok(None) => settings.say(&format!("the volume {name} has no user data")),
            Ok(Some(own)) => match &found {
                Some((other, document)) if *document != own => {
                    let reason = "have different documents: take one out";
                    return Ok(Some(Err(Failure::new(format!(
                        "the volumes {other} and {name} {reason}"
                    )))));
                }
                Some(_) => {}
                None => found = Some((name, own)),
            },
            Err(failure) => refusals.push(format!("the volume {name}: {failure}")),
        }
    }
    let Some((name, OnVolume { instance, replaces, text })) = found else {
        let refusal = refusals.join("; ");
        return Ok((!refusal.is_empty()).then(|| Err(Failure::new(refusal))));
    };
    refusals.iter().for_each(|refusal| settings.say(&format!("not used: {refusal}")));
    let signed = match trust {
        Trust::Anyone => "a node document, which counts unsigned, as the recipe says",
        Trust::Signers(_) => "a node document that the release key has signed",
    };
    let replacing = if replaces.is_some() { ", and which may replace another one" } else { "" };
    settings.say(&format!("the volume {name} has {signed}{replacing}"));
    // A document that is for any machine replaces none that was placed: a person with one that was
    // signed once could bring it again.
    let instance = match (instance, trust) {
        (Some(instance), _) => instance,
        (None, Trust::Signers(_)) => match place::last_instance(&settings.document)? {
            Some(instance) => instance,
            None => Instance::parse(UNNAMED)?,
        },
        (None, Trust::Anyone) => Instance::parse(UNNAMED)?,
    };
    Ok(Some(Ok(Found { instance, replaces, text })))
}

/// All volumes, once there is one; none after a while.
fn wait_for_volumes(settings: &Settings) -> Outcome<Vec<(String, File)>> {
    let end = Instant::now() + VOLUME_WAIT;
    loop {
        let volumes = match open_volumes(settings) {
            Err(ClientError::Refused(refusal)) if refusal.code == RefusalCode::NotAllowed => {
                settings.say(&format!("no volume is read: {refusal}"));
                return Ok(Vec::new());
            }
            opened => opened.explain("have init open the volumes")?,
        };
        if !volumes.is_empty() || Instant::now() > end {
            return Ok(volumes);
        }
        sleep(VOLUME_INTERVAL);
    }
}

fn open_volumes(settings: &Settings) -> Result<Vec<(String, File)>, ClientError> {
    let mut init = Client::connect(&settings.socket, VOLUME_TIMEOUT)?;
    let (mut volumes, mut after) = (Vec::new(), None);
    while volumes.len() < MAX_VOLUMES
        && let Some((device, descriptor)) = init.open_volume(after)?
    {
        volumes.push((device.to_string(), File::from(descriptor)));
        after = Some(device);
    }
    Ok(volumes)
}
