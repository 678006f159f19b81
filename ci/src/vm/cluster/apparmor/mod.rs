//! A pod's AppArmor profile, as the API server gives it to the kubelet.

mod loaded;

use super::control_plane::{BIN, ControlPlane};
use super::joining::{Ports, bridge, join};
use super::kubectl::Kubectl;
use super::registry::Registry;
use super::wait::{Seen, wait};
use super::{Cluster, TIMEOUT, serving, text};
use crate::check::Outcome;
use crate::site::Site;
use crate::vm::machine::Machine;
use crate::vm::node::NodeUnderTest;
use crate::vm::probe::{self, free_port};
use osbuild::error::Result;
use serde_json::{Value, json};

/// The namespace of the pods: it has no others that a claim counts.
const PODS: &str = "/api/v1/namespaces/kube-system/pods";

/// The name of a pod, the type of its profile, and its report. Both may mount by their capabilities
/// and by seccomp.
const REPORTS: [(&str, &str, &str); 2] = [
    ("confined", "RuntimeDefault", "cri-containerd.apparmor.d (enforce), mount: EACCES"),
    ("unconfined", "Unconfined", "unconfined, mount: ok"),
];

/// Pods of a node with AppArmor have the profile that they ask for: none, containerd's, or one that
/// another pod has loaded.
pub fn pods_have_the_profiles_that_they_ask_for(site: &Site) -> Result<Outcome> {
    let mut cluster = Cluster { plane: ControlPlane::start(site)?, outcome: Outcome::default() };
    let registry = Registry::start(site, cluster.plane.authority())?;
    registry.push_all(site, &[loaded::image(site)?])?;
    let kubectl = Kubectl::new(site, &cluster.plane)?;
    let ports = Ports { place: free_port()?, socket: free_port()? };
    let kubelet = free_port()?;
    cluster.plane.egress().route(serving::ADDRESS, kubelet);
    let mut node = Machine::of_recipe(site, probe::APPARMOR_RECIPE, "apparmor")?
        .forward(ports.place, probe::PLACE)
        .forward(ports.socket, probe::SOCKET)
        .forward(kubelet, serving::PORT)
        .boot()?;
    let mut files = bridge(&site.project().join(BIN))?;
    files.extend(registry.node_files(cluster.plane.authority())?);
    join(&cluster.plane, files, &ports)?;
    let found = cluster.ready_node(&mut node, None)?;
    cluster.pods_have_their_profiles(&mut node)?;
    serving::the_cluster_signs_it(&kubectl, text(&found, "/metadata/name"), &mut cluster.outcome)?;
    loaded::confines_a_pod(&kubectl, &mut cluster.outcome)?;
    Ok(cluster.outcome)
}

impl Cluster {
    /// Pods have the profile that they ask for, which forbids to mount.
    fn pods_have_their_profiles(&mut self, machine: &mut NodeUnderTest) -> Result<()> {
        for (name, kind, _) in REPORTS {
            self.plane.api().create(PODS, &pod(name, kind))?;
        }
        for (name, kind, report) in REPORTS {
            let claim = format!("a pod with the AppArmor profile `{kind}` has it");
            let reported = self.report_of(machine, name)?;
            let holds = reported.and_then(|found| match found == report {
                true => Ok(()),
                false => Err(found),
            });
            self.outcome.claim(&claim, holds);
        }
        Ok(())
    }

    /// The message of a pod's container once it has ended, or why it has not.
    fn report_of(
        &mut self,
        machine: &mut NodeUnderTest,
        name: &str,
    ) -> Result<std::result::Result<String, String>> {
        wait(TIMEOUT, || {
            self.plane.is_running()?;
            machine.is_running()?;
            let pods = self.plane.api().list(PODS)?;
            let pod = pods.iter().find(|pod| text(pod, "/metadata/name") == name);
            let state = pod.map_or(&Value::Null, |pod| &pod["status"]["containerStatuses"][0]);
            let message = text(state, "/state/terminated/message");
            Ok(match message.is_empty() {
                true => Seen::NotYet(format!("its container is {}", state["state"])),
                false => Seen::Yes(message.to_owned()),
            })
        })
    }
}

fn pod(name: &str, kind: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "hostNetwork": true,
            "restartPolicy": "Never",
            "containers": [{
                "name": "reports",
                "image": "localhost/probe:1",
                "imagePullPolicy": "Never",
                "args": ["confined"],
                "securityContext": {
                    "appArmorProfile": { "type": kind },
                    "seccompProfile": { "type": "RuntimeDefault" },
                    "capabilities": { "add": ["SYS_ADMIN"] },
                },
            }],
        },
    })
}
