//! A node in a cluster installs an update, and reboots into it only once the cluster grants that:
//! the grantor of `components/pods/updater` drains the node before, as far as the budgets of its
//! pods allow. The release brings the kubelet of the next minor. Another one fails.

use super::control_plane::ControlPlane;
use super::joining::{Ports, bridge, join};
use super::kubectl::Kubectl;
use super::lost::{self, without_networks};
use super::minor::Minor;
use super::serving;
use super::{Cluster, text};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::machine::HOST;
use crate::vm::node::NodeUnderTest;
use crate::vm::probe::{self, free_port};
use crate::vm::slots::disk::{A, B, SlotDisk};
use crate::vm::update::lab::{Lab, Releases};
use crate::vm::update::server::Server;
use crate::vm::update::{DISK_MIB, NEW, NEXT, OLD, OPENED, TIMEOUT};
use osbuild::error::Result;
use osbuild_abi::console::{SLOT_GOOD, SLOTBOOT_STARTS};
use osbuild_abi::paths::CONTAINERD_CONFIG;
use osbuild_grants::annotations::{DRAINED, FAILED, GRANTED, RESULT, SUCCEEDED, WANTED};
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// The folder of the check's copy, and the start of its logs.
const NAME: &str = "drained";

/// The tool that grants reboots.
const GRANTOR: &str = include_str!("../../../../components/pods/updater/grantor.yaml");

/// A Deployment with a budget that forbids to evict its only pod.
const GUARDED: &str = include_str!("drained.yaml");

/// The version of the release that is not Ready in its cluster, how soon it has to be, and how
/// often it is tried.
const BAD: &str = "1.0.2";
const DEADLINE_S: u32 = 180;
const TRIES: usize = 3;

/// How long nothing may happen: several looks of the node at its Node, and of the grantor.
const QUIET: Duration = Duration::from_secs(45);

/// kubectl waits until the Deployment's pod runs.
const GUARDED_RUNS: [&str; 4] = ["rollout", "status", "deployment/guarded", "--timeout=60s"];

/// kubectl prints the Deployment's pods that run.
const RUNNING: [&str; 5] =
    ["get", "pods", "-l=app=guarded", "--field-selector=status.phase=Running", "-o=name"];

/// Whether a node takes no pods: `is true.` or `is .`
const CORDONED: &str = "is {.spec.unschedulable}.";

/// A pod whose budget forbids its eviction runs on a node that installs an update. The node asks,
/// and does not reboot. The grantor cordons it, and still it does not reboot. The budget allows the
/// eviction: the pod ends, the node reboots, reports its result and takes pods again. Then a person
/// grants it to reboot into a release that fails, and the node says so once it is back.
pub fn a_node_is_drained_before_it_reboots_for_an_update(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, NAME)?;
    let server = Server::start(site, &lab, 0)?;
    lab.write_recipe(OLD, Releases::Web(server.port()))?;
    lab.build()?;
    lab.keep_old()?;
    let plane = ControlPlane::of_minor(site, Minor::Next)?;
    let mut cluster = Cluster { plane, outcome: Outcome::default() };
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    let ports = Ports { place: free_port()?, socket: free_port()? };
    let kubelet = free_port()?;
    cluster.plane.egress().route(serving::ADDRESS, kubelet);
    let disk = SlotDisk::of(site, lab.old(), lab.keys()?, NAME)?;
    let machine = disk.machine()?.disk_size(DISK_MIB).timeout(TIMEOUT);
    let machine = machine.forward(ports.place, probe::PLACE).forward(ports.socket, probe::SOCKET);
    let machine = machine.forward(kubelet, serving::PORT);
    let mut node = machine.start()?;
    node.wait_for_line(SLOT_GOOD, &["SLOT-A"])?;
    join(&cluster.plane, bridge(&Minor::Next.bin(site))?, &ports)?;
    let first = cluster.ready_node(&mut node, None)?;
    kubectl.apply(GUARDED)?;
    let asked = Asked { kubectl: &kubectl, name: text(&first, "/metadata/name") };
    asked.guarded_runs(&mut cluster.outcome, "the pod runs")?;

    let lab = lab.with_next_kubelet();
    lab.write_recipe(NEW, Releases::Web(server.port()))?;
    lab.release()?;
    node.wait_for_line(OPENED, &[B.name()])?;
    asked.annotated(&mut cluster.outcome, "the node asks for a reboot", WANTED, NEW)?;
    sleep(QUIET);
    let console = node.console()?;
    cluster.outcome.check("it does not reboot without a grant", !console.contains(NEXT), || {
        "its other slot is booted next".to_owned()
    });

    asked.deploy_grantor(&cluster.plane)?;
    asked.annotated(&mut cluster.outcome, "the grantor drains the node", DRAINED, "Z")?;
    asked.field(&mut cluster.outcome, "the node is cordoned", CORDONED, "is true.")?;
    sleep(QUIET);
    let granted = asked.value(GRANTED)?;
    cluster.outcome.check("a budget holds up the grant", granted.is_empty(), || granted);
    let running = kubectl.output(&RUNNING)?;
    cluster.outcome.check("its pod runs until then", !running.is_empty(), || "it ended".to_owned());

    let allows = r#"{"spec": {"minAvailable": 0}}"#;
    kubectl.output(&["patch", "pdb", "guarded", "--type=merge", "-p", allows])?;
    node.wait_for_line(NEXT, &[B.name()])?;
    let running = kubectl.output(&RUNNING)?;
    cluster.outcome.check("its pod has ended before it reboots", running.is_empty(), || running);
    node.wait_for_line(SLOT_GOOD, &[B.name()])?;
    let second = cluster.ready_node(&mut node, Some(&first))?;
    let next = Minor::Next.version(site)?;
    let kubelet = text(&second, "/status/nodeInfo/kubeletVersion");
    let claim = "it has the kubelet of the next minor";
    cluster.outcome.check(claim, kubelet == next, || kubelet.to_owned());
    let result = format!("{NEW} {SUCCEEDED}");
    asked.annotated(&mut cluster.outcome, "the node reports the result", RESULT, &result)?;
    let outcome = &mut cluster.outcome;
    asked.field(outcome, "it takes pods again", CORDONED, "is .")?;
    asked.guarded_runs(outcome, "the pod runs again")?;
    asked.updater_is_shown(outcome)?;
    let lab = lab.with_file(CONTAINERD_CONFIG, &without_networks())?;
    let lab = lab.with_gate_deadline(DEADLINE_S)?;
    lab.write_recipe(BAD, Releases::Web(server.port()))?;
    asked.a_bad_release_goes_back(&mut cluster, &mut node, &lab, &second)?;
    cluster.outcome.summary = format!("{} claims", cluster.outcome.passed);
    node.power_off()?;
    Ok(cluster.outcome)
}

/// The machine spends all tries of SLOT-A, and then starts SLOT-B.
fn falls_back(node: &mut NodeUnderTest) -> Result<()> {
    let back = format!("{SLOTBOOT_STARTS}{}", B.name());
    for _ in 0..TRIES {
        let line = node.wait_for(SLOTBOOT_STARTS)?;
        if line.contains(&back) {
            return Ok(());
        }
    }
    Err(node.failure(format!("the machine does not start {}", B.name())))
}

/// The Node, as an administrator sees it.
struct Asked<'a> {
    kubectl: &'a Kubectl<'a>,
    name: &'a str,
}

impl Asked<'_> {
    /// Without the grantor, a person grants the reboot into a release whose containerd finds no
    /// network. The node goes back to the release before, which is Ready: the other was at fault.
    fn a_bad_release_goes_back(
        &self,
        cluster: &mut Cluster,
        node: &mut NodeUnderTest,
        lab: &Lab,
        before: &Value,
    ) -> Result<()> {
        let delete = ["-n=kube-system", "delete", "deployment", "grantor", "--cascade=foreground"];
        self.kubectl.output(&delete)?;
        lab.release()?;
        node.wait_for_line(OPENED, &[A.name()])?;
        self.annotated(&mut cluster.outcome, "the node asks for the next release", WANTED, BAD)?;
        let grant = format!("{GRANTED}={BAD}");
        self.kubectl.output(&["annotate", "--overwrite", "node", self.name, &grant])?;
        node.wait_for_line(NEXT, &[A.name()])?;
        node.wait_for(lost::WAITS)?;
        falls_back(node)?;
        let after = cluster.ready_node(node, Some(before))?;
        let outcome = &mut cluster.outcome;
        let result = format!("{BAD} {FAILED}");
        self.annotated(outcome, "the node reports that the release failed", RESULT, &result)?;
        let [was, is] =
            [before, &after].map(|node| text(node, "/status/nodeInfo/kubeletVersion").to_owned());
        outcome.check("it has the kubelet of before", was == is, || format!("{was} became {is}"));
        self.field(outcome, "it takes pods after a release that failed", CORDONED, "is .")?;
        self.guarded_runs(outcome, "the pod runs after a release that failed")
    }

    /// `kubectl` shows the pod that updates the node.
    fn updater_is_shown(&self, outcome: &mut Outcome) -> Result<()> {
        let signed = serving::approved(self.kubectl, self.name)?;
        outcome.claim("the cluster signs the kubelet", signed);
        for (claim, verb, expected) in [
            ("the pod `updater` is shown", "describe pod", "Running"),
            ("the pod `updater` has a log", "logs", "follows "),
        ] {
            let words = format!("{verb} updater-{} -n kube-system", self.name);
            let words: Vec<&str> = words.split(' ').collect();
            outcome.claim(claim, self.kubectl.until(TIMEOUT, &words, expected)?);
        }
        Ok(())
    }

    /// Waits until the Deployment's pod runs.
    fn guarded_runs(&self, outcome: &mut Outcome, claim: &str) -> Result<()> {
        self.kubectl.claim(outcome, TIMEOUT, claim, &GUARDED_RUNS, "successfully rolled out")
    }

    /// Waits until a template of the Node gives a text with this part.
    fn field(
        &self,
        outcome: &mut Outcome,
        claim: &str,
        template: &str,
        expected: &str,
    ) -> Result<()> {
        let output = format!("-o=jsonpath={template}");
        self.kubectl.claim(outcome, TIMEOUT, claim, &["get", "node", self.name, &output], expected)
    }

    /// Waits until an annotation has this part.
    fn annotated(
        &self,
        outcome: &mut Outcome,
        claim: &str,
        annotation: &str,
        expected: &str,
    ) -> Result<()> {
        self.field(outcome, claim, &template(annotation), expected)
    }

    /// An annotation; empty if there is none.
    fn value(&self, annotation: &str) -> Result<String> {
        let output = format!("-o=jsonpath={}", template(annotation));
        self.kubectl.output(&["get", "node", self.name, &output])
    }

    /// Deploys the grantor. There is no kube-proxy, so it gets the address of the API server.
    fn deploy_grantor(&self, plane: &ControlPlane) -> Result<()> {
        self.kubectl.apply(GRANTOR)?;
        let address = json!([
            { "name": "KUBERNETES_SERVICE_HOST", "value": HOST.to_string() },
            { "name": "KUBERNETES_SERVICE_PORT", "value": plane.port().to_string() },
        ]);
        let pod: Value = json!({
            "hostNetwork": true,
            "containers": [{ "name": "grantor", "env": address }],
        });
        let patch = json!({ "spec": { "template": { "spec": pod } } }).to_string();
        let words = ["-n=kube-system", "patch", "deployment", "grantor", "-p", &patch];
        self.kubectl.output(&words).map(drop)
    }
}

/// kubectl's template of an annotation.
fn template(annotation: &str) -> String {
    format!("{{.metadata.annotations.{}}}", annotation.replace('.', "\\."))
}
