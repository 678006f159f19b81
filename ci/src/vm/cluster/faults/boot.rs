//! A boot after which the cluster is away, and the network gives another address.

use super::Faults;
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::cluster::lab::Lab;
use crate::vm::cluster::serving;
use osbuild::error::Result;
use osbuild::ship::vm::network::{Network, Protocols};

/// The network of the second boot, and the names that it knows. The first one has the address of a
/// machine without a network, as the node's first boot.
const NETWORK: &str = "ci-faults";
const NAMES: [&str; 2] = ["as-before", "moved"];

/// Where the cluster shows the node's address.
const SHOWN: &str =
    "get node NODE -o jsonpath={.status.addresses[?(@.type==\"InternalIP\")].address}";

/// The node is ready by itself and says that its API server is away. It is Ready once that is back,
/// with its new address, and runs its pods.
pub fn a_node_boots_without_its_cluster(site: &Site) -> Result<Outcome> {
    let lab = Lab::new(site, "faults-at-boot")?;
    let mut faults = Faults::start(site, &lab, "faults-before-boot")?;
    faults.cluster.plane.stop_serving();
    let address = moved(site)?;
    let [_, name] = NAMES;
    let mut faults =
        faults.restart("faults-at-boot", |machine| machine.on_network(NETWORK, name))?;
    let away = format!("init: cluster: not Ready: ask {}", faults.api_server());
    faults.says("a node that boots without its cluster names the API server", &away)?;
    let kubelet = format!("{address}:{}", serving::PORT);
    faults.cluster.plane.egress().route(&kubelet, lab.kubelet);
    faults.cluster.plane.serve(site)?;
    faults.is_ready_again()?;
    faults.hold("the cluster shows the node's new address", SHOWN, &address)?;
    let readable = serving::approved(&faults.kubectl, faults.name())?;
    faults.cluster.outcome.claim("logs are readable at the new address", readable);
    faults.deployment_runs("a Deployment runs after a boot without the cluster")?;
    faults.end()
}

/// The node's address at its second boot.
fn moved(site: &Site) -> Result<String> {
    let shared = Some(NETWORK.to_owned());
    let network = Network { protocols: Protocols::Both, shared };
    let [before, after] = NAMES.map(|name| network.address(&site.machine, Some(name)));
    before.and(after)
}

impl Faults<'_> {
    /// The address and port of the API server.
    fn api_server(&self) -> String {
        self.cluster.plane.server().replace("https://", "")
    }
}
