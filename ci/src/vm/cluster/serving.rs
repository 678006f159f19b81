//! The certificate with which the kubelet serves `kubectl logs` and the like. Kubernetes has no
//! controller that approves a node's request for it, so an administrator does
//! (`https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/`).

use super::kubectl::Kubectl;
use super::wait::{Seen, wait};
use crate::check::Outcome;
use crate::site::{Ran, Site};
use osbuild::error::Result;
use std::process::Command;
use std::time::Duration;

/// The kubelet's port, and the address at which the API server expects it.
pub const PORT: u16 = 10250;
pub const ADDRESS: &str = "10.0.2.15:10250";

/// How long the kubelet may take to request its certificate, and to serve with it.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Finds the names of the requests.
const REQUESTS: [&str; 5] = [
    "get",
    "certificatesigningrequests",
    "--field-selector=spec.signerName=kubernetes.io/kubelet-serving",
    "-o",
    "jsonpath={.items[*].metadata.name}",
];

/// Without a certificate of the cluster the API server does not read logs from the node. It does
/// once the administrator has approved the request of the node.
pub fn the_cluster_signs_it(kubectl: &Kubectl, node: &str, outcome: &mut Outcome) -> Result<()> {
    outcome.claim("an unsigned kubelet is refused", refused(kubectl, node)?);
    let readable = approved(kubectl, node)?;
    outcome.claim("the logs of a pod are readable once the request is approved", readable);
    Ok(())
}

/// Approves requests until the API server reads logs from the node.
pub fn approved(kubectl: &Kubectl, node: &str) -> Result<std::result::Result<(), String>> {
    wait(TIMEOUT, || {
        // A kubelet that was restarted has another request.
        approve(kubectl)?;
        let ran = logs(kubectl, node)?;
        Ok(match ran.output.contains("eth0: ") {
            true => Seen::Yes(()),
            false => Seen::NotYet(ran.output),
        })
    })
}

/// Whether `kubectl` fails because of the kubelet's TLS.
fn refused(kubectl: &Kubectl, node: &str) -> Result<std::result::Result<(), String>> {
    wait(TIMEOUT, || {
        let ran = logs(kubectl, node)?;
        Ok(match ran.code != Some(0) && ran.output.contains("tls: ") {
            true => Seen::Yes(()),
            false => Seen::NotYet(ran.output),
        })
    })
}

/// Reads the logs of a pod that every node has.
fn logs(kubectl: &Kubectl, node: &str) -> Result<Ran> {
    kubectl.run(&["logs", "--namespace=kube-system", &format!("dhcp-{node}")])
}

/// The certificate with which the kubelet serves behind this port of the loopback, as PEM.
pub fn certificate(site: &Site, port: u16) -> Result<Option<String>> {
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-connect", &format!("127.0.0.1:{port}")]);
    let shown = site.run("kubelet-certificate", &mut openssl)?.output;
    Ok(first_certificate(&shown).map(str::to_owned))
}

/// The first certificate in an output.
fn first_certificate(shown: &str) -> Option<&str> {
    let (_, from) = shown.split_once("-----BEGIN CERTIFICATE-----")?;
    from.split_once("-----END CERTIFICATE-----").map(|(certificate, _)| certificate)
}

/// Approves every request that there is.
pub fn approve(kubectl: &Kubectl) -> Result<()> {
    let names = kubectl.output(&REQUESTS)?;
    let names: Vec<&str> = names.split_whitespace().collect();
    if names.is_empty() {
        return Ok(());
    }
    kubectl.output(&[&["certificate", "approve"], &names[..]].concat()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_certificate_shows_none() {
        let pem =
            |text: &str| format!("-----BEGIN CERTIFICATE-----{text}-----END CERTIFICATE-----\n");
        let shown = format!("CONNECTED(00000003)\n{}{}", pem("a"), pem("b"));
        assert_eq!(first_certificate(&shown), Some("a"));
        let none = "CONNECTED(00000003)\nno peer certificate available\n";
        assert_eq!(first_certificate(none), None);
    }
}
