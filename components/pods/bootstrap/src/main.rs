//! The `bootstrap` pod. `bootstrap [--fw-cfg FOLDER] [--imds URL]… [--vendor FILE] [--document
//! FOLDER] [--socket PATH]` asks the named sources in this order, places the document of the first
//! one that has any on DATA, and has `init` start the kubelet with it. It prints a line for each
//! event on stderr, and then only waits: a pod that ends would not run at the next boot.

use bootstrap::decision::{Decision, Found};
use bootstrap::instance::Instance;
use bootstrap::place::settle;
use bootstrap::{Given, fw_cfg, imds, user_data};
use osbuild_abi::paths;
use osbuild_document::Document;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_protocol::{BootstrapReport, Client, Request};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

const USAGE: &str = "usage: bootstrap [--fw-cfg FOLDER] [--imds URL]... [--vendor FILE] \
                     [--document FOLDER] [--socket PATH]";

/// The pause after the first failure. Each further failure doubles it, up to the maximum.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(30);
/// How long `init` may take to print a line.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long `init` may take to restart the kubelet.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The kernel's file with the vendor of the machine.
const VENDOR: &str = "/sys/class/dmi/id/sys_vendor";

/// The command line.
struct Settings {
    fw_cfg: Option<PathBuf>,
    imds: Vec<String>,
    vendor: PathBuf,
    document: PathBuf,
    socket: PathBuf,
}

fn main() -> ExitCode {
    let Some(settings) = Settings::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match settings.until_done(|| find(&settings)) {
        Some(Ok(found)) => place(&settings, &found),
        Some(Err(failure)) => {
            settings.say(&format!("refused: {failure}; the node goes on with what it has"));
        }
        None => settings.say("no source has a document"),
    }
    loop {
        std::thread::park();
    }
}

impl Settings {
    fn parse(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let document = Path::new(paths::NODE_DOCUMENT).parent()?.to_owned();
        let (vendor, socket) = (VENDOR.into(), paths::BOOTSTRAP_SOCKET.into());
        let mut settings = Settings { fw_cfg: None, imds: Vec::new(), vendor, document, socket };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--fw-cfg" => settings.fw_cfg = Some(words.next()?.into()),
                "--imds" => settings.imds.push(words.next()?),
                "--vendor" => settings.vendor = words.next()?.into(),
                "--document" => settings.document = words.next()?.into(),
                "--socket" => settings.socket = words.next()?.into(),
                _ => return None,
            }
        }
        Some(settings)
    }

    /// Prints a line on stderr, and on the console of the node.
    fn say(&self, text: &str) {
        eprintln!("{text}");
        let request = Request::Bootstrap(BootstrapReport::new(text));
        let sent = Client::connect(&self.socket, REPORT_TIMEOUT)
            .and_then(|mut init| init.send(&request))
            .explain("have init print that");
        if let Err(failure) = sent {
            eprintln!("error: {failure}");
        }
    }

    /// Repeats an operation until it succeeds. Prints each new failure once.
    fn until_done<T>(&self, mut operation: impl FnMut() -> Outcome<T>) -> T {
        let (mut retry, mut last) = (FIRST_RETRY, None::<Failure>);
        loop {
            match operation() {
                Ok(done) => return done,
                Err(failure) => {
                    if last.as_ref() != Some(&failure) {
                        self.say(&format!("error: {failure}; tries again"));
                    }
                    last = Some(failure);
                    sleep(retry);
                    retry = (2 * retry).min(MAX_RETRY);
                }
            }
        }
    }
}

/// The document of the first source that has any, or the reason why that is refused.
fn find(settings: &Settings) -> Outcome<Option<Outcome<Found>>> {
    if let Some(folder) = &settings.fw_cfg
        && let Some(given) = fw_cfg::ask(folder)?
    {
        return Ok(Some(read(settings, "QEMU's fw_cfg", given)));
    }
    if settings.imds.is_empty() {
        return Ok(None);
    }
    if !imds::is_here(&settings.vendor) {
        settings.say("this machine is no EC2 instance");
        return Ok(None);
    }
    Ok(imds::ask(&settings.imds)?.map(|given| read(settings, "EC2's user data", given)))
}

/// Decodes and checks a document. `source` names where it comes from.
fn read(settings: &Settings, source: &str, given: Given) -> Outcome<Found> {
    let Given { instance, bytes } = given;
    let what = || format!("{source} of the instance `{instance}`");
    let text = user_data::decode(&bytes).explain(what())?;
    Document::parse(&text).explain(what())?;
    settings.say(&format!("{} has a node document", what()));
    Ok(Found { instance, text })
}

/// Places the document, and has `init` apply it. An operation that fails is repeated.
fn place(settings: &Settings, found: &Found) {
    let decision = settings.until_done(|| settle(&settings.document, found));
    settings.say(&outcome(decision, &found.instance));
    if matches!(decision, Decision::Place | Decision::Record) {
        settings.until_done(|| {
            Client::connect(&settings.socket, TIMEOUT)
                .and_then(|mut init| init.send(&Request::RestartKubelet))
                .explain("have init restart the kubelet")
        });
        settings.say("the node uses it");
    }
}

fn outcome(decision: Decision, instance: &Instance) -> String {
    let document = paths::NODE_DOCUMENT;
    match decision {
        Decision::Place => format!("placed as {document}"),
        Decision::Record => format!("{document} is the same already"),
        Decision::Keep => format!("{document} is that of the instance `{instance}`"),
        Decision::Changed => {
            format!("{document} stays: the instance `{instance}` had another document at first")
        }
        Decision::Removed => format!("{document} was removed on the node, and stays so"),
        Decision::Owners => format!("{document} stays: the node's owner has written it"),
    }
}
