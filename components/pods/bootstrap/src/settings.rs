//! The command line, the console, and the repetition of operations that may succeed later.

use bootstrap::clouds::Service;
use bootstrap::dmi;
use osbuild_abi::paths;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_protocol::{Client, ReportText, Request};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// The pause after the first failure. Each further failure doubles it, up to the maximum.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const MAX_RETRY: Duration = Duration::from_secs(30);
/// How long `init` may take to print a line.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// The command line.
pub struct Settings {
    /// QEMU's folder.
    pub fw_cfg: Option<PathBuf>,
    /// The folder that says which documents on volumes count.
    pub volumes: Option<PathBuf>,
    /// The URLs of EC2's service.
    pub imds: Vec<String>,
    /// The services of other clouds.
    pub clouds: Vec<Service>,
    /// The kernel's folder with what the firmware says about the machine.
    pub dmi: PathBuf,
    /// The folder of the node document.
    pub document: PathBuf,
    /// The socket of `init`.
    pub socket: PathBuf,
}

impl Settings {
    /// Reads the command line; none if it is malformed.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Option<Self> {
        let mut settings = Settings {
            fw_cfg: None,
            volumes: None,
            imds: Vec::new(),
            clouds: Vec::new(),
            dmi: dmi::FOLDER.into(),
            document: Path::new(paths::NODE_DOCUMENT).parent()?.to_owned(),
            socket: paths::BOOTSTRAP_SOCKET.into(),
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--fw-cfg" => settings.fw_cfg = Some(words.next()?.into()),
                "--volumes" => settings.volumes = Some(words.next()?.into()),
                "--imds" => settings.imds.push(words.next()?),
                "--cloud" => settings.clouds.push(Service::parse(&words.next()?)?),
                "--dmi" => settings.dmi = words.next()?.into(),
                "--document" => settings.document = words.next()?.into(),
                "--socket" => settings.socket = words.next()?.into(),
                _ => return None,
            }
        }
        // The order of the command line does not matter.
        settings.clouds.sort_by_key(|service| {
            bootstrap::clouds::CLOUDS.iter().position(|cloud| cloud.name == service.cloud.name)
        });
        Some(settings)
    }

    /// Prints a line on stderr, and on the console of the node.
    pub fn say(&self, text: &str) {
        eprintln!("{text}");
        let request = Request::Bootstrap(ReportText::new(text));
        let sent = Client::connect(&self.socket, REPORT_TIMEOUT)
            .and_then(|mut init| init.send(&request))
            .explain("have init print that");
        if let Err(failure) = sent {
            eprintln!("error: {failure}");
        }
    }

    /// Repeats an operation until it succeeds. Prints each new failure once.
    pub fn until_done<T>(&self, mut operation: impl FnMut() -> Outcome<T>) -> T {
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
