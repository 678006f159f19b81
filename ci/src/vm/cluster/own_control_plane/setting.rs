//! The node document and a resource configure the control plane that runs on a node. A change, a
//! try and its end need no restart of the node.

use super::desk::RECIPE;
use super::{NEW_NODE_TIMEOUT, NODE, OwnCluster, STEP_TIMEOUT};
use crate::check::Outcome;
use crate::recipe;
use crate::site::Site;
use crate::vm::cluster::certificates::Authority;
use crate::vm::cluster::kubectl::Kubectl;
use crate::vm::cluster::minor::Minor;
use crate::vm::cluster::node_api::NodeApi;
use crate::vm::cluster::registry::Registry;
use crate::vm::cluster::wait::{Seen, wait};
use crate::vm::machine::Machine;
use crate::vm::node::NodeUnderTest;
use crate::vm::probe::{self, free_port};
use osbuild::error::{Context, Error, Result};
use osbuild_abi::osd::PORT;
use osbuild_abi::paths::CONTROL_PLANE_CONFIGURATION;
use std::fs;
use std::path::{Path, PathBuf};

/// The recipe, and the lines that it adds to that of a control plane.
const CONFIGURED: &str = "configured-control-plane";
const MORE: &str = "
[pods]
probe = { component = \"probe\" }
osd = { component = \"osd\" }

[api]
clients = \"keys/dev/api.crt\"
control-plane = true
";

/// The files of a cluster's first node, below its folder.
const KUBEADM: &str = "etc/kubernetes/kubeadm.yaml";
const DOCUMENT: &str = "etc/osbuild/node.toml";

/// The address of the API server, and its port on the node.
const ADDRESS: &str = "10.0.2.15";
const SERVER: u16 = 6443;

/// Where a cluster's configuration has the names of the API server's certificate, and its
/// arguments.
const NAMES: &str = "  certSANs:\n";
const ARGUMENTS: &str = "  extraArgs:\n";
/// Another name of the API server.
const NAME: &str = "api.example";
/// The one of the node document.
const FIRST_NAME: &str = "first.example";
/// An argument that the API server refuses.
const WRONG: &str = "  - { name: no-such-flag, value: a }\n";
/// A range of ports for Services, and a port in it that the default range does not have.
const RANGE: &str = "  - { name: service-node-port-range, value: 20000-20999 }\n";
const NODE_PORT: &str = "--node-port=20080";

/// A control plane whose `ClusterConfiguration` in the node document has a mistake is made with a
/// resource in its place, is changed by it to arguments with which the API server does not start,
/// and goes back by itself. When the resource goes, the document counts again. A resource that was
/// confirmed survives a restart of the node.
pub fn a_resource_configures_the_control_plane(site: &Site) -> Result<Outcome> {
    let project = site.root.join("out/ci").join(CONFIGURED);
    site.copy_to(&project)?;
    recipe::inherit(site, &project, CONFIGURED, RECIPE, MORE)?;
    let place = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let authority = Authority::new(place.path())?;
    let registry = Registry::start(site, &authority)?;
    let [server, api, files] = [free_port()?, free_port()?, free_port()?];
    let folder = make_cluster(site, &project, place.path(), server)?;
    let configuration = move_to_document(&folder.join("first"))?;
    for file in registry.node_files(&authority)? {
        file.write_below(&folder.join("first"))?;
    }
    let mut running = Machine::of_recipe_in(site, &project, CONFIGURED, CONFIGURED)?
        .processors(2)
        .disk_size(8192)
        .hostname(NODE)
        .files(&folder.join("first"))?
        .forward(server, SERVER)
        .forward(api, PORT)
        .forward(files, probe::FILE)
        .boot()?;
    let kubeconfig = folder.join("administrator.kubeconfig");
    let kubectl = Kubectl::with(site, kubeconfig, place.path().join("kubectl"))?;
    let node_api = NodeApi::new(site, &project, place.path().join("node-api"))?;
    node_api.add_node(api, &mut running)?;
    let plane = Plane { cluster: OwnCluster { kubectl }, node_api, configuration };
    let mut outcome = Outcome::default();
    plane.is_made_once_it_is_correct(&mut outcome)?;
    let boot = plane.boot()?;
    plane.takes_a_resource(&mut outcome)?;
    plane.refuses_another_minor(site, &mut outcome)?;
    plane.is_held(files, &mut running, &mut outcome)?;
    plane.goes_back_by_itself(&mut outcome)?;
    plane.returns_to_the_document(&mut outcome)?;
    plane.takes_a_resource_without_arguments(&mut outcome)?;
    let after = plane.boot()?;
    outcome.check("the node has not restarted", boot == after, || format!("{boot}, {after}"));
    plane.survives_a_restart(&after, &mut outcome)?;
    outcome.summary = format!("{} claims", outcome.passed);
    Ok(outcome)
}

/// Writes the files of a cluster whose administrator reaches it at this port, and returns their
/// folder.
fn make_cluster(site: &Site, project: &Path, place: &Path, port: u16) -> Result<PathBuf> {
    let folder = place.join("cluster");
    let mut command = site.osbuild()?;
    command.current_dir(project).args(["cluster", CONFIGURED]).arg(&folder).arg("--slow");
    command.args(["--server", &format!("{ADDRESS}:{SERVER}")]);
    command.args(["--administrator", &format!("127.0.0.1:{port}")]);
    site.finish("configured-control-plane-files", &mut command)?;
    Ok(folder)
}

/// Moves the `ClusterConfiguration` of the first node to a node document, which adds another name
/// and the argument that is wrong. Returns the configuration without these.
fn move_to_document(root: &Path) -> Result<String> {
    let text =
        fs::read_to_string(root.join(KUBEADM)).or_build(|| format!("cannot read `{KUBEADM}`"))?;
    let (node, cluster) = text
        .split_once("---\n")
        .ok_or_else(|| Error::build("kubeadm's configuration has one object"))?;
    let wrong = with(cluster, FIRST_NAME, WRONG);
    let document = format!("[control-plane]\nconfiguration = '''\n{wrong}'''\n");
    let write = |file: &str, text: &str| {
        let file = root.join(file);
        let made = fs::create_dir_all(file.parent().unwrap_or(root));
        made.and_then(|()| fs::write(&file, text))
            .or_build(|| format!("cannot write `{}`", file.display()))
    };
    write(KUBEADM, node)?;
    write(DOCUMENT, &document)?;
    Ok(cluster.to_owned())
}

/// The configuration with another name of the API server, and more arguments of it.
fn with(configuration: &str, name: &str, arguments: &str) -> String {
    let names = format!("{NAMES}  - {name}\n");
    let arguments = format!("{ARGUMENTS}{arguments}");
    configuration.replacen(NAMES, &names, 1).replacen(ARGUMENTS, &arguments, 1)
}

/// The resource with this configuration.
fn resource(configuration: &str) -> String {
    let lines: String = configuration.lines().map(|line| format!("    {line}\n")).collect();
    format!("type: ControlPlane\nid: node\nspec:\n  configuration: |\n{lines}")
}

/// The control plane on the node.
struct Plane<'a> {
    cluster: OwnCluster<'a>,
    node_api: NodeApi<'a>,
    /// The configuration of the node document without its mistake.
    configuration: String,
}

impl Plane<'_> {
    /// The same with another name of the API server, and these arguments of it.
    fn changed(&self, arguments: &str) -> String {
        resource(&with(&self.configuration, NAME, arguments))
    }

    /// kubeadm makes the control plane with the configuration that corrects the one with which it
    /// has begun, and keeps nothing of that.
    fn is_made_once_it_is_correct(&self, outcome: &mut Outcome) -> Result<()> {
        let begun = wait(NEW_NODE_TIMEOUT, || {
            let logs = self.node_api.run(&["logs"])?.output;
            // The pod has another name before the node has its own.
            let mut of_pod = logs.lines().filter(|name| name.ends_with("/control-plane"));
            let begins = |log: &str| log.contains("runs kubeadm init phase kubelet-start");
            let has_begun = of_pod.try_fold(false, |has_begun, name| {
                Ok::<_, Error>(has_begun || begins(&self.node_api.run(&["logs", name])?.output))
            })?;
            Ok(if has_begun { Seen::Yes(()) } else { Seen::NotYet(logs) })
        })?;
        outcome.claim("kubeadm begins with the node document", begun);
        let wrong = ["made: false", "setBy: document"];
        self.status(outcome, "the document makes no control plane yet", &wrong)?;
        self.node_api.apply("plane.yaml", &resource(&self.configuration), &[])?;
        let object = format!("node/{NODE}");
        let ready = ["wait", &object, "--for=condition=Ready", "--timeout=60s"];
        let claim = "a resource without the mistake makes the control plane";
        let kubectl = &self.cluster.kubectl;
        kubectl.claim(outcome, NEW_NODE_TIMEOUT, claim, &ready, "condition met")?;
        self.cluster.has_static_pods(outcome, NODE)?;
        self.status(outcome, "the status names the resource", &["made: true", "setBy: api"])?;
        let words = [&format!("--tls-server-name={FIRST_NAME}"), "get", "--raw=/readyz"];
        let ran = kubectl.run(&words)?;
        let is_replaced = ran.code != Some(0) && ran.output.contains("certificate is valid for");
        let claim = "the certificate of the first attempt is replaced";
        outcome.check(claim, is_replaced, || ran.output);
        Ok(())
    }

    /// A resource changes the arguments and the certificate of the API server.
    fn takes_a_resource(&self, outcome: &mut Outcome) -> Result<()> {
        self.node_api.apply("plane.yaml", &self.changed(RANGE), &[])?;
        self.status(outcome, "kubeadm takes a resource", &["made: true", "setBy: api"])?;
        let words = ["create", "service", "nodeport", "ours", "--tcp=80", NODE_PORT];
        self.cluster.claim(outcome, "the API server has the argument", &words, "created")?;
        let words = [&format!("--tls-server-name={NAME}"), "get", "--raw=/readyz"];
        self.cluster.claim(outcome, "its certificate has the name", &words, "ok")?;
        let words = ["-n=kube-system", "get", "configmap/kubeadm-config", "-o=yaml"];
        self.cluster.claim(outcome, "the cluster has the configuration", &words, "20000-20999")
    }

    /// A resource with the next minor changes nothing, and is forgotten with the one before.
    fn refuses_another_minor(&self, site: &Site, outcome: &mut Outcome) -> Result<()> {
        let (peg, next) = (Minor::Peg.version(site)?, Minor::Next.version(site)?);
        let other = self.changed(RANGE).replacen(&peg, &next, 1);
        self.node_api.apply("plane.yaml", &other, &[])?;
        let refused = ["made: false", "changes the minor"];
        self.status(outcome, "the pod refuses another minor", &refused)?;
        let words = ["get", "--raw=/version"];
        self.cluster.claim(outcome, "the API server keeps its version", &words, &peg)?;
        self.node_api.apply("plane.yaml", &self.changed(RANGE), &[])?;
        self.status(outcome, "the resource before it counts", &["made: true", "setBy: api"])
    }

    /// A configuration that another program changes is back.
    fn is_held(
        &self,
        files: u16,
        running: &mut NodeUnderTest,
        outcome: &mut Outcome,
    ) -> Result<()> {
        let write = format!("{CONTROL_PLANE_CONFIGURATION} kind: Other");
        probe::request(files, |stream| std::io::Write::write_all(stream, write.as_bytes()))?;
        running.wait_until_printed(&format!(
            "another program changed {CONTROL_PLANE_CONFIGURATION}, it is as before again"
        ))?;
        outcome.passed += 1;
        self.status(outcome, "the control plane is as before", &["made: true", "setBy: api"])
    }

    /// A try with a mistake takes the API server away, and the end of the try brings it back.
    fn goes_back_by_itself(&self, outcome: &mut Outcome) -> Result<()> {
        let wrong = format!("{RANGE}{WRONG}");
        self.node_api.apply("plane.yaml", &self.changed(&wrong), &["--try", "4m"])?;
        let gone = wait(STEP_TIMEOUT, || {
            let ran =
                self.cluster.kubectl.run(&["get", "--raw=/readyz", "--request-timeout=5s"])?;
            Ok(if ran.code == Some(0) { Seen::NotYet(ran.output) } else { Seen::Yes(()) })
        })?;
        outcome.claim("an argument that is wrong takes the API server away", gone);
        let words = ["get", "service/ours"];
        self.cluster.claim(outcome, "the end of the try brings it back", &words, "20080")?;
        self.status(outcome, "the status is as before the try", &["made: true", "setBy: api"])
    }

    fn returns_to_the_document(&self, outcome: &mut Outcome) -> Result<()> {
        self.node_api.finish(&["delete", "controlplanes", "node"])?;
        let wrong = ["made: false", "setBy: document"];
        self.status(outcome, "the document counts again", &wrong)
    }

    fn takes_a_resource_without_arguments(&self, outcome: &mut Outcome) -> Result<()> {
        self.node_api.apply("plane.yaml", &resource(&self.configuration), &[])?;
        let made = ["made: true", "setBy: api"];
        self.status(outcome, "a resource brings the control plane back", &made)?;
        let words = ["create", "service", "nodeport", "theirs", "--tcp=80", "--node-port=20081"];
        let refused = wait(STEP_TIMEOUT, || {
            let ran = self.cluster.kubectl.run(&words)?;
            let is_refused = ran.output.contains("not in the valid range");
            // One that an API server with the earlier argument has made is in the way.
            self.cluster.kubectl.run(&["delete", "service/theirs", "--ignore-not-found"])?;
            Ok(if is_refused { Seen::Yes(()) } else { Seen::NotYet(ran.output) })
        })?;
        outcome.claim("the API server has its arguments", refused);
        Ok(())
    }

    /// A try that is confirmed counts again after a restart of the node, which would end one that
    /// is not.
    fn survives_a_restart(&self, boot: &str, outcome: &mut Outcome) -> Result<()> {
        self.node_api.apply("plane.yaml", &self.changed(RANGE), &["--try", "10m"])?;
        self.status(outcome, "kubeadm takes a resource again", &["made: true", "setBy: api"])?;
        self.node_api.finish(&["confirm"])?;
        self.node_api.finish(&["reboot"])?;
        let node = format!("node/{NODE}");
        let words = ["get", &node, "-o=jsonpath={.status.nodeInfo.bootID}"];
        let restarted = wait(NEW_NODE_TIMEOUT, || {
            let ran = self.cluster.kubectl.run(&words)?;
            let is_new = ran.code == Some(0) && ran.output != boot;
            Ok(if is_new { Seen::Yes(()) } else { Seen::NotYet(ran.output) })
        })?;
        outcome.claim("the control plane is there after a restart of the node", restarted);
        self.status(
            outcome,
            "the confirmed resource counts after it",
            &["made: true", "setBy: api"],
        )?;
        let words = ["create", "service", "nodeport", "again", "--tcp=80", "--node-port=20090"];
        self.cluster.claim(outcome, "the API server has the argument still", &words, "created")
    }

    /// Claims that the status has these lines sooner or later.
    fn status(&self, outcome: &mut Outcome, claim: &str, lines: &[&str]) -> Result<()> {
        let words = ["get", "controlplanestatuses", "node", "-o", "yaml"];
        // kubeadm waits for an API server that starts again.
        let found = wait(NEW_NODE_TIMEOUT, || {
            let status = self.node_api.run(&words)?.output;
            let has_all = lines.iter().all(|line| status.contains(line));
            Ok(if has_all { Seen::Yes(()) } else { Seen::NotYet(status) })
        })?;
        outcome.claim(claim, found);
        Ok(())
    }

    /// The identifier of the boot of the node.
    fn boot(&self) -> Result<String> {
        let node = format!("node/{NODE}");
        self.cluster.kubectl.output(&["get", &node, "-o=jsonpath={.status.nodeInfo.bootID}"])
    }
}
