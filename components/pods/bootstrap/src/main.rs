//! The `bootstrap` pod. `bootstrap [--fw-cfg FOLDER] [--volumes FOLDER] [--imds URL]… [--cloud
//! NAME[=URL]]… [--dmi FOLDER] [--document FOLDER] [--socket PATH]` asks the named sources in this
//! order, places the document of the first one that has any on DATA, and has `init` start the
//! kubelet with it. It prints a line for each event on stderr, and then only waits: a pod that ends
//! would not run at the next boot.

mod settings;
mod sources;

use bootstrap::decision::{Decision, Found};
use bootstrap::instance::Instance;
use bootstrap::place::settle;
use osbuild_abi::paths;
use osbuild_failure::Explain;
use osbuild_protocol::{Client, Request};
use settings::Settings;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: bootstrap [--fw-cfg FOLDER] [--volumes FOLDER] [--imds URL]... \
                     [--cloud gce|azure|openstack|hetzner[=URL]]... [--dmi FOLDER] \
                     [--document FOLDER] [--socket PATH]";

/// How long `init` may take to restart the kubelet.
const TIMEOUT: Duration = Duration::from_secs(180);

fn main() -> ExitCode {
    let Some(settings) = Settings::parse(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    sources::announce(&settings);
    match settings.until_done(|| sources::find(&settings)) {
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
