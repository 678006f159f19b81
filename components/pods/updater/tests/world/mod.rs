//! A repository that `tough`'s own editor makes, a server on the loopback, and an `init` that does
//! what the real one would.

#![allow(dead_code, reason = "each test program uses a part of it")]

mod init;
mod keys;
mod repository;
mod server;
mod web;

pub use init::Init;
pub use keys::{Certified, Keys};
pub use repository::{Release, Repository, uki};
pub use server::{Manner, Server};
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
use updater::firmware::Firmware;
use updater::look::{Look, Updater, look};
use updater::pace::Pace;
use updater::settings::Settings;

/// The recipe of all releases here.
pub const RECIPE: &str = "node";

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
        World::with_room(1 << 20)
    }

    /// The same with slots of so many bytes.
    pub fn with_room(room: u64) -> World {
        let folder = tempfile::tempdir().unwrap();
        for name in ["seen", "firmware"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let keys = Keys::new(&folder.path().join("keys"));
        let init = Init::start(&folder.path().join("socket"), room);
        let root = keys.roots().next().unwrap().to_vec();
        // Fast enough for tests, and what an honest server on the loopback does.
        World {
            folder,
            keys,
            init,
            root,
            pace: Pace { grace: Duration::from_secs(2), least: 1 << 20 },
        }
    }

    /// An empty folder for a repository.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the firmware's variables are.
    pub fn firmware(&self) -> PathBuf {
        self.folder("firmware")
    }

    /// A release of this version, published in a folder of that name, as the repository's metadata
    /// of that version.
    pub fn publish(&self, release: &Release) -> PathBuf {
        self.publish_by(&self.keys, release)
    }

    /// The same with other keys.
    pub fn publish_by(&self, keys: &Keys, release: &Release) -> PathBuf {
        let folder = self.folder(&format!("repository-{}", release.version));
        Repository::of(&folder, keys).write(release);
        folder
    }

    /// Has the node look at what a server in this manner makes of a folder.
    pub fn look_at(&self, folder: &Path, manner: Manner) -> Outcome<Look> {
        let server = Server::start(folder, manner);
        self.look(&server.url())
    }

    /// Has the program itself look at a repository at this address, trusting the certificates of a
    /// folder. Gives what it says first of that.
    pub fn run(&self, url: &str, certificates: &Path) -> String {
        let settings =
            Lines { url, channel: "stable", recipe: RECIPE, interval_s: 3600, security_epoch: 2 };
        fs::write(self.folder("settings"), settings.to_string()).unwrap();
        fs::write(self.folder("root.json"), &self.root).unwrap();
        let mut updater = Command::new(env!("CARGO_BIN_EXE_updater"));
        for (flag, name) in [
            ("--settings", "settings"),
            ("--root", "root.json"),
            ("--socket", "socket"),
            ("--seen", "seen"),
            ("--firmware", "firmware"),
        ] {
            updater.arg(flag).arg(self.folder(name));
        }
        let mut updater =
            updater.env("SSL_CERT_DIR", certificates).stderr(Stdio::piped()).spawn().unwrap();
        // The first line is what it follows.
        let said = BufReader::new(updater.stderr.take().unwrap()).lines().nth(1);
        updater.kill().and_then(|()| updater.wait()).unwrap();
        said.unwrap().unwrap()
    }

    /// Has the node look at a repository at this address.
    pub fn look(&self, url: &str) -> Outcome<Look> {
        let settings = Settings {
            url: url.parse().unwrap(),
            channel: Channel::Stable,
            recipe: RECIPE.to_owned(),
            interval_s: 1,
            security_epoch: 2,
            root: self.root.clone(),
        };
        let (socket, seen) = (self.folder("socket"), self.folder("seen"));
        let updater = Updater {
            settings,
            socket,
            seen,
            firmware: Firmware::new(&self.firmware()),
            pace: self.pace,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(look(&updater))
    }
}
