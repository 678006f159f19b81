//! A node joins by a resource. A pod with a projected token asks the API of its node, as the
//! documentation shows.

use super::control_plane::ControlPlane;
use super::held_label;
use super::images;
use super::joining::{Ports, install};
use super::kept_image::starts_without_its_registry;
use super::kubectl::Kubectl;
use super::lab::{DISK_MIB, SINGLE};
use super::node_api::NodeApi;
use super::pods_swap::pods_have_a_part_of_the_swap;
use super::registry::Registry;
use super::shown_setting;
use super::{Cluster, serving, set_join, text};
use crate::check::Outcome;
use crate::recipe;
use crate::site::Site;
use crate::vm::kept_disk::KeptDisk;
use crate::vm::machine::Machine;
use crate::vm::probe::{self, free_port};
use osbuild::error::{Error, Result};
use osbuild_abi::osd::PORT;
use std::time::Duration;

/// The page with the example, and the placeholder for the keys of a cluster.
const PAGE: &str = include_str!("../../../../builder/docs/pods-as-clients.md");
const KEYS: &str = "    KEYS\n";

/// The name of the image of the example: `osctl`, built as its documentation says.
const IMAGE: &str = "example/osctl";

/// The recipe, and the lines that it adds to that with a bridge for pods.
const RECIPE: &str = "pods-as-clients";
const PODS: &str = "
[pods]
probe = { component = \"probe\" }
osd = { component = \"osd\" }

[api]
clients = \"keys/dev/api.crt\"
cluster-join = true
";

/// Where pods reach the node.
const ADDRESS: &str = "10.0.2.15";

/// The arguments of `osctl` in the example, and those that apply a setting instead.
const READS: &str = "args: [get, hostnamestatuses, -w]";
const APPLIES: &str = "args: [apply, -f, /etc/osctl/nodes/dns.yaml]";
const SETTING: &str = "data:
  dns.yaml: |
    type: Resolver
    id: by-a-pod
    spec: { nameserver: 192.0.2.7 }
";

/// The time that a pod may take which was started again.
const TIMEOUT: Duration = Duration::from_secs(240);

/// A resource makes the node join, and leave at the end. A pod reads the settings of its node with
/// the token of its ServiceAccount, and the node verifies it by the keys of a real API server. The
/// pod may not change them before its binding says so. Another ServiceAccount, and a token of no
/// pod, may do nothing. A pod starts from an image that the node keeps while the registry is away,
/// and one has a part of the node's swap. A label of a resource is put back in the cluster, which
/// shows a setting that is not in effect. Both resources outlast a power cut.
pub fn pods_are_clients_of_their_node(site: &Site) -> Result<Outcome> {
    let mut cluster = Cluster { plane: ControlPlane::start(site)?, outcome: Outcome::default() };
    let mut registry = Registry::start(site, cluster.plane.authority())?;
    registry.push_all(site, &[images::of_package(site, "osctl", IMAGE)?])?;
    let project = site.root.join("out/ci").join(RECIPE);
    site.copy_to(&project)?;
    recipe::inherit(site, &project, RECIPE, SINGLE, PODS)?;
    let disk = KeptDisk::in_project(&project, RECIPE)?;
    let ports = Ports { place: free_port()?, socket: free_port()? };
    let (kubelet, api) = (free_port()?, free_port()?);
    let boot = |log: &str| {
        Machine::of_recipe_in(site, &project, RECIPE, log)?
            .keep(disk.path())
            .disk_size(DISK_MIB)
            .forward(ports.place, probe::PLACE)
            .forward(ports.socket, probe::SOCKET)
            .forward(kubelet, serving::PORT)
            .forward(api, PORT)
            .boot()
    };
    let mut running = boot("pods-as-clients-first")?;
    cluster.plane.egress().route(serving::ADDRESS, kubelet);
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    install(&registry.node_files(cluster.plane.authority())?, &ports)?;
    let node_api = NodeApi::new(site, &project, kubectl.file("node-api"))?;
    let fingerprint = node_api.add_node(api, &mut running)?;
    let node = set_join::joins(&mut cluster, &node_api, &mut running)?;
    let name = text(&node, "/metadata/name").to_owned();
    let example = Example { kubectl, node_api, name, fingerprint };
    let approved = serving::approved(&example.kubectl, &example.name)?;
    cluster.outcome.claim("the logs of pods are readable", approved);
    example.runs(&mut cluster.outcome)?;
    let Example { kubectl, node_api, .. } = &example;
    starts_without_its_registry(site, &mut registry, kubectl, node_api, &mut cluster.outcome)?;
    pods_have_a_part_of_the_swap(kubectl, node_api, &mut cluster.outcome)?;
    held_label::is_put_back(kubectl, node_api, &example.name, &mut cluster.outcome)?;
    let outcome = &mut cluster.outcome;
    shown_setting::is_a_problem_of_the_host(kubectl, node_api, &example.name, outcome)?;
    running.power_off()?;
    held_label::is_changed(kubectl, &example.name)?;
    let mut running = boot("pods-as-clients-again")?;
    set_join::joins_after_a_power_cut(&mut cluster, &mut running, &node)?;
    // The label comes from `init`, which needs no `osd`.
    running.wait_until_printed(&format!("serves the node API as {}", example.fingerprint))?;
    let outcome = &mut cluster.outcome;
    let name = &example.name;
    held_label::is_put_back_after_a_power_cut_and_goes(kubectl, node_api, name, outcome)?;
    set_join::leaves(&mut cluster, &example.node_api)?;
    let Outcome { passed, summary, .. } = &mut cluster.outcome;
    *summary = format!("{passed} claims");
    Ok(cluster.outcome)
}

/// The example of the page, on a node.
struct Example<'a> {
    kubectl: Kubectl<'a>,
    /// `osctl`, for the administrator of the node.
    node_api: NodeApi<'a>,
    /// The node in its cluster, and its fingerprint.
    name: String,
    fingerprint: String,
}

impl Example<'_> {
    fn runs(&self, outcome: &mut Outcome) -> Result<()> {
        let observer = self.observer()?;
        self.kubectl.apply(&observer)?;
        let refusal = "it takes no tokens, only certificates";
        self.shows(outcome, "no token counts without an issuer", refusal)?;
        let issuer = self.issuer()?;
        self.node_api.apply("issuer.yaml", &issuer, &[])?;
        self.shows(outcome, "a pod reads the settings of its node", "created  node ")?;
        let record = self.node_api.finish(&["logs", "osd"])?;
        let who = "call: reader \"system:serviceaccount:fleet:observer\" in pod \"observer-";
        let is_recorded = record.contains(who) && record.contains(&format!("{:?}", self.name));
        outcome.check("the record names the pod", is_recorded, || record);

        let changes = observer.replace("data:\n", SETTING).replace(READS, APPLIES);
        self.kubectl.apply(&changes)?;
        self.shows(outcome, "it may not change them", "needs the role `operator`")?;
        let found = self.node_api.finish(&["get", "resolvers", "-o", "name"])?;
        outcome.check("and has changed nothing", found.is_empty(), || found);
        let operator = issuer.replace("role: reader", "role: operator");
        self.node_api.apply("operator.yaml", &operator, &[])?;
        self.shows(outcome, "it may with another role", "unchanged Resolvers.osbuild/by-a-pod")?;

        let other = changes.replace("serviceAccountName: observer", "serviceAccountName: default");
        self.kubectl.apply(&other)?;
        self.shows(outcome, "another ServiceAccount may do nothing", "has no role here")?;
        self.a_token_of_no_pod_does_not_count(outcome)
    }

    fn a_token_of_no_pod_does_not_count(&self, outcome: &mut Outcome) -> Result<()> {
        let create = ["create", "token", "observer", "--namespace=fleet"];
        let audience = ["--audience=node-api.osbuild", "--duration=10m"];
        let token = self.kubectl.output(&[&create[..], &audience[..]].concat())?;
        self.kubectl.write("token", token.trim())?;
        let file = self.kubectl.file("token").display().to_string();
        let ran = self.node_api.run(&["--token-file", &file, "get", "resolvers"])?;
        let is_refused = ran.code == Some(1) && ran.output.contains("is of no pod on the node");
        outcome.check("a token of no pod does not count", is_refused, || ran.output);
        Ok(())
    }

    /// The log of the example's pod has the text sooner or later.
    fn shows(&self, outcome: &mut Outcome, claim: &str, text: &str) -> Result<()> {
        let logs = ["logs", "--namespace=fleet", "daemonset/observer"];
        self.kubectl.claim(outcome, TIMEOUT, claim, &logs, text)
    }

    /// The issuer of the page, with the keys of the cluster.
    fn issuer(&self) -> Result<String> {
        let keys = self.kubectl.output(&["get", "--raw", "/openid/v1/jwks"])?;
        let keys = format!("    {}\n", keys.trim());
        Ok(block("# issuer.yaml\n")?.replace(KEYS, &keys))
    }

    /// The objects of the page, for this node.
    fn observer(&self) -> Result<String> {
        let objects = block("# observer.yaml\n")?;
        let objects = objects.replace("NODE.toml", &format!("{}.toml", self.name));
        Ok(objects.replace("ADDRESS", ADDRESS).replace("FINGERPRINT", &self.fingerprint))
    }
}

/// The block of the page that begins with this line.
fn block(first: &str) -> Result<String> {
    let mut blocks = PAGE.split("```yaml\n").filter_map(|rest| rest.split("```").next());
    let block = blocks.find(|block| block.starts_with(first));
    block.map(str::to_owned).ok_or_else(|| Error::build(format!("the page has no `{first}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_what_the_check_replaces() {
        let (issuer, objects) =
            (block("# issuer.yaml\n").unwrap(), block("# observer.yaml\n").unwrap());
        assert!(issuer.contains(KEYS) && issuer.contains("role: reader"));
        for text in ["NODE.toml", "ADDRESS:", "FINGERPRINT", "data:\n", READS, "example/osctl:1"] {
            assert!(objects.contains(text), "{text}");
        }
        assert!(objects.contains("serviceAccountName: observer"));
    }
}
