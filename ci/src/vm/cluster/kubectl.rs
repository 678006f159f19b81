//! The real `kubectl`, as an administrator runs it.

use super::control_plane::ControlPlane;
use super::minor::Minor;
use super::wait::{Seen, wait};
use crate::check::Outcome;
use crate::site::{Ran, Site};
use osbuild::error::{Context, Result};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// `kubectl` with an administrator's kubeconfig.
pub struct Kubectl<'a> {
    site: &'a Site<'a>,
    program: PathBuf,
    kubeconfig: PathBuf,
    /// Where it caches the API's groups, and where manifests are written.
    folder: PathBuf,
}

/// A `kubectl` that runs until this is dropped.
pub struct Background(Child);

impl<'a> Kubectl<'a> {
    /// A client of this cluster.
    pub fn new(site: &'a Site<'a>, plane: &ControlPlane) -> Result<Self> {
        Self::of_minor(site, plane.minor(), plane.kubeconfig()?, plane.path("kubectl"))
    }

    /// A client with this kubeconfig, which runs in this folder.
    pub fn with(site: &'a Site<'a>, kubeconfig: PathBuf, folder: PathBuf) -> Result<Self> {
        Self::of_minor(site, Minor::Peg, kubeconfig, folder)
    }

    fn of_minor(
        site: &'a Site<'a>,
        minor: Minor,
        kubeconfig: PathBuf,
        folder: PathBuf,
    ) -> Result<Self> {
        fs::create_dir_all(&folder).or_build(|| "cannot make kubectl's folder".to_owned())?;
        let program = minor.bin(site).join("kubectl");
        Ok(Kubectl { site, program, kubeconfig, folder })
    }

    /// Runs it, and returns its output and its exit code.
    pub fn run(&self, words: &[&str]) -> Result<Ran> {
        self.site.run("kubectl", self.command().args(words))
    }

    /// Runs it, and returns its output.
    ///
    /// # Errors
    /// It failed.
    pub fn output(&self, words: &[&str]) -> Result<String> {
        Ok(self.site.finish("kubectl", self.command().args(words))?.output)
    }

    /// The user that the API server finds for a token. With the administrator's kubeconfig it would
    /// find the certificate in there.
    pub fn user_of_token(&self, plane: &ControlPlane, token: &str) -> Result<String> {
        let mut command = self.command();
        command.args(["--kubeconfig=/dev/null", "auth", "whoami"]);
        command.arg(format!("--token={token}")).arg("--server").arg(plane.local_server());
        command.arg("--certificate-authority").arg(plane.path("ca.crt"));
        Ok(self.site.finish("kubectl", &mut command)?.output)
    }

    /// Runs it in the background.
    pub fn start(&self, words: &[&str]) -> Result<Background> {
        self.start_with(words, Stdio::null(), Stdio::null())
    }

    /// Runs it in the background. Its output and its errors go to the file of this name.
    pub fn start_into(&self, words: &[&str], name: &str) -> Result<Background> {
        let cannot = || format!("cannot make `{name}`");
        let file = File::create(self.file(name)).or_build(cannot)?;
        let errors = file.try_clone().or_build(cannot)?;
        self.start_with(words, file.into(), errors.into())
    }

    fn start_with(&self, words: &[&str], output: Stdio, errors: Stdio) -> Result<Background> {
        let mut command = self.command();
        command.args(words).stdin(Stdio::null()).stdout(output).stderr(errors);
        command.spawn().map(Background).or_build(|| "cannot start `kubectl`".to_owned())
    }

    /// Applies the objects of a manifest.
    pub fn apply(&self, manifest: &str) -> Result<()> {
        self.write("manifest.yaml", manifest)?;
        self.output(&["apply", "-f", "manifest.yaml"]).map(drop)
    }

    /// Writes a file for its arguments, which it finds by this name or path.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let (file, cannot) = (self.file(name), || format!("cannot write `{name}`"));
        fs::create_dir_all(file.parent().unwrap_or(&self.folder)).or_build(cannot)?;
        fs::write(file, text).or_build(cannot)
    }

    /// Runs it until it succeeds with an output that contains `expected`, at most for `timeout`;
    /// then the error is the last output.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn until(
        &self,
        timeout: Duration,
        words: &[&str],
        expected: &str,
    ) -> Result<std::result::Result<(), String>> {
        self.until_output(timeout, words, |output| output.contains(expected))
    }

    /// The same with an output that does not contain `unexpected`.
    pub fn until_without(
        &self,
        timeout: Duration,
        words: &[&str],
        unexpected: &str,
    ) -> Result<std::result::Result<(), String>> {
        self.until_output(timeout, words, |output| !output.contains(unexpected))
    }

    fn until_output(
        &self,
        timeout: Duration,
        words: &[&str],
        is_it: impl Fn(&str) -> bool,
    ) -> Result<std::result::Result<(), String>> {
        wait(timeout, || {
            let ran = self.run(words)?;
            Ok(match ran.code == Some(0) && is_it(&ran.output) {
                true => Seen::Yes(()),
                false => Seen::NotYet(format!("kubectl {}: {}", words.join(" "), ran.output)),
            })
        })
    }

    /// Claims that it succeeds within `timeout` with an output that contains `expected`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn claim(
        &self,
        outcome: &mut Outcome,
        timeout: Duration,
        claim: &str,
        words: &[&str],
        expected: &str,
    ) -> Result<()> {
        outcome.claim(claim, self.until(timeout, words, expected)?);
        Ok(())
    }

    /// The path of a file in the folder in which it runs.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(&self.program).current_dir(&self.folder);
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(&self.folder);
        command
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
