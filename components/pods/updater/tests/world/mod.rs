//! A repository made with `tough`'s own editor, a server on the loopback, and a stand-in for
//! `init`.

#![allow(dead_code, unused_imports, reason = "each test program uses a part of it")]

mod api_server;
mod init;
mod keys;
mod repository;
mod server;
mod web;

pub use api_server::ApiServer;
pub use init::Init;
pub use keys::{Certified, Keys};
pub use repository::{Release, Repository, uki};
pub use server::{Fault, Server};
pub use web::Web;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use osbuild_abi::update::Settings as Lines;
use osbuild_failure::Outcome;
use osbuild_release::Channel;
use tempfile::TempDir;
use updater::check::{CheckOutcome, Updater, check};
use updater::cluster_files::ClusterFiles;
use updater::firmware::Firmware;
use updater::pace::Pace;
use updater::report::Reporter;
use updater::settings::Settings;

/// The recipe of all releases.
pub const RECIPE: &str = "node";

/// The identity of the machine.
const MACHINE_ID: &str = "0123456789abcdef0123456789abcdef";

/// A node with its repository.
pub struct World {
    folder: TempDir,
    pub keys: Keys,
    pub init: Init,
    root: Vec<u8>,
    pace: Pace,
}

impl World {
    /// A node whose good slot runs version 1.
    pub fn new() -> World {
        World::with_slot_size(1 << 20)
    }

    /// The same, with slots of `size` bytes.
    pub fn with_slot_size(size: u64) -> World {
        let folder = tempfile::tempdir().unwrap();
        for name in ["seen", "firmware"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let keys = Keys::new(&folder.path().join("keys"));
        let init = Init::start(&folder.path().join("socket"), size);
        fs::write(folder.path().join("machine-id"), format!("{MACHINE_ID}\n")).unwrap();
        let root = keys.roots().next().unwrap().to_vec();
        // Short enough for tests, and slow enough for an honest server on the loopback.
        World {
            folder,
            keys,
            init,
            root,
            pace: Pace { grace: Duration::from_secs(2), bytes_per_s: 1 << 20 },
        }
    }

    /// An empty folder for a repository.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The folder of the firmware's variables.
    pub fn firmware(&self) -> PathBuf {
        self.folder("firmware")
    }

    /// Publishes the release in a folder named after its version, with metadata of that version.
    pub fn publish(&self, release: &Release) -> PathBuf {
        self.publish_by(&self.keys, release)
    }

    /// The same, signed with other keys.
    pub fn publish_by(&self, keys: &Keys, release: &Release) -> PathBuf {
        let folder = self.folder(&format!("repository-{}", release.version));
        Repository::of(&folder, keys).write(release);
        folder
    }

    /// Has the node check a server with this fault, which serves a folder.
    pub fn check_server(&self, folder: &Path, fault: Fault) -> Outcome<CheckOutcome> {
        let server = Server::start(folder, fault);
        self.check(&server.url())
    }

    /// Runs the program itself against the repository at this address, trusting the certificates of
    /// a folder. Returns the first line that it prints about the check.
    pub fn run(&self, url: &str, certificates: &Path) -> String {
        self.run_with(url, certificates, |_, lines| lines == 1)
    }

    /// The same without certificates. Returns the first line for which `is_last` is true, which
    /// gets the number of the line, from 0, too; the first one is about the channel.
    pub fn run_until(&self, url: &str, is_last: impl Fn(&str, usize) -> bool) -> String {
        self.run_with(url, &self.folder("missing"), is_last)
    }

    fn run_with(
        &self,
        url: &str,
        certificates: &Path,
        is_last: impl Fn(&str, usize) -> bool,
    ) -> String {
        let settings = Lines {
            url,
            channel: "stable",
            recipe: RECIPE,
            interval_s: 3600,
            waits_for_grant: true,
            security_epoch: 2,
        };
        fs::write(self.folder("settings"), settings.to_string()).unwrap();
        fs::write(self.folder("root.json"), &self.root).unwrap();
        let mut updater = Command::new(env!("CARGO_BIN_EXE_updater"));
        for (flag, name) in [
            ("--settings", "settings"),
            ("--root", "root.json"),
            ("--socket", "socket"),
            ("--seen", "seen"),
            ("--firmware", "firmware"),
            ("--kubeconfig", "kubelet.conf"),
            ("--machine-id", "machine-id"),
            ("--proxy", "environment"),
        ] {
            updater.arg(flag).arg(self.folder(name));
        }
        let mut updater =
            updater.env("SSL_CERT_DIR", certificates).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(updater.stderr.take().unwrap()).lines().map_while(Result::ok);
        let last = lines.enumerate().find(|(number, line)| is_last(line, *number));
        updater.kill().and_then(|()| updater.wait()).unwrap();
        last.unwrap().1
    }

    /// Has the node check a repository at this address.
    pub fn check(&self, url: &str) -> Outcome<CheckOutcome> {
        let updater = self.updater(url);
        self.wait(check(&updater))
    }

    /// Waits for what the node does.
    pub fn wait<T>(&self, does: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(does)
    }

    /// Puts the node into the cluster with the API server at this URL.
    pub fn joins(&self, server: &str) {
        let server = format!("{{name: c, cluster: {{server: '{server}'}}}}");
        let config = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{server}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\n"
        );
        fs::write(self.folder("kubelet.conf"), config).unwrap();
    }

    /// The node's updater, which follows the repository at this address.
    pub fn updater(&self, url: &str) -> Updater {
        let settings = Settings {
            url: url.parse().unwrap(),
            channel: Channel::Stable,
            recipe: RECIPE.to_owned(),
            interval_s: 1,
            waits_for_grant: true,
            security_epoch: 2,
            root: self.root.clone(),
        };
        let (socket, seen) = (self.folder("socket"), self.folder("seen"));
        let files = |name: &str| vec![self.folder(name)];
        Updater {
            settings,
            socket,
            cluster: ClusterFiles {
                kubeconfigs: files("kubelet.conf"),
                joins: files("ca.crt"),
                certificates: files("client.pem"),
            },
            machine_id: self.folder("machine-id"),
            seen,
            firmware: Firmware::new(&self.firmware()),
            pace: self.pace,
            reporter: Reporter::new(self.folder("socket")),
            refused: Default::default(),
        }
    }
}
