//! A node whose token or certificate its cluster does not accept, or no longer.

use super::control_plane::{BIN, ControlPlane};
use super::joining::{NodeFile, Ports, bridge, document_with, install, join, join_with};
use super::kubectl::Kubectl;
use super::wait::{Seen, wait};
use super::{Cluster, TIMEOUT, serving, text};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::kept_disk::KeptDisk;
use crate::vm::machine::Machine;
use crate::vm::node::NodeUnderTest;
use crate::vm::probe::{self, free_port};
use osbuild::error::Result;
use osbuild_abi::paths::NODE_DOCUMENT;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long the first certificate is valid: long enough to become Ready with it.
const LIFETIME: Duration = Duration::from_secs(120);

/// Lines of the document for a cluster whose cloud has a controller, and what that makes of a node:
/// the taint until the controller has seen it.
const CLOUD: &str = "node-ip = [\"10.0.2.15\"]\ncloud-provider = \"external\"\n\
                     provider-id = \"example://lab/7\"\n";
const UNSEEN: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The signer of the certificates with which nodes are clients, and that of the kubelet's server.
const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVER: &str = "kubernetes.io/kubelet-serving";

/// The requests for certificates.
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// How long nothing may happen: several attempts of the kubelet.
const QUIET: Duration = Duration::from_secs(30);

/// How long the node may take to write its certificate to the disk.
const FLUSH: Duration = Duration::from_secs(10);

/// A document with a mistake in its second line.
const MISTAKE: &str = "[kubelet]\ntaint = []\n";

/// Lines of `init`.
const NO_CERTIFICATE: &str = "the kubelet has no certificate yet";
const REFUSED: &str = "is refused, the last accepted one stays in effect: line 2: unknown field";
const EXPIRED: &str =
    "the node's certificate has expired by the node's clock: it was valid until 20";
const OTHER_CA: &str = "its certificate is not from the CA that the node has";
const REPLACED: &str = "the node's certificate is from another cluster or CA";

/// The token of a node has expired before its first boot, which the console says, and a fresh one
/// makes the node Ready. It waits for the controller of its cloud, and renews its certificate, and
/// that of the kubelet's server, while it runs. Then the certificate of the node expires while the
/// node is off, and its token is revoked. The console says so, a document with a mistake changes
/// nothing, and one with a fresh token makes the node Ready. Then the cluster gets another CA. The
/// console says so, and a document with that CA makes the node Ready. It is the same node all the
/// time.
pub fn a_node_comes_back_with_a_fresh_token_or_ca(site: &Site) -> Result<Outcome> {
    let plane = ControlPlane::with_lifetime(site, LIFETIME)?;
    let mut cluster = Cluster { plane, outcome: Outcome::default() };
    let ports = Ports { place: free_port()?, socket: free_port()? };
    let kubelet = free_port()?;
    cluster.plane.egress().route(serving::ADDRESS, kubelet);
    let disk = KeptDisk::of(site, probe::RECIPE)?;
    let machine = |log: &str| -> Result<Machine> {
        let machine = Machine::of_recipe(site, probe::RECIPE, log)?.keep(disk.path());
        let machine = machine.forward(ports.place, probe::PLACE);
        Ok(machine.forward(ports.socket, probe::SOCKET).forward(kubelet, serving::PORT))
    };

    let mut node = machine("rejoining-first")?.boot()?;
    cluster.refuses_an_expired_token(site, &mut node, &ports)?;
    join_with(document_with(&cluster.plane, CLOUD)?, Vec::new(), &ports)?;
    let first = cluster.ready_node(&mut node, None)?;
    cluster.waits_for_its_cloud(&first);
    let (name, kubectl) = (text(&first, "/metadata/name"), Kubectl::new(site, &cluster.plane)?);
    cluster.renews_its_certificate(name)?;
    cluster.renews_its_servers_certificate(site, &kubectl, name, kubelet)?;
    std::thread::sleep(FLUSH);
    node.power_off()?;
    cluster.plane.revoke_token()?;
    std::thread::sleep(LIFETIME);
    // The next certificate has to be valid still when the CA is replaced: the kubelet replaces an
    // expired one by itself.
    cluster.plane.use_default_lifetime(site)?;

    let mut node = machine("rejoining-expired")?.boot()?;
    let booted = Instant::now();
    node.wait_until_printed(EXPIRED)?;
    let found = booted.elapsed();
    install(&[NodeFile::new(NODE_DOCUMENT, 0o600, MISTAKE)], &ports)?;
    node.wait_for(REFUSED)?;
    cluster.plane.issue_token()?;
    join(&cluster.plane, Vec::new(), &ports)?;
    let joined = Instant::now();
    let second = cluster.ready_node(&mut node, Some(&first))?;
    let mended = joined.elapsed();
    cluster.is_the_same(&first, &second)?;
    serving::the_cluster_signs_it(&kubectl, name, &mut cluster.outcome)?;
    std::thread::sleep(FLUSH);
    node.power_off()?;

    cluster.plane.rotate_authority(site)?;
    let mut node = machine("rejoining-another-ca")?.boot()?;
    node.wait_until_printed(OTHER_CA)?;
    join(&cluster.plane, Vec::new(), &ports)?;
    node.wait_for(REPLACED)?;
    let third = cluster.ready_node(&mut node, Some(&second))?;
    cluster.is_the_same(&first, &third)?;
    serving::the_cluster_signs_it(&kubectl, name, &mut cluster.outcome)?;
    let [found, mended] = [found, mended].map(|time| time.as_secs());
    cluster.outcome.summary = format!(
        "{name}, three certificates; an expired one found {found} s after READY, mended after \
         {mended} s"
    );
    Ok(cluster.outcome)
}

impl Cluster {
    /// The cluster gets no request for a certificate from a node whose token has expired. Then the
    /// cluster has a fresh token.
    fn refuses_an_expired_token(
        &mut self,
        site: &Site,
        node: &mut NodeUnderTest,
        ports: &Ports,
    ) -> Result<()> {
        self.plane.expire_token()?;
        let document = document_with(&self.plane, CLOUD)?;
        join_with(document, bridge(&site.project().join(BIN))?, ports)?;
        node.wait_until_printed(NO_CERTIFICATE)?;
        std::thread::sleep(QUIET);
        let requests = self.plane.api().list(REQUESTS)?.len();
        let claim = "a node with an expired token gets no certificate";
        self.outcome.check(claim, requests == 0, || format!("{requests} requests"));
        self.plane.revoke_token()?;
        self.plane.issue_token()
    }

    fn waits_for_its_cloud(&mut self, node: &Value) {
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let is_tainted = taints.iter().any(|taint| taint["key"] == UNSEEN);
        let why = || format!("{taints:?}");
        self.outcome.check("a node waits for the controller of its cloud", is_tainted, why);
        let id = text(node, "/spec/providerID");
        let has_id = id == "example://lab/7";
        self.outcome.check("it has the identifier of its cloud", has_id, || id.to_owned());
        let address = &node["metadata"]["annotations"]["alpha.kubernetes.io/provided-node-ip"];
        let has_address = address == "10.0.2.15";
        self.outcome
            .check("it has the address of its document", has_address, || address.to_string());
    }

    /// The first request is that of the token; the node makes the next one with its certificate.
    fn renews_its_certificate(&mut self, name: &str) -> Result<()> {
        let renewed = wait(TIMEOUT, || {
            Ok(match self.issued(CLIENT, name)? {
                0 => Seen::NotYet("the node has requested no certificate by itself".to_owned()),
                _ => Seen::Yes(()),
            })
        })?;
        self.outcome.claim("a node renews its certificate while it runs", renewed);
        Ok(())
    }

    /// The certificate with which the kubelet serves is valid for as short a time. An administrator
    /// approves each request for one. `port` leads to the kubelet.
    fn renews_its_servers_certificate(
        &mut self,
        site: &Site,
        kubectl: &Kubectl,
        name: &str,
        port: u16,
    ) -> Result<()> {
        let readable = serving::approved(kubectl, name)?;
        self.outcome.claim("the cluster signs the certificate of the kubelet's server", readable);
        let before = self.issued(SERVER, name)?;
        let mut served = BTreeSet::new();
        let renewed = wait(TIMEOUT, || {
            serving::approve(kubectl)?;
            // None is served after the end of one and before the approval of the next.
            served.extend(serving::certificate(site, port)?);
            let issued = self.issued(SERVER, name)?;
            Ok(match issued > before && served.len() > 1 {
                true => Seen::Yes(()),
                false => Seen::NotYet(format!("{issued} issued, {} served", served.len())),
            })
        })?;
        self.outcome.claim("the kubelet's server renews its certificate while it runs", renewed);
        Ok(())
    }

    /// How many certificates of this signer the node has got by requests of its own.
    fn issued(&self, signer: &str, name: &str) -> Result<usize> {
        let user = format!("system:node:{name}");
        let is_issued = |request: &&Value| {
            text(request, "/spec/signerName") == signer
                && text(request, "/spec/username") == user
                && !text(request, "/status/certificate").is_empty()
        };
        Ok(self.plane.api().list(REQUESTS)?.iter().filter(is_issued).count())
    }
}
