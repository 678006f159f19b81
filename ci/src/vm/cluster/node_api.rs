//! `osctl`, as the administrator of a node runs it.

use super::wait::{Seen, wait};
use crate::site::{Ran, Site};
use crate::state_api;
use crate::vm::node::NodeUnderTest;
use osbuild::error::{Context, Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long the pod of the API may take to start, in an emulated machine.
const TIMEOUT: Duration = Duration::from_secs(240);

/// `osctl` with the administrator's certificate for one node.
pub struct NodeApi<'a> {
    site: &'a Site<'a>,
    program: PathBuf,
    /// The certificate of the administrator.
    certificate: PathBuf,
    /// Where it keeps its nodes, and where documents are written.
    folder: PathBuf,
}

impl<'a> NodeApi<'a> {
    /// A client with the keys of a copy of the checkout, which keeps its files in `folder`.
    pub fn new(site: &'a Site<'a>, project: &Path, folder: PathBuf) -> Result<Self> {
        let [_, program] = state_api::programs(site)?;
        let certificate = project.join("keys/dev/admin.pem");
        Ok(NodeApi { site, program, certificate, folder })
    }

    /// Adds the node, at this port of the loopback, once it serves its API. Returns its
    /// fingerprint.
    pub fn add_node(&self, port: u16, running: &mut NodeUnderTest) -> Result<String> {
        let (address, certificate) =
            (format!("127.0.0.1:{port}"), self.certificate.display().to_string());
        let add = ["node", "add", "vm", &address, "--certificate", &certificate];
        let found = wait(TIMEOUT, || {
            running.is_running()?;
            let unknown = self.run(&add)?.output;
            let found = unknown.split_whitespace().find(|word| word.starts_with("sha256:"));
            Ok(found.map_or(Seen::NotYet(unknown.clone()), |found| Seen::Yes(found.to_owned())))
        })?;
        let found = found.map_err(|why| Error::build("osctl shows no fingerprint").cause(why))?;
        running.wait_until_printed(&format!("serves the node API as {found}"))?;
        self.finish(&[&add[..], &["--fingerprint", &found]].concat())?;
        Ok(found)
    }

    /// Applies documents with further arguments. Returns what it prints.
    pub fn apply(&self, name: &str, documents: &str, words: &[&str]) -> Result<String> {
        let file = self.folder.join(name);
        fs::create_dir_all(&self.folder)
            .and_then(|()| fs::write(&file, documents))
            .or_build(|| format!("cannot write `{name}`"))?;
        let file = file.display().to_string();
        self.finish(&[&["apply", "-f", &file], words].concat())
    }

    /// The output of an `osctl` that succeeds.
    pub fn finish(&self, words: &[&str]) -> Result<String> {
        Ok(self.site.finish("node-api", &mut self.command(words))?.output)
    }

    /// Its output and its exit code.
    pub fn run(&self, words: &[&str]) -> Result<Ran> {
        self.site.run("node-api", &mut self.command(words))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.env("XDG_CONFIG_HOME", self.folder.join("osctl"));
        command.env_remove("OSCTL_NODE").env_remove("OSCTL_TOKEN_FILE").args(words);
        command
    }
}
