//! The text of the files.

use super::authority::Pair;
use super::{NewCluster, Nodes};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The address of the name server of pods with kubeadm's default range of Services, and the domain
/// of Services.
const DNS: &str = "10.96.0.10";
const DOMAIN: &str = "cluster.local";

/// The rest of the configuration for [`Nodes::Slow`]. By default a leader that has not written to
/// etcd for 10 s ends, and etcd's members elect another one after a silence of 1 s. The values of
/// etcd are in milliseconds.
const MORE_TIME: &str = r#"# The nodes are slow.
controllerManager:
  extraArgs:
  - { name: leader-elect-lease-duration, value: 120s }
  - { name: leader-elect-renew-deadline, value: 100s }
  - { name: leader-elect-retry-period, value: 10s }
scheduler:
  extraArgs:
  - { name: leader-elect-lease-duration, value: 120s }
  - { name: leader-elect-renew-deadline, value: 100s }
  - { name: leader-elect-retry-period, value: 10s }
etcd:
  local:
    extraArgs:
    - { name: heartbeat-interval, value: "1000" }
    - { name: election-timeout, value: "10000" }
"#;

/// The arguments of the API server for [`Nodes::Slow`]. By default it is not ready when etcd has
/// not answered for 2 s.
const MORE_TIME_OF_SERVER: &str = "  extraArgs:
  - { name: etcd-healthcheck-timeout, value: 60s }
  - { name: etcd-readycheck-timeout, value: 60s }
";

/// The folder of patches of kubeadm's static pods.
pub const PATCHES: &str = "/etc/kubernetes/patches";

/// The patch of a server's static pod for [`Nodes::Slow`], and the name of its file, by which
/// kubeadm finds the pod. By default the kubelet asks whether it is ready each second, which costs
/// an emulated processor much of its time, and ends it after 80 s without an answer. kubeadm gives
/// etcd less of a busy processor than the API server, which waits for it. Here etcd gets more, and
/// both together as much.
pub fn patch((server, processor): (&str, &str)) -> (String, String) {
    let text = format!(
        r#"# The nodes are slow.
spec:
  containers:
  - name: {server}
    livenessProbe: {{ periodSeconds: 60, timeoutSeconds: 60, failureThreshold: 20 }}
    readinessProbe: {{ periodSeconds: 20, timeoutSeconds: 60 }}
    startupProbe: {{ timeoutSeconds: 60 }}
    resources: {{ requests: {{ cpu: {processor} }} }}
"#
    );
    (format!("{server}+strategic.yaml"), text)
}

/// The static pods that have a patch, and what each requests of a processor.
pub const PATCHED: [(&str, &str); 2] = [("etcd", "150m"), ("kube-apiserver", "200m")];

/// The line of kubeadm's configuration that names the folder of patches.
fn patches(nodes: Nodes) -> String {
    match nodes {
        Nodes::Fast => String::new(),
        Nodes::Slow => format!("patches: {{ directory: {PATCHES} }}\n"),
    }
}

/// The time that the images may take to be pulled, and a server to start.
const TIMEOUTS: &str = "\
timeouts:
  # How long the images may take to be pulled, and the API server to start.
  controlPlaneComponentHealthCheck: 30m0s
  kubernetesAPICall: 30m0s
  etcdAPICall: 10m0s
  discovery: 30m0s
";

/// kubeadm's configuration of the first node
/// (`https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/`).
pub fn kubeadm(cluster: &NewCluster, token: &str) -> String {
    let NewCluster { kubernetes, server, administrator, nodes } = cluster;
    let (more_time, more_time_of_server) = match nodes {
        Nodes::Fast => ("", ""),
        Nodes::Slow => (MORE_TIME, MORE_TIME_OF_SERVER),
    };
    let mut names = vec![&server.host];
    names.extend((administrator.host != server.host).then_some(&administrator.host));
    let names: String = names.iter().map(|name| format!("  - {name:?}\n")).collect();
    format!(
        r#"# Read by the pod `control-plane` on the first node of a cluster, once.
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
# Other nodes join with it within a day.
bootstrapTokens:
- token: {token}
  ttl: 24h0m0s
nodeRegistration:
  # The control plane's node runs ordinary pods, too. Without this line it does not.
  taints: []
{patches}{TIMEOUTS}---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v{kubernetes}
# Where nodes and pods reach the API server.
controlPlaneEndpoint: {endpoint:?}
apiServer:
  # The names and addresses in its certificate.
  certSANs:
{names}{more_time_of_server}networking:
  dnsDomain: {DOMAIN}
{more_time}"#,
        endpoint = server.to_string(),
        patches = patches(*nodes),
    )
}

/// kubeadm's configuration of a further node of the control plane. It checks the API server with
/// the hash of the cluster's CA.
pub fn kubeadm_of_plane(cluster: &NewCluster, authority: &str, token: &str) -> String {
    format!(
        r#"# Read by the pod `control-plane` on each further node of the control plane, once.
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: {endpoint:?}
    # It is valid for a day after the first node has started.
    token: {token}
    caCertHashes:
    - {authority}
nodeRegistration:
  # The control plane's node runs ordinary pods, too. Without this line it does not.
  taints: []
controlPlane: {{}}
{patches}{TIMEOUTS}"#,
        endpoint = cluster.server.to_string(),
        patches = patches(cluster.nodes),
    )
}

/// The node document of the other nodes.
pub fn node_document(cluster: &NewCluster, authority: &str, token: &str) -> String {
    format!(
        "# /etc/osbuild/node.toml of each further node.\n\
         [cluster]\n\
         server = \"{}\"\n\
         # It is valid for a day after the first node has started. A node that has joined\n\
         # does not need it any more.\n\
         token = \"{token}\"\n\
         dns = [\"{DNS}\"]\n\
         domain = \"{DOMAIN}\"\n\
         certificate-authority = \"\"\"\n{authority}\"\"\"\n",
        cluster.server.url()
    )
}

/// The administrator's kubeconfig, with all that it refers to. JSON is YAML.
pub fn kubeconfig(cluster: &NewCluster, authority: &str, user: &Pair) -> String {
    let encode = |pem: &str| STANDARD.encode(pem);
    let named = |name: &str, key: &str, value: Value| json!({ "name": name, key: value });
    let server = json!({
        "server": cluster.administrator.url(),
        "certificate-authority-data": encode(authority),
    });
    let user = json!({
        "client-certificate-data": encode(&user.certificate),
        "client-key-data": encode(&user.key),
    });
    let context = json!({ "cluster": "cluster", "user": "administrator" });
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [named("cluster", "cluster", server)],
        "users": [named("administrator", "user", user)],
        "contexts": [named("administrator", "context", context)],
        "current-context": "administrator",
    });
    format!("{config:#}\n")
}
