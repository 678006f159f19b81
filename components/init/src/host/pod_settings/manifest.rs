//! The manifest of a static pod: what the setting says, and defaults that give the pod no right on
//! its node. It is pure.

use osbuild_protocol::{
    ByteSize, ContainerSecurity, PodContainer, PodSpec, PodText, PodVolume, Probe, ProbeAction,
    ProbeTiming, Resources, RestartPolicy, StaticPod, VolumeMount, VolumeSource,
};
use serde_json::{Map, Value, json};

/// The memory that a container has at most, if it says nothing.
const DEFAULT_MEMORY: ByteSize = ByteSize::of(512 << 20);
/// The memory that the kubelet keeps for such a container. Without a request, the limit is one, and
/// a small node would have no room for a few pods.
const DEFAULT_REQUEST: ByteSize = ByteSize::of(16 << 20);
/// How long a pod may take to end, if it says nothing, in seconds.
const DEFAULT_GRACE: u32 = 30;

/// The text of the manifest, in JSON.
pub fn text(pod: &StaticPod) -> String {
    let PodSpec { name, namespace, restart, grace_seconds, .. } = pod.spec();
    let mut spec = json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        // The kubelet evicts pods of a lower number for a static pod: none of the node's own has
        // one.
        "priority": 0,
        "restartPolicy": restart.unwrap_or(RestartPolicy::Always).word(),
        "terminationGracePeriodSeconds": grace_seconds.unwrap_or(DEFAULT_GRACE),
        "securityContext": { "seccompProfile": { "type": "RuntimeDefault" } },
    });
    let PodSpec { host_network, host_pid, volumes, init_containers, containers, .. } = pod.spec();
    for (key, is_on) in [("hostNetwork", host_network), ("hostPID", host_pid)] {
        if *is_on {
            spec[key] = json!(true);
        }
    }
    for (key, all) in [("initContainers", init_containers), ("containers", containers)] {
        if !all.is_empty() {
            spec[key] = all.iter().map(container).collect();
        }
    }
    if !volumes.is_empty() {
        spec["volumes"] = volumes.iter().map(volume).collect();
    }
    let manifest = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name.as_str(), "namespace": namespace.as_str() },
        "spec": spec,
    });
    format!("{manifest:#}\n")
}

fn container(one: &PodContainer) -> Value {
    let mut value = json!({
        "name": one.name.as_str(),
        "image": one.image.to_string(),
        "resources": resources(one.requests, one.limits),
        "securityContext": security(&one.security),
    });
    if let Some(pull) = one.pull {
        value["imagePullPolicy"] = json!(pull.word());
    }
    for (key, words) in [("command", &one.command), ("args", &one.arguments)] {
        if !words.is_empty() {
            value[key] = words.iter().map(PodText::as_str).collect();
        }
    }
    if !one.environment.is_empty() {
        let variables = one.environment.iter();
        value["env"] = variables
            .map(|(name, text)| json!({ "name": name.as_str(), "value": text.as_str() }))
            .collect();
    }
    if !one.ports.is_empty() {
        let ports = one.ports.iter();
        value["ports"] = ports
            .map(|port| json!({ "containerPort": port.port, "protocol": port.protocol.word() }))
            .collect();
    }
    if !one.mounts.is_empty() {
        value["volumeMounts"] = one.mounts.iter().map(mount).collect();
    }
    for (kind, probe) in Probe::KINDS.into_iter().zip(&one.probes) {
        if let Some(wanted) = probe {
            value[format!("{kind}Probe")] = self::probe(wanted);
        }
    }
    value
}

fn resources(requests: Resources, limits: Resources) -> Value {
    let requested = requests.memory.or(limits.memory.is_none().then_some(DEFAULT_REQUEST));
    let memory = limits.memory.or(requests.memory.max(Some(DEFAULT_MEMORY)));
    let requests = Resources { memory: requested, ..requests };
    let amounts = |Resources { cpu, memory }: Resources| {
        let mut amounts = Map::new();
        amounts.extend(cpu.map(|cpu| ("cpu".to_owned(), json!(cpu.to_string()))));
        amounts.extend(memory.map(|memory| ("memory".to_owned(), json!(memory.to_string()))));
        amounts
    };
    let mut all = json!({ "limits": amounts(Resources { memory, ..limits }) });
    if requests != Resources::default() {
        all["requests"] = json!(amounts(requests));
    }
    all
}

fn security(security: &ContainerSecurity) -> Value {
    let ContainerSecurity { run_as_user, run_as_group, read_only_root, privileged, .. } = security;
    let capabilities: Vec<&str> = security.capabilities.iter().map(|one| one.as_str()).collect();
    let mut value = json!({
        "readOnlyRootFilesystem": read_only_root,
        // Kubernetes refuses a privileged container that may not gain rights.
        "allowPrivilegeEscalation": privileged,
        "capabilities": { "drop": ["ALL"] },
    });
    if !capabilities.is_empty() {
        value["capabilities"]["add"] = json!(capabilities);
    }
    if *privileged {
        value["privileged"] = json!(true);
    }
    for (key, id) in [("runAsUser", run_as_user), ("runAsGroup", run_as_group)] {
        if let Some(id) = id {
            value[key] = json!(id);
        }
    }
    value
}

fn mount(VolumeMount { volume, path, read_only }: &VolumeMount) -> Value {
    json!({ "name": volume.as_str(), "mountPath": path.as_str(), "readOnly": read_only })
}

fn volume(PodVolume { name, source }: &PodVolume) -> Value {
    match source {
        VolumeSource::Empty { in_memory, size } => {
            let mut folder = json!({ "sizeLimit": size.to_string() });
            if *in_memory {
                folder["medium"] = json!("Memory");
            }
            json!({ "name": name.as_str(), "emptyDir": folder })
        }
        // Without it, the kubelet would make what is missing.
        VolumeSource::Host(path) => json!({
            "name": name.as_str(),
            "hostPath": { "path": path.as_str(), "type": "Directory" },
        }),
    }
}

fn probe(probe: &Probe) -> Value {
    let mut value = match probe.action() {
        ProbeAction::Exec(words) => {
            let words: Vec<&str> = words.iter().map(PodText::as_str).collect();
            json!({ "exec": { "command": words } })
        }
        ProbeAction::HttpGet { port, path } => {
            json!({ "httpGet": { "port": port, "path": path.as_str() } })
        }
        ProbeAction::TcpSocket { port } => json!({ "tcpSocket": { "port": port } }),
    };
    let ProbeTiming { initial_delay, period, timeout, failures } = probe.timing();
    for (key, number) in [
        ("initialDelaySeconds", initial_delay),
        ("periodSeconds", period),
        ("timeoutSeconds", timeout),
        ("failureThreshold", failures),
    ] {
        if number > 0 {
            value[key] = json!(number);
        }
    }
    value
}
