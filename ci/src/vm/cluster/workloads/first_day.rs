//! The features of a node that pods use on the first day, and the commands with which an
//! administrator operates them.

use super::super::control_plane::ControlPlane;
use super::super::kubectl::Kubectl;
use crate::check::Outcome;
use crate::site::Ran;
use osbuild::error::Result;
use std::time::Duration;

/// The objects of the claims.
const VOLUMES: &str = include_str!("volumes.yaml");
const BLOCK: &str = include_str!("block.yaml");
const LIFECYCLE: &str = include_str!("lifecycle.yaml");

/// How long a claim may take to hold.
const TIMEOUT: Duration = Duration::from_secs(300);

/// A claim, the words of `kubectl` that show it, separated by single spaces, and the text that its
/// output contains then. `NODE` in both stands for the node's name.
type Claim = (&'static str, &'static str, &'static str);

/// Claims about the pods, logs and figures of the node that the API shows.
const OBSERVED: [Claim; 10] = [
    (
        "a pod of the image is a pod as any other",
        "describe pod dhcp-NODE -n kube-system",
        "Running",
    ),
    ("a pod of the image has a log as any other", "logs dhcp-NODE -n kube-system", "eth0: "),
    ("the pod `time` is shown", "describe pod time-NODE -n kube-system", "Running"),
    ("the pod `time` has a log", "logs time-NODE -n kube-system", "queries "),
    (
        "the log of a daemon is readable through the API",
        "get --raw /api/v1/nodes/NODE/proxy/logs/init.log",
        "READY",
    ),
    (
        "the kubelet reports the figures of containers",
        "get --raw /api/v1/nodes/NODE/proxy/metrics/cadvisor",
        "container_memory_working_set_bytes",
    ),
    (
        "the kubelet reports the figures of the node",
        "get --raw /api/v1/nodes/NODE/proxy/metrics/resource",
        "node_cpu_usage_seconds_total",
    ),
    (
        "metrics-server runs",
        "rollout status deployment/metrics-server -n kube-system --timeout=300s",
        "successfully rolled out",
    ),
    ("`kubectl top` shows the node", "top node NODE", "NODE"),
    ("`kubectl top` shows a pod", "top pod client", "client"),
];

/// Claims about the files, variables and limits of the pod `volumes`, and about the groups and the
/// capabilities of the pod `identity`. `seLinuxOptions` have no effect: the kernel is built without
/// `SECURITY_SELINUX` (`components/linux/fragments/hardening.config`).
const ASKED: [Claim; 20] = [
    (
        "a ConfigMap is a file",
        "exec volumes -c main -- cat /settings/greeting",
        "from a config map",
    ),
    ("a ConfigMap is a variable", "exec volumes -c main -- printenv GREETING", "from a config map"),
    ("a subPath is one file", "exec volumes -c main -- cat /one/file", "from a config map"),
    ("a Secret is a file", "exec volumes -c main -- cat /password/password", "from a secret"),
    ("an init container runs first", "exec volumes -c main -- cat /memory/init", "from an init"),
    ("a sidecar runs beside", "exec volumes -c main -- cat /memory/sidecar", "from a sidecar"),
    ("a hostPath is the host's folder", "exec volumes -c main -- ls /log", "kubelet.log"),
    ("an emptyDir is in memory", "exec volumes -c main -- stat -f -c %T /memory", "tmpfs"),
    (
        "an emptyDir in memory has its limit",
        "exec volumes -c main -- stat -f -c %b*%S /memory",
        "4096*4096",
    ),
    ("a container runs as its user", "exec volumes -c main -- id -u", "65532"),
    (
        "a container has a seccomp profile",
        "exec volumes -c main -- cat /proc/self/status",
        "Seccomp:\t2",
    ),
    (
        "a container has no capabilities",
        "exec volumes -c main -- cat /proc/self/status",
        "CapBnd:\t0000000000000000",
    ),
    (
        "a container has no new privileges",
        "exec volumes -c main -- cat /proc/self/status",
        "NoNewPrivs:\t1",
    ),
    ("a root is read-only", "exec volumes -c main -- cat /proc/mounts", "overlay / overlay ro,"),
    (
        "a pod has its sysctls",
        "exec volumes -c main -- cat /proc/sys/net/ipv4/ip_unprivileged_port_start",
        "1000",
    ),
    ("a container runs as its group", "exec identity -- id -g", "3000"),
    ("a container has the groups of its pod", "exec identity -- id -G", "3000 2000 4000\n"),
    (
        "the node knows the policy of groups",
        "get node NODE -o jsonpath={.status.features.supplementalGroupsPolicy}",
        "true",
    ),
    ("a volume has the group of its pod", "exec identity -- stat -c %g:%A /files", "2000:drwxrwsr"),
    (
        "a container has only the capability that it adds",
        "exec identity -- cat /proc/self/status",
        "CapBnd:\t0000000000001000",
    ),
];

/// Claims about a raw block volume. The pod ends only once the kubelet has released the device.
const RAW: [Claim; 4] = [
    (
        "a raw block volume is a device in the pod",
        "exec block -- stat -c %F /dev/raw",
        "block special file",
    ),
    (
        "a pod writes to a raw block volume and reads it",
        "exec block -- head -n 1 /dev/raw",
        "from a raw block volume",
    ),
    (
        "the kubelet holds a raw block volume with a loop device",
        "exec block -- cat /sys/block/loop0/loop/backing_file",
        "/volumeDevices/disk/",
    ),
    ("a raw block volume is released", "delete pod block --timeout=200s", "deleted"),
];

/// Claims about the life of pods: their end, a resize, and ephemeral containers.
const LIFE: [Claim; 15] = [
    (
        "a job ends although its sidecar runs on",
        "wait --for=condition=Complete job/job --timeout=300s",
        "condition met",
    ),
    (
        "a container beyond its memory is killed",
        "get pod greedy -o jsonpath={.status.containerStatuses[0].state.terminated.reason}",
        "OOMKilled",
    ),
    ("a pod has users of its own", "exec users -c users -- cat /proc/self/uid_map", " 65536"),
    (
        "a ConfigMap belongs to root of a pod with users of its own",
        "exec users -c users -- stat -L -c owner:%u:%g /settings/greeting",
        "owner:0:0",
    ),
    (
        "an emptyDir belongs to root of a pod with users of its own",
        "exec users -c users -- stat -c owner:%u:%g /files",
        "owner:0:0",
    ),
    (
        "root of a pod with users of its own writes to its volume",
        "exec users -c users -- cp /settings/greeting /files/copy",
        "",
    ),
    (
        "files of /proc are masked",
        "exec users -c users -- stat -c %F /proc/timer_list",
        "character special file",
    ),
    (
        "an unmasked /proc is whole in a pod with users of its own",
        "exec users -c unmasked -- stat -c %F /proc/timer_list",
        "regular",
    ),
    (
        "a pod is resized",
        "patch pod resized --subresource=resize --patch-file=resize.yaml",
        "resized patched",
    ),
    (
        "a resize sets the processor's limit",
        "exec resized -- cat /sys/fs/cgroup/cpu.max",
        "20000 100000",
    ),
    (
        "a resize sets the memory's limit",
        "exec resized -- cat /sys/fs/cgroup/memory.max",
        "100663296",
    ),
    (
        "a resize restarts nothing",
        "get pod resized -o jsonpath=restarts:{.status.containerStatuses[0].restartCount}",
        "restarts:0",
    ),
    (
        "an ephemeral container starts in a running pod",
        "debug client --image=registry.k8s.io/e2e-test-images/agnhost:2.59 -c debugger \
         --target=client --quiet -- /agnhost pause",
        "",
    ),
    (
        "an ephemeral container sees its target",
        "exec client -c debugger -- cat /proc/1/cmdline",
        "netexec",
    ),
    (
        "`kubectl debug` shows the files of the node",
        "debug node/NODE --image=registry.k8s.io/e2e-test-images/agnhost:2.59 --quiet --attach \
         -- ls /host/bin",
        "containerd-shim-runc-v2",
    ),
];

/// The new limits of the pod `resized`.
const RESIZE: &str = "spec:\n  containers:\n    - name: resized\n      resources:\n        \
                      limits: { cpu: 200m, memory: 96Mi }\n        \
                      requests: { cpu: 200m, memory: 96Mi }\n";

/// Claims after a drain: the node is cordoned, and an administrator uncordons it.
const AFTER_DRAIN: [Claim; 3] = [
    (
        "a cordoned node gets no pods",
        "get pods -l app=web --field-selector=status.phase=Pending -o name",
        "pod/web-",
    ),
    ("the node is open again", "uncordon NODE", "uncordoned"),
    (
        "the Deployment is whole again",
        "rollout status deployment/web --timeout=300s",
        "successfully rolled out",
    ),
];

/// The containers of pods that a drain leaves. They are compared with those of before.
const LEFT: [(&str, &str); 2] = [
    (
        "a drain leaves the pod of a DaemonSet",
        "get pods -n kube-system -l k8s-app=kube-proxy \
         -o jsonpath={.items[*].status.containerStatuses[*].containerID}",
    ),
    (
        "a drain leaves the node's own pods",
        "get pods -n kube-system dhcp-NODE time-NODE \
         -o jsonpath={.items[*].status.containerStatuses[*].containerID}",
    ),
];

/// A complete drain. Pods of the checks belong to no controller, and have volumes that end with
/// them.
const DRAIN: &str = "drain NODE --ignore-daemonsets --delete-emptydir-data --force --timeout=400s";

/// The pods of the namespace `default` on the node.
const PODS_ON_NODE: &str = "get pods --field-selector=spec.nodeName=NODE -o name";

/// Claims after a complete drain.
const AFTER_COMPLETE_DRAIN: [Claim; 3] = [
    ("a drained node is open again", "uncordon NODE", "uncordoned"),
    (
        "the Deployment comes back after a complete drain",
        "rollout status deployment/web --timeout=300s",
        "successfully rolled out",
    ),
    (
        "CoreDNS comes back after a complete drain",
        "rollout status deployment/coredns -n kube-system --timeout=300s",
        "successfully rolled out",
    ),
];

/// A DaemonSet's rolling restart.
const RESTART: [Claim; 2] = [
    (
        "a DaemonSet is restarted",
        "rollout restart daemonset/kube-proxy --namespace=kube-system",
        "restarted",
    ),
    (
        "a DaemonSet's pods are replaced",
        "rollout status daemonset/kube-proxy --namespace=kube-system --timeout=300s",
        "successfully rolled out",
    ),
];

/// The node that the claims are about.
pub struct FirstDay<'a> {
    /// The administrator's program.
    pub kubectl: &'a Kubectl<'a>,
    /// Its cluster.
    pub plane: &'a ControlPlane,
    /// The node's name.
    pub node: &'a str,
}

impl FirstDay<'_> {
    /// The API alone shows what the node does.
    pub fn an_administrator_observes_the_node(&self, outcome: &mut Outcome) -> Result<()> {
        self.hold(&OBSERVED, outcome)
    }

    /// Pods get the volumes, limits and identity that they ask for.
    pub fn pods_get_what_they_ask(&self, outcome: &mut Outcome) -> Result<()> {
        self.kubectl.apply(VOLUMES)?;
        self.hold(&ASKED, outcome)?;
        let token = ["exec", "volumes", "-c", "main", "--", "cat", "/token/token"];
        let token = self.kubectl.output(&token)?;
        let user = self.kubectl.user_of_token(self.plane, token.trim())?;
        let is_known = user.contains("system:serviceaccount:default:default");
        outcome.check("a projected token is its service account's", is_known, || user);
        Ok(())
    }

    /// A pod has the node's second disk as a device.
    pub fn a_pod_has_a_raw_device(&self, outcome: &mut Outcome) -> Result<()> {
        self.kubectl.apply(BLOCK)?;
        self.hold(&RAW, outcome)
    }

    /// Pods end, are limited, are resized and are examined.
    pub fn pods_live_as_they_should(&self, outcome: &mut Outcome) -> Result<()> {
        self.kubectl.apply(LIFECYCLE)?;
        self.kubectl.write("resize.yaml", RESIZE)?;
        self.hold(&LIFE, outcome)
    }

    /// A drain respects the budget of the Deployment.
    pub fn an_administrator_drains_the_node(&self, outcome: &mut Outcome) -> Result<()> {
        let selected = ["--pod-selector=app=web", "--timeout=30s"];
        let ran = self.kubectl.run(&[&["drain", self.node][..], &selected].concat())?;
        let holds = ran.code != Some(0) && ran.output.contains("disruption budget");
        outcome.check("a drain leaves the pods that a budget needs", holds, || ran.output);
        self.hold(&AFTER_DRAIN, outcome)
    }

    /// The budget allows the eviction, and a drain ends with an empty node: all pods go but those
    /// of DaemonSets and the node's own. Then the node takes pods again.
    pub fn an_administrator_empties_the_node(&self, outcome: &mut Outcome) -> Result<()> {
        let allows = r#"{"spec": {"minAvailable": 0}}"#;
        self.kubectl.output(&["patch", "pdb", "web", "--type=merge", "-p", allows])?;
        let before = LEFT.iter().map(|(_, words)| Ok(self.run(words)?.output));
        let before = before.collect::<Result<Vec<_>>>()?;
        let is_shown = before.iter().all(|containers| containers.contains("containerd://"));
        outcome.check("the pods that a drain leaves run", is_shown, || before.join("; "));
        let drained = self.run(DRAIN)?;
        let is_drained = drained.code == Some(0);
        outcome.check("a drain ends once its budget allows it", is_drained, || drained.output);
        for ((claim, words), containers) in LEFT.iter().zip(&before) {
            self.holds(claim, words, containers.trim(), outcome)?;
        }
        let left = self.run(PODS_ON_NODE)?;
        let is_empty = left.code == Some(0) && !left.output.contains("pod/");
        outcome.check("a drained node has no other pods", is_empty, || left.output);
        self.hold(&AFTER_COMPLETE_DRAIN, outcome)
    }

    /// kube-proxy's DaemonSet restarts, which reads a changed configuration.
    pub fn kube_proxy_restarts(&self, outcome: &mut Outcome) -> Result<()> {
        self.hold(&RESTART, outcome)
    }

    fn hold(&self, claims: &[Claim], outcome: &mut Outcome) -> Result<()> {
        for (claim, words, expected) in claims {
            self.holds(claim, words, &expected.replace("NODE", self.node), outcome)?;
        }
        Ok(())
    }

    fn holds(&self, claim: &str, words: &str, expected: &str, outcome: &mut Outcome) -> Result<()> {
        let words = words.replace("NODE", self.node);
        let words: Vec<&str> = words.split(' ').collect();
        self.kubectl.claim(outcome, TIMEOUT, claim, &words, expected)
    }

    /// The output and the exit code of `kubectl` with these words.
    fn run(&self, words: &str) -> Result<Ran> {
        let words = words.replace("NODE", self.node);
        self.kubectl.run(&words.split(' ').collect::<Vec<_>>())
    }
}
