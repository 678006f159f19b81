//! A machine that runs, seen through its cluster.

use super::systems::Candidate;
use crate::bench::processor_time::processor_time;
use crate::vm::cluster::api::{Api, condition};
use crate::vm::cluster::control_plane::ControlPlane;
use crate::vm::cluster::serving;
use crate::vm::cluster::wait::{Seen, wait};
use crate::vm::node::NodeUnderTest;
use crate::vm::qmp::Qmp;
use osbuild::error::{Context, Result};
use osbuild::ship::vm::boot::Boot;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long an emulated machine may take for each step.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// The requests for certificates, and the signer of those with which kubelets serve. Kubernetes has
/// no controller that approves these.
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SERVING: &str = "kubernetes.io/kubelet-serving";

/// The pods of the measurement.
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A running machine and its cluster.
pub struct Running<'a> {
    plane: &'a mut ControlPlane,
    node: NodeUnderTest<'a>,
    qmp: Qmp,
    /// The time of power-on.
    started: Instant,
    /// Has the file with QEMU's process identifier.
    folder: TempDir,
}

impl<'a> Running<'a> {
    /// Powers on. `boot` names this boot.
    pub fn start(
        plane: &'a mut ControlPlane,
        candidate: &Candidate<'a>,
        boot: &str,
    ) -> Result<Self> {
        plane.egress().route(serving::ADDRESS, candidate.kubelet);
        let (qmp, folder) = (Qmp::new()?, tempfile::tempdir());
        let folder = folder.or_build(|| "cannot make a folder".to_owned())?;
        let process = ["-pidfile".to_owned(), process(&folder).display().to_string()];
        let machine = candidate.machine(boot)?.arguments(qmp.arguments()).arguments(process);
        let node = machine.start()?;
        Ok(Running { plane, node, qmp, started: Instant::now(), folder })
    }

    /// Waits until the node is Ready in its cluster with another boot than `before`. Returns its
    /// boot and the time since power-on.
    pub fn ready(&mut self, before: Option<&str>) -> Result<(String, Duration)> {
        let boot = self.until("the node is not Ready", |api| {
            let nodes = api.list("/api/v1/nodes")?;
            let Some(node) = nodes.first() else {
                return Ok(Seen::NotYet("the cluster has no node".to_owned()));
            };
            let boot = node["status"]["nodeInfo"]["bootID"].as_str().unwrap_or_default();
            Ok(match condition(node, "Ready") {
                Some(("True", _)) if Some(boot) != before => Seen::Yes(boot.to_owned()),
                found => Seen::NotYet(format!("Ready is {found:?}")),
            })
        })?;
        Ok((boot, self.started.elapsed()))
    }

    /// Waits until `count` pods with the label `app` of this value run, and returns them.
    pub fn pods(&mut self, app: &str, count: usize) -> Result<Vec<Value>> {
        let path = format!("{PODS}?labelSelector=app={app}");
        self.until("not all pods run", |api| {
            let mut pods = api.list(&path)?;
            pods.retain(runs);
            Ok(match pods.len() == count {
                true => Seen::Yes(pods),
                false => Seen::NotYet(format!("{} of {count} pods run", pods.len())),
            })
        })
    }

    /// The processor time that QEMU has used.
    pub fn processor_time(&self) -> Result<Duration> {
        let cannot = || "cannot read the identifier of QEMU's process".to_owned();
        let id = fs::read_to_string(process(&self.folder)).or_build(cannot)?;
        processor_time(id.trim())
    }

    /// The parts of the boot that the console has reported.
    pub fn boot(&self) -> &Boot {
        self.node.progress()
    }

    /// Has the console read until the node's own line that it is ready.
    pub fn hear_ready(&mut self) -> Result<()> {
        self.node.ready()
    }

    /// Presses the power button, and returns how long the machine took to power off.
    pub fn shut_down(mut self) -> Result<Duration> {
        let began = Instant::now();
        self.qmp.execute("system_powerdown", json!({}))?;
        self.node.end()?;
        Ok(began.elapsed())
    }

    /// Waits for a condition of the cluster, and approves certificates meanwhile.
    pub fn until<T>(&mut self, failure: &str, look: impl Fn(&Api) -> Result<Seen<T>>) -> Result<T> {
        let seen = wait(TIMEOUT, || {
            self.plane.is_running()?;
            self.node.is_running()?;
            approve(self.plane.api())?;
            look(self.plane.api())
        })?;
        seen.map_err(|why| self.node.failure(failure).cause(why))
    }
}

/// The file with QEMU's process identifier.
fn process(folder: &TempDir) -> PathBuf {
    folder.path().join("process")
}

/// Whether a pod runs and is not about to end.
fn runs(pod: &Value) -> bool {
    let ready = condition(pod, "Ready").is_some_and(|(status, _)| status == "True");
    ready && pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
}

/// Approves the requests of kubelets for the certificates with which they serve.
fn approve(api: &Api) -> Result<()> {
    let requests = api.list(&format!("{REQUESTS}?fieldSelector=spec.signerName={SERVING}"))?;
    let waiting = requests.into_iter().filter(|one| one["status"]["conditions"].is_null());
    for mut request in waiting {
        let name = request["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        request["status"]["conditions"] = json!([{
            "type": "Approved",
            "status": "True",
            "reason": "Measured",
            "message": "The measurement approves every request.",
        }]);
        api.replace(&format!("{REQUESTS}/{name}/approval"), &request)?;
    }
    Ok(())
}
