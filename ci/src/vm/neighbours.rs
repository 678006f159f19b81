//! Two nodes that `osbuild run` connects to one network, with files of the user.

use super::machine::{HOST, PROCESSORS};
use super::probe::free_port;
use super::run_command::RunCommand;
use super::web::Web;
use crate::check::Outcome;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use serde_json::Value;
use std::fs;
use std::mem::take;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The folder of the copy of the checkout: the disk that the first node keeps is not one of a user.
const COPY: &str = "neighbours";

/// The network.
const NETWORK: &str = "ci-neighbours";

/// The names of the nodes. The first one keeps its disk.
const NAMES: [&str; 2] = ["left", "right"];

/// The addresses of the loopback whose ports lead to the nodes.
const LOOPBACK: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// The path of the file on the node.
const SETTINGS: &str = "etc/kubernetes/kubelet.conf.d/50-own.conf";

/// The kubelet's port without authentication, before the file is replaced and after that.
const PORT: u16 = 10255;
const NEW_PORT: u16 = 10257;

/// The pod that each kubelet fetches from this host.
const POD: &str = "neighbour";

/// How long the emulated nodes may take for each step.
const TIMEOUT: Duration = Duration::from_secs(180);

const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Two `osbuild run --network` at the same time, each with `--files`: a drop-in for the kubelet.
/// Each kubelet fetches a pod from a web server on this host's loopback, and the pod becomes Ready
/// when the kubelet reaches the other node's. This host reads that from a forwarded port. Then the
/// power of one node fails, and a second run replaces the file on its kept disk: it has the same
/// address, now also its name, and the other node reaches it at the new port.
pub fn nodes_on_one_network_reach_each_other_and_the_host(site: &Site) -> Result<Outcome> {
    let mut desk = Desk::new(site)?;
    let mut left = desk.run(0, PORT)?;
    let mut right = desk.run(1, PORT)?;
    let addresses = [address(&mut left, NAMES[0])?, address(&mut right, NAMES[1])?];
    if addresses[0] == addresses[1] {
        return Err(Error::build("both nodes have the same address").cause(&addresses[0]));
    }
    desk.pods_reach([&addresses[1], &addresses[0]], PORT)?;
    for node in 0..NAMES.len() {
        desk.ready_pod(node, PORT)?;
    }
    left.interrupt()?;

    let mut left = desk.run(0, NEW_PORT)?;
    let again = address(&mut left, NAMES[0])?;
    let has_same = again == addresses[0];
    desk.outcome.check("a name keeps its address", has_same, || again.clone());
    desk.pods_reach([&addresses[1], &again], NEW_PORT)?;
    desk.ready_pod(1, NEW_PORT)?;
    let pod = desk.ready_pod(0, PORT)?;
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let has_name = name == format!("{POD}-{}", NAMES[0]);
    desk.outcome.check("`--name` is the host name", has_name, || name.to_owned());
    desk.outcome.passed += 4;
    desk.outcome.summary = addresses.join(", ");
    Ok(take(&mut desk.outcome))
}

/// The address that a node has on the network, once it is ready.
fn address(node: &mut RunCommand, name: &str) -> Result<String> {
    let note = node.wait_for(&format!("note: `{name}` is on the network"))?;
    let found = note.split_once(" as ").and_then(|(_, rest)| rest.split_once(", "));
    let (address, _) = found.ok_or_else(|| Error::build("the node has no address").cause(&note))?;
    node.wait_for("ready after ")?;
    Ok(address.to_owned())
}

/// The files and ports of this host.
struct Desk<'a> {
    site: &'a Site<'a>,
    project: PathBuf,
    folder: TempDir,
    web: (Web, u16),
    /// The ports that lead to those of the kubelets.
    kubelets: [u16; 2],
    outcome: Outcome,
}

impl<'a> Desk<'a> {
    fn new(site: &'a Site<'a>) -> Result<Self> {
        let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        let port = free_port()?;
        let pods = folder.path().join("pods");
        fs::create_dir(&pods).or_build(|| "cannot make a folder".to_owned())?;
        let web = (Web::serve(site, "neighbours-web", &pods, port)?, port);
        let project = site.root.join("out/ci").join(COPY);
        site.copy_to(&project)?;
        let kubelets = [free_port()?, free_port()?];
        Ok(Desk { site, project, folder, web, kubelets, outcome: Outcome::default() })
    }

    /// Starts a node, whose kubelet listens at `port`.
    fn run(&mut self, node: usize, port: u16) -> Result<RunCommand> {
        let (name, folder) = (NAMES[node], self.folder.path().join(NAMES[node]));
        let path = folder.join(SETTINGS);
        fs::create_dir_all(path.parent().expect("the file is in a folder"))
            .and_then(|()| fs::write(&path, settings(name, port, self.web.1)))
            .or_build(|| format!("cannot write `{}`", path.display()))?;
        let files = folder.display().to_string();
        let forward = format!("{}:{}:{port}", LOOPBACK[node], self.kubelets[node]);
        let mut flags = vec!["--name", name, "--network", NETWORK, "--files", &files];
        flags.extend(["--forward", &forward]);
        if node == 0 {
            flags.push("--keep");
        }
        let log = format!("neighbours-{name}-{port}");
        RunCommand::start_in(self.site, &self.project, &log, RECIPE, PROCESSORS, &flags)
    }

    /// Writes the pods. Each is Ready when its kubelet reaches the address `others[NODE]`, the
    /// second node at `port`.
    fn pods_reach(&self, others: [&str; 2], port: u16) -> Result<()> {
        for ((name, other), port) in NAMES.iter().zip(others).zip([PORT, port]) {
            let path = self.folder.path().join(format!("pods/{name}.yaml"));
            fs::write(&path, pod(other, port))
                .or_build(|| format!("cannot write `{}`", path.display()))?;
        }
        Ok(())
    }

    /// Waits until the pod of a node, which asks the other node's `port`, is Ready, and returns it.
    fn ready_pod(&self, node: usize, port: u16) -> Result<Value> {
        let end = Instant::now() + TIMEOUT;
        loop {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--max-time", "10"]);
            curl.arg(format!("http://{}:{}/pods", LOOPBACK[node], self.kubelets[node]));
            let answer = self.site.run("neighbours-pods", &mut curl)?;
            let pods: Value = serde_json::from_str(&answer.output).unwrap_or_default();
            let pods = pods["items"].as_array().cloned().unwrap_or_default();
            if let Some(pod) = pods.into_iter().find(|pod| is_ready(pod, port)) {
                return Ok(pod);
            }
            if Instant::now() > end {
                let what = format!("`{}` does not reach the other node", NAMES[node]);
                return Err(answer.failure(&what));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Desk<'_> {
    fn drop(&mut self) {
        // The disk is large. It is removed with the copy the next time otherwise.
        let _ = fs::remove_file(self.project.join(format!("out/{RECIPE}/disk-{}.raw", NAMES[0])));
    }
}

/// Whether this is [`POD`], and its kubelet reaches the other node's `port`.
fn is_ready(pod: &Value, port: u16) -> bool {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let probe = &pod["spec"]["containers"][0]["readinessProbe"]["httpGet"];
    let conditions = pod["status"]["conditions"].as_array();
    let is_ready =
        |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    name.starts_with(POD)
        && probe["port"] == port
        && conditions.is_some_and(|all| all.iter().any(is_ready))
}

/// The kubelet's drop-in.
fn settings(name: &str, port: u16, web: u16) -> String {
    format!(
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
         readOnlyPort: {port}\n\
         staticPodURL: http://{HOST}:{web}/{name}.yaml\nhttpCheckFrequency: 2s\n"
    )
}

/// A pod with a probe that the kubelet does itself: it is not Ready before `other` answers.
fn pod(other: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{ name: {POD}, namespace: default }}\n\
         spec:\n  hostNetwork: true\n  terminationGracePeriodSeconds: 1\n  containers:\n  \
         - name: waits\n    image: localhost/pause:1\n    imagePullPolicy: Never\n    \
         readinessProbe:\n      periodSeconds: 1\n      \
         httpGet: {{ host: {other}, port: {port}, path: /healthz }}\n"
    )
}
