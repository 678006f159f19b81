//! A pod's AppArmor profile, as the API server gives it to the kubelet.

use super::wait::{Seen, wait};
use super::{Cluster, TIMEOUT, text};
use crate::vm::node::NodeUnderTest;
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

impl Cluster {
    /// Pods have the profile that they ask for, which forbids to mount.
    pub(super) fn pods_have_their_profiles(&mut self, machine: &mut NodeUnderTest) -> Result<()> {
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
        &self,
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
