//! The processes that are connected to containerd, as `osd` shows them.

use super::node::{Node, words, yaml};
use crate::check::Outcome;
use crate::vm::probe;
use osbuild::error::{Error, Result};
use std::io::{BufRead, BufReader};

const TYPE: &str = "RuntimeClients";
/// The program that is always connected, as the probe names it.
const KUBELET: &str = "host kubelet ";

/// The kubelet is a client with the process identifier that the kernel shows the probe, and a pod
/// is one with its name as long as it is connected. Returns the control group of that pod's
/// container.
pub fn are_seen(node: &Node, outcome: &mut Outcome) -> Result<String> {
    let facts = probe::report(node.facts)?;
    let kubelet = facts.lines().find_map(|fact| fact.strip_prefix(KUBELET)?.split(' ').next());
    let kubelet = kubelet.ok_or_else(|| Error::build("the probe sees no kubelet").cause(&facts))?;
    let client = node.resource(TYPE, kubelet)?;
    let parts = ["program: /bin/kubelet\n", "cgroup: /system/kubelet\n"];
    let holds = parts.iter().all(|part| yaml(&client).contains(part));
    outcome.check("the kubelet is a client of containerd", holds, || client.to_string());
    let (mut pid, mut client) = (String::new(), None);
    probe::command(node.runtime, |stream| {
        BufReader::new(stream).read_line(&mut pid)?;
        pid.truncate(pid.trim_end().len());
        client = Some(node.resource(TYPE, &pid));
        Ok(())
    })?;
    let client = client.ok_or_else(|| Error::build("the probe has not connected"))??;
    let parts = ["program: /probe\n", "pod: kube-system/probe-", "connections: 1\n"];
    let holds = parts.iter().all(|part| yaml(&client).contains(part));
    outcome.check("so is a pod that connects, by its name", holds, || client.to_string());
    let is_gone = node.is_gone(TYPE, &pid)?;
    outcome.check("which is gone with its connection", is_gone, || pid);
    let about = words(yaml(&client)).replace("cgroup: >- ", "cgroup: ");
    let cgroup = about.split("cgroup: ").nth(1).and_then(|rest| rest.split(' ').next());
    cgroup
        .map(str::to_owned)
        .ok_or_else(|| Error::build("the pod has no control group").cause(client.to_string()))
}
