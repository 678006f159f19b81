//! A node whose network has IPv6 alone, and later both protocols.

use super::addons::{self, DOMAIN, ProxyMode};
use super::control_plane::ControlPlane;
use super::images::AGNHOST;
use super::joining::{self, install};
use super::kubectl::Kubectl;
use super::lab::Lab;
use super::registry::Registry;
use super::wait::{Seen, wait};
use super::workloads::DEPLOYMENT;
use super::workloads::client::{Client, get_script};
use super::{Cluster, TIMEOUT, serving, text};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::machine::Protocols;
use osbuild::error::{Context, Error, Result};
use serde_json::Value;

/// The addresses of the node's pods (`recipes/10-bridge.conflist`), as the cluster has them.
const PODS: &str = "fd00:10:88::/64,10.88.0.0/16";

/// The start of the node's address in the network of QEMU.
const PREFIX: &str = "fec0:";
/// The line of its document that has its pods prefer that family.
const ANY_OF_IPV6: &str = "node-ip = [\"::\"]\n";
/// The name server in the network of QEMU, which announces it only if this host has one by IPv6.
const RESOLVER: &str = "[resolver]\nnameserver = [\"fec0::3\"]\n";
/// Its address by IPv4.
const ADDRESS4: &str = "10.0.2.15";

/// The Service of the Deployment, and the same with an address of each family.
const SERVICE: &str = "  type: NodePort\n";
const BOTH: &str = "  type: NodePort\n  ipFamilyPolicy: RequireDualStack\n";

/// How long a pod may take to start and to get its answer.
const WAIT: &str = "--timeout=300s";

/// A node whose network has no IPv4 joins a cluster, and runs its pods, which have an address of
/// each family and reach a Service by its name and both of its addresses. Then its power fails, and
/// its network has IPv4 as well: with both addresses in its document it is the same node with both,
/// and its port of the Service answers by IPv4.
pub fn a_node_joins_by_ipv6_and_has_both_protocols_later(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "dual-stack")?;
    let plane = ControlPlane::dual_stack(site)?;
    let registry = Registry::start_with_first_images(site, plane.authority())?;
    let kubectl = Kubectl::new(site, &plane)?;
    let mut cluster = Cluster { plane, outcome: Outcome::default() };
    let files = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    for file in registry.node_files_by_ipv6(cluster.plane.authority())? {
        file.write_below(files.path())?;
    }
    let document = joining::document_with(&cluster.plane, ANY_OF_IPV6)?.with(RESOLVER);
    document.write_below(files.path())?;
    let machine = lab.machine("dual-stack-ipv6")?.protocols(Protocols::Ipv6);
    let mut node = machine.files(files.path())?.boot()?;
    let first = cluster.ready_node(&mut node, None)?;
    let address = cluster.address_of_ipv6(&first)?;
    addons::deploy(site, &cluster.plane, ProxyMode::Nftables, PODS)?;
    kubectl.apply(&DEPLOYMENT.replace(SERVICE, BOTH))?;
    let client = Client { kubectl: &kubectl, node_port: lab.node_port };
    client.rolls_out(&mut cluster.outcome)?;
    cluster.pods_have_both_families()?;
    cluster.reaches_the_service(&kubectl)?;
    drop(node);

    let mut node = lab.machine("dual-stack-both")?.boot()?;
    let addresses = format!("node-ip = [\"{address}\", \"{ADDRESS4}\"]\n");
    let document = joining::document_with(&cluster.plane, &addresses)?.with(RESOLVER);
    install(&[document], &lab.ports)?;
    let second = cluster.ready_node(&mut node, Some(&first))?;
    cluster.is_the_same(&first, &second)?;
    cluster.has_addresses(&[&address, ADDRESS4])?;
    let kubelet = format!("[{address}]:{}", serving::PORT);
    cluster.plane.egress().route(&kubelet, lab.kubelet);
    let readable = serving::approved(&kubectl, text(&second, "/metadata/name"))?;
    cluster.outcome.claim("logs are readable at its address of IPv6", readable);
    client.rolls_out(&mut cluster.outcome)?;
    cluster.pods_have_both_families()?;
    client.reaches_the_service(&mut cluster.outcome, " with both protocols")?;
    cluster.outcome.summary = format!("{address}, {} claims", cluster.outcome.passed);
    Ok(cluster.outcome)
}

impl Cluster {
    /// The node's only address in its cluster.
    fn address_of_ipv6(&mut self, node: &Value) -> Result<String> {
        match &addresses(node)[..] {
            [address] if address.starts_with(PREFIX) => {
                self.outcome.passed += 1;
                Ok(address.clone())
            }
            others => Err(Error::build("the node has not one address, of IPv6, in its cluster")
                .cause(others.join(", "))),
        }
    }

    /// The node gets these addresses in its cluster, in this order.
    fn has_addresses(&mut self, expected: &[&str]) -> Result<()> {
        let seen = wait(TIMEOUT, || {
            let found = self.plane.api().list("/api/v1/nodes")?;
            let found = found.first().map(addresses).unwrap_or_default();
            Ok(if found == expected { Seen::Yes(()) } else { Seen::NotYet(found.join(", ")) })
        })?;
        self.outcome.claim("it has the addresses of its document, the first one first", seen);
        Ok(())
    }

    /// Each pod of the Deployment has an address of IPv6, and one of IPv4 after it.
    fn pods_have_both_families(&mut self) -> Result<()> {
        let seen = wait(TIMEOUT, || {
            let path = "/api/v1/namespaces/default/pods?labelSelector=app=web";
            let pods = self.plane.api().list(path)?;
            let found: Vec<String> =
                pods.iter().map(|pod| pod["status"]["podIPs"].to_string()).collect();
            let address = |pod: &Value, place: &str| text(pod, place).to_owned();
            let has_both = |pod: &Value| {
                address(pod, "/status/podIPs/0/ip").contains(':')
                    && address(pod, "/status/podIPs/1/ip").contains('.')
            };
            let all = !pods.is_empty() && pods.iter().all(has_both);
            Ok(if all { Seen::Yes(()) } else { Seen::NotYet(found.join(", ")) })
        })?;
        self.outcome.claim("each pod has an address of both families", seen);
        Ok(())
    }

    /// A pod gets an answer of the Service by its name, and by each of its addresses. The API
    /// server does not reach the node, so the pod of a Job asks, and ends.
    fn reaches_the_service(&mut self, kubectl: &Kubectl) -> Result<()> {
        let words = ["get", "service", "web", "--output=jsonpath={.spec.clusterIPs[*]}"];
        let found = kubectl.output(&words)?;
        let [address6, address4] = found.split_whitespace().collect::<Vec<_>>()[..] else {
            return Err(Error::build("the Service has not two addresses").cause(found));
        };
        let name = format!("web.default.svc.{DOMAIN}");
        for (job, claim, host) in [
            ("by-name", "its name", name.as_str()),
            ("by-ipv6", "its address of IPv6", address6),
            ("by-ipv4", "its address of IPv4", address4),
        ] {
            let get = get_script(host, 80, "/hostname");
            let script = format!("until [[ $({get}) == *web-* ]]; do sleep 1; done");
            let image = format!("--image=registry.k8s.io/e2e-test-images/agnhost:{AGNHOST}");
            kubectl.output(&["create", "job", job, &image, "--", "bash", "-c", &script])?;
            let job = format!("job/{job}");
            let complete = kubectl.run(&["wait", "--for=condition=Complete", &job, WAIT])?;
            let why = || Err(complete.output.clone());
            let holds = if complete.code == Some(0) { Ok(()) } else { why() };
            self.outcome.claim(&format!("a pod reaches a Service by {claim}"), holds);
        }
        Ok(())
    }
}

/// The addresses of a node's object.
fn addresses(node: &Value) -> Vec<String> {
    let all = node["status"]["addresses"].as_array().cloned().unwrap_or_default();
    let internal = all.iter().filter(|address| address["type"] == "InternalIP");
    internal.map(|address| text(address, "/address").to_owned()).collect()
}
