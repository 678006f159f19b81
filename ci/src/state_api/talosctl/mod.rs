//! The real `talosctl` reads the resources of `osd`.

use super::remote::{Remote, TRUSTED};
use super::{Program, grpcurl, programs, python_modules};
use crate::check::Outcome;
use crate::site::{Ran, Site, fill_once};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Error, Result};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The module that compiles `talosctl`.
const GO_MOD: &str = include_str!("go.mod");

/// The module with its source, and its package there.
const MODULE: &str = "github.com/siderolabs/talos";
const PACKAGE: &str = "github.com/siderolabs/talos/cmd/talosctl";

/// The name in the certificate of every node.
const NAME: &str = "osd";

/// The resource of the claims, before and after a change.
const PARAMETER: &str =
    "type: KernelParameter\nid: swap\nspec: { key: vm.swappiness, value: '7' }\n";
const CHANGED: &str = "type: KernelParameter\nid: swap\nspec: { key: vm.swappiness, value: '8' }\n";

/// How long a watch may take to show a change.
const TIMEOUT: Duration = Duration::from_secs(120);

/// `talosctl get` lists types and resources, prints one in each of its formats, and watches.
pub fn it_reads_a_node(site: &Site) -> Result<Outcome> {
    let program = talosctl(site)?;
    let (modules, grpcurl) = (python_modules(site)?, grpcurl(site)?);
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let [osd, osctl] = programs(site)?;
    let (osd, osctl, grpcurl, modules) = (&osd, &osctl, &grpcurl, &modules);
    let remote = Remote { site, osd, osctl, grpcurl, modules, folder: folder.path() };
    remote.make_keys()?;
    let node = remote.listen(remote.key(TRUSTED, "api.crt"))?;
    let admin = remote.key(TRUSTED, "admin.pem").display().to_string();
    let known = ["node", "add", "node", &node.address, "--fingerprint", &node.fingerprint];
    remote.finish(&[&known[..], &["--certificate", &admin]].concat())?;
    let talosctl = Talosctl { remote: &remote, program: &program };
    talosctl.configure(&node.address)?;
    let mut outcome = Outcome::default();
    talosctl.gets(&mut outcome)?;
    talosctl.watches(&mut outcome)?;
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

struct Talosctl<'a> {
    remote: &'a Remote<'a>,
    program: &'a Path,
}

impl Talosctl<'_> {
    /// Writes its configuration, as the page on `osctl` says, and a file that gives the node the
    /// name in its certificate.
    fn configure(&self, address: &str) -> Result<()> {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-connect", address]).stdin(Stdio::null());
        let shown = self.remote.site.run("talosctl-openssl", &mut openssl)?.output;
        let client = read(&self.remote.key(TRUSTED, "reader.pem"))?;
        let (authority, certificate) = (part(&shown, "CERTIFICATE"), part(&client, "CERTIFICATE"));
        let [authority, certificate, key] =
            [authority?, certificate?, part(&client, "PRIVATE KEY")?]
                .map(|pem| STANDARD.encode(pem));
        let port = address.rsplit(':').next().unwrap_or_default();
        let text = format!(
            "context: node\ncontexts:\n  node:\n    endpoints: [\"{NAME}:{port}\"]\n    \
             nodes: [{NAME}]\n    ca: {authority}\n    crt: {certificate}\n    key: {key}\n"
        );
        write(&self.file("talosconfig"), &text)?;
        write(&self.file("hosts"), &format!("127.0.0.1 {NAME}\n"))
    }

    fn gets(&self, outcome: &mut Outcome) -> Result<()> {
        self.apply(PARAMETER)?;
        let mut get = |claim: &str, words: &[&str], holds: fn(&str) -> bool| {
            let ran = self.remote.site.run("talosctl", &mut self.command(words))?;
            let holds = ran.code == Some(0) && holds(&ran.output);
            outcome.check(&format!("`talosctl get` {claim}"), holds, || ran.output);
            Ok::<(), Error>(())
        };
        get("lists the types", &["rd"], |output| output.contains("kernelparameters.osbuild"))?;
        get("knows a type by its short name", &["kernelparameter"], has_columns)?;
        get(
            "prints the columns of a resource",
            &["KernelParameters.osbuild", "swap"],
            has_columns,
        )?;
        get("prints YAML", &["kernelparameter", "swap", "-o", "yaml"], |output| {
            output.contains("key: vm.swappiness") && output.contains("value: \"7\"")
        })?;
        get("prints JSON", &["kernelparameter", "swap", "-o", "json"], |output| {
            let from = output.find('{').unwrap_or(0);
            serde_json::from_str::<Value>(&output[from..])
                .is_ok_and(|value| value["spec"]["value"] == "7")
        })?;
        let unknown = self.remote.site.run("talosctl", &mut self.command(&["nonsense"]))?;
        let refused = unknown.code != Some(0) && unknown.output.contains("nonsense");
        outcome.check("`talosctl get` refuses an unknown type", refused, || unknown.output);
        Ok(())
    }

    /// The watches of a type and of one resource show what is there, and then a change.
    fn watches(&self, outcome: &mut Outcome) -> Result<()> {
        let watches = [
            ("get -w", &["kernelparameter", "-w"][..], [PARAMETER, CHANGED]),
            ("get ID -w", &["kernelparameter", "swap", "-w", "-o", "yaml"], [CHANGED, PARAMETER]),
        ];
        for (name, words, [before, after]) in watches {
            self.apply(before)?;
            let watch = self.watch(words)?;
            let (holds, text) = watch.shows(1)?;
            outcome.check(&format!("`talosctl {name}` shows what is there"), holds, || text);
            self.apply(after)?;
            let (holds, text) = watch.shows(2)?;
            outcome.check(&format!("`talosctl {name}` shows a change"), holds, || text);
        }
        Ok(())
    }

    fn watch(&self, words: &[&str]) -> Result<Watch> {
        let output = self.file("watched");
        let file = fs::File::create(&output).or_build(|| cannot("write", &output))?;
        let errors = file.try_clone().or_build(|| cannot("write", &output))?;
        let mut command = self.command(words);
        let watch = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        let watch = watch.or_build(|| "cannot start `talosctl`".to_owned())?;
        Ok(Watch { _talosctl: Program(watch), output })
    }

    fn apply(&self, document: &str) -> Result<Ran> {
        let path = self.file("parameter.yaml");
        write(&path, document)?;
        self.remote.finish(&["-n", "node", "apply", "-f", &path.display().to_string()])
    }

    /// `talosctl get` with these words, where the node has its name.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\""]);
        command.arg(self.file("hosts")).arg(self.program);
        command.arg("--talosconfig").arg(self.file("talosconfig"));
        command.arg("get").args(words);
        command
    }

    fn file(&self, name: &str) -> PathBuf {
        self.remote.folder.join(name)
    }
}

/// A `talosctl` that goes on, and the file with its output.
struct Watch {
    _talosctl: Program,
    output: PathBuf,
}

impl Watch {
    /// Waits until its output names the parameter in so many lines. Returns whether it does, and
    /// the output.
    fn shows(&self, lines: usize) -> Result<(bool, String)> {
        let began = Instant::now();
        loop {
            let text = read(&self.output)?;
            let count = text.lines().filter(|line| line.contains("vm.swappiness")).count();
            if count >= lines || began.elapsed() > TIMEOUT {
                return Ok((count >= lines, text));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Compiles `talosctl` once. The checksum database does not know all modules that replace others;
/// the file of sums in its own module does, and the database knows that module.
fn talosctl(site: &Site) -> Result<PathBuf> {
    let name = format!("talosctl-{}", &Digest::of(GO_MOD.as_bytes()).hex()[..16]);
    let folder = fill_once(&site.tools().join(name), |folder| {
        write(&folder.join("go.mod"), GO_MOD)?;
        let mut go = Command::new("go");
        go.current_dir(folder).args(["mod", "download", "-json", MODULE]);
        let output = site.finish("go-download-talos", &mut go)?.output;
        let downloaded: Value = serde_json::from_str(&output)
            .map_err(|_| Error::build("`go mod download` has printed no module"))?;
        let sums = Path::new(downloaded["Dir"].as_str().unwrap_or_default()).join("go.sum");
        write(&folder.join("go.sum"), &read(&sums)?)?;
        let mut go = Command::new("go");
        go.current_dir(folder).args(["build", "-mod=mod", "-ldflags=-s -w", "-o", "talosctl"]);
        site.finish("go-talosctl", go.arg(PACKAGE)).map(drop)
    })?;
    Ok(folder.join("talosctl"))
}

/// The first line of columns and the line of the resource.
fn has_columns(output: &str) -> bool {
    let mut lines = output.lines().skip_while(|line| !line.starts_with("NODE"));
    lines.next().is_some_and(|line| line.contains("KEY") && line.contains("VALUE"))
        && lines.any(|line| line.contains("vm.swappiness") && line.contains('7'))
}

/// The first part of a PEM file with this label.
fn part(pem: &str, label: &str) -> Result<String> {
    let (begin, end) = (format!("-----BEGIN {label}-----"), format!("-----END {label}-----"));
    let from = pem.find(&begin);
    let to = from.and_then(|from| Some(from + pem[from..].find(&end)? + end.len()));
    match (from, to) {
        (Some(from), Some(to)) => Ok(format!("{}\n", &pem[from..to])),
        _ => Err(Error::build(format!("there is no `{label}`")).cause(pem.to_owned())),
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).or_build(|| cannot("read", path))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).or_build(|| cannot("write", path))
}

fn cannot(verb: &str, path: &Path) -> String {
    format!("cannot {verb} `{}`", path.display())
}
