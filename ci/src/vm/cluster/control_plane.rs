//! The control plane of a cluster on the loopback: etcd, the API server, the controllers and the
//! scheduler, unmodified.

use super::api::Api;
use super::certificates::Authority;
use super::egress::Egress;
use super::process::Process;
use super::wait::{Seen, wait};
use crate::image::builds_the_lab;
use crate::site::Site;
use crate::vm::machine::HOST;
use crate::vm::probe::free_port;
use osbuild::error::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// How long the API server may take to become ready.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The folder of the lab's programs in the checkout.
pub const BIN: &str = "out/lab/bin";

/// The addresses of Services. The first one is the API server's.
pub const SERVICES: &str = "10.96.0.0/16";

/// The user as which the API server passes requests on to the servers of other APIs
/// (`https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/`).
const AGGREGATOR: &str = "front-proxy-client";

/// A bootstrap token: its id and its secret
/// (`https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/`).
const TOKEN: (&str, &str) = ("abcdef", "0123456789abcdef");

/// The group of clients with a bootstrap token.
const BOOTSTRAPPERS: &str = "system:bootstrappers";

/// The bindings (name, role, group) with which a node with a token gets a certificate, and later
/// renews it.
const BINDINGS: [(&str, &str, &str); 3] = [
    ("lab-bootstrap", "system:node-bootstrapper", BOOTSTRAPPERS),
    (
        "lab-approve",
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        BOOTSTRAPPERS,
    ),
    (
        "lab-renew",
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        "system:nodes",
    ),
];

/// A cluster without nodes. All of it ends when this is dropped.
pub struct ControlPlane {
    processes: Vec<Process>,
    authority: Authority,
    api: Api,
    egress: Egress,
    port: u16,
    // Dropped last: the processes write to it.
    _folder: TempDir,
}

impl ControlPlane {
    /// Builds the programs, starts them, and returns when the API server is ready and accepts nodes
    /// with [`Self::token`].
    pub fn start(site: &Site) -> Result<Self> {
        builds_the_lab(site)?;
        let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        let authority = Authority::new(folder.path())?;
        let host = HOST.to_string();
        authority.server(
            "api-server",
            &["127.0.0.1", &host, "10.96.0.1", "kubernetes", "kubernetes.default.svc"],
        )?;
        authority.client("administrator", "lab-administrator", Some("system:masters"))?;
        authority.client("controllers", "system:kube-controller-manager", None)?;
        authority.client("scheduler", "system:kube-scheduler", None)?;
        authority.client("kubelets", "lab-api-server", Some("system:masters"))?;
        authority.client("aggregator", AGGREGATOR, None)?;
        let port = free_port()?;
        let local = format!("https://127.0.0.1:{port}");
        let api = Api::new(&authority, "administrator", &local)?;
        let egress = Egress::start(folder.path())?;
        let processes = Vec::new();
        let mut plane = ControlPlane { processes, authority, api, egress, port, _folder: folder };
        plane.run(site, &local)?;
        Ok(plane)
    }

    /// A client of the API with an administrator's certificate.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The way from the API server to nodes and pods.
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// The cluster's CA.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The path of a file in the cluster's folder.
    pub fn path(&self, file: &str) -> PathBuf {
        self.authority.path(file)
    }

    /// The port of the API server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// An administrator's kubeconfig for this host.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        self.authority.kubeconfig("administrator", &self.local_server())
    }

    /// The certificate of the cluster's CA, as PEM.
    pub fn ca(&self) -> Result<String> {
        self.authority.read("ca.crt")
    }

    /// The URL of the API server for this host.
    pub fn local_server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The URL of the API server for QEMU's guests.
    pub fn server(&self) -> String {
        format!("https://{HOST}:{}", self.port)
    }

    /// The token with which a node requests its certificate.
    pub fn token(&self) -> String {
        format!("{}.{}", TOKEN.0, TOKEN.1)
    }

    /// Checks that all programs still run.
    ///
    /// # Errors
    /// A program has ended.
    pub fn is_running(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(Process::is_running)
    }

    fn run(&mut self, site: &Site, local: &str) -> Result<()> {
        let bin = site.project().join(BIN);
        let etcd = format!("http://127.0.0.1:{}", free_port()?);
        let egress = self.path("egress.yaml");
        fs::write(&egress, self.egress.configuration())
            .or_build(|| format!("cannot write `{}`", egress.display()))?;
        self.processes.push(Process::start(site, &bin, "etcd", &self.etcd(&etcd)?)?);
        self.processes.push(Process::start(site, &bin, "kube-apiserver", &self.api_server(&etcd))?);
        let seen = wait(TIMEOUT, || {
            self.is_running()?;
            Ok(if self.api.is_ready() {
                Seen::Yes(())
            } else {
                Seen::NotYet("`/readyz` does not report `ok`".to_owned())
            })
        });
        let api_server = &self.processes[1];
        seen?.map_err(|_| {
            api_server
                .failure(&format!("`kube-apiserver` is not ready after {} s", TIMEOUT.as_secs()))
        })?;
        self.admit_nodes()?;
        let controllers = self.controllers(&self.authority.kubeconfig("controllers", local)?);
        self.processes.push(Process::start(site, &bin, "kube-controller-manager", &controllers)?);
        let scheduler = scheduler(&self.authority.kubeconfig("scheduler", local)?);
        self.processes.push(Process::start(site, &bin, "kube-scheduler", &scheduler)?);
        Ok(())
    }

    fn file(&self, name: &str) -> String {
        self.authority.path(name).display().to_string()
    }

    fn etcd(&self, clients: &str) -> Result<Vec<String>> {
        let peers = format!("http://127.0.0.1:{}", free_port()?);
        Ok(flags(&[
            ("name", "lab"),
            ("data-dir", &self.file("etcd")),
            ("listen-client-urls", clients),
            ("advertise-client-urls", clients),
            ("listen-peer-urls", &peers),
            ("initial-advertise-peer-urls", &peers),
            ("initial-cluster", &format!("lab={peers}")),
            // The check needs its data only until it ends.
            ("unsafe-no-fsync", "true"),
            ("log-level", "warn"),
        ]))
    }

    fn api_server(&self, etcd: &str) -> Vec<String> {
        flags(&[
            ("etcd-servers", etcd),
            ("bind-address", "127.0.0.1"),
            ("secure-port", &self.port.to_string()),
            // The endpoint of the service `kubernetes` for pods.
            ("advertise-address", &HOST.to_string()),
            ("service-cluster-ip-range", SERVICES),
            ("egress-selector-config-file", &self.file("egress.yaml")),
            // The egress proxy knows nodes by their addresses.
            ("kubelet-preferred-address-types", "InternalIP"),
            ("tls-cert-file", &self.file("api-server.crt")),
            ("tls-private-key-file", &self.file("api-server.key")),
            ("client-ca-file", &self.file("ca.crt")),
            ("kubelet-client-certificate", &self.file("kubelets.crt")),
            ("kubelet-client-key", &self.file("kubelets.key")),
            ("kubelet-certificate-authority", &self.file("ca.crt")),
            ("proxy-client-cert-file", &self.file("aggregator.crt")),
            ("proxy-client-key-file", &self.file("aggregator.key")),
            ("requestheader-client-ca-file", &self.file("ca.crt")),
            ("requestheader-allowed-names", AGGREGATOR),
            ("requestheader-username-headers", "X-Remote-User"),
            ("requestheader-group-headers", "X-Remote-Group"),
            ("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
            ("authorization-mode", "Node,RBAC"),
            // As kubeadm sets it: kube-proxy is privileged.
            ("allow-privileged", "true"),
            ("enable-admission-plugins", "NodeRestriction"),
            ("enable-bootstrap-token-auth", "true"),
            ("service-account-issuer", "https://kubernetes.default.svc"),
            ("service-account-key-file", &self.file("accounts.pub")),
            ("service-account-signing-key-file", &self.file("accounts.key")),
        ])
    }

    fn controllers(&self, kubeconfig: &Path) -> Vec<String> {
        flags(&[
            ("kubeconfig", &kubeconfig.display().to_string()),
            ("cluster-signing-cert-file", &self.file("ca.crt")),
            ("cluster-signing-key-file", &self.file("ca.key")),
            ("root-ca-file", &self.file("ca.crt")),
            ("service-account-private-key-file", &self.file("accounts.key")),
            ("use-service-account-credentials", "true"),
            ("leader-elect", "false"),
            ("secure-port", "0"),
        ])
    }

    /// Creates the bootstrap token and its bindings.
    fn admit_nodes(&self) -> Result<()> {
        for (name, role, group) in BINDINGS {
            self.api.create(
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                &binding(name, role, group),
            )?;
        }
        let (id, secret) = TOKEN;
        let token = json!({
            "metadata": { "name": format!("bootstrap-token-{id}"), "namespace": "kube-system" },
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": id,
                "token-secret": secret,
                "usage-bootstrap-authentication": "true",
            },
        });
        self.api.create("/api/v1/namespaces/kube-system/secrets", &token).map(drop)
    }
}

fn scheduler(kubeconfig: &Path) -> Vec<String> {
    flags(&[
        ("kubeconfig", &kubeconfig.display().to_string()),
        ("leader-elect", "false"),
        ("secure-port", "0"),
    ])
}

fn binding(name: &str, role: &str, group: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group }],
    })
}

fn flags(flags: &[(&str, &str)]) -> Vec<String> {
    flags.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}
