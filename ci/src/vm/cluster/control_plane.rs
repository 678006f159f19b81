//! The control plane of a cluster on the loopback: etcd, the API server, the controllers and the
//! scheduler, unmodified.

use super::addressing::Addressing;
use super::api::Api;
use super::certificates::Authority;
use super::egress::Egress;
use super::minor::Minor;
use super::process::Process;
use super::wait::{Seen, wait};
use crate::site::Site;
use crate::vm::machine::{HOST, HOST6};
use crate::vm::probe::free_port;
use crate::vm::relay;
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

/// The name of the API server that a name server of the tests knows.
pub const NAME: &str = "api.lab.example";

/// The user as which the API server passes requests on to the servers of other APIs
/// (`https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/`).
const AGGREGATOR: &str = "front-proxy-client";

/// The id of the bootstrap token
/// (`https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/`).
const TOKEN_ID: &str = "abcdef";
/// A time in the past (RFC 3339), at which a token has expired.
const EXPIRED: &str = "2020-01-01T00:00:00Z";
/// The collection with its secret.
const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";

/// How long the certificates of nodes are valid, as by default.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);

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
    addressing: Addressing,
    /// The URL of etcd.
    etcd: String,
    minor: Minor,
    /// How long the certificates of nodes are valid.
    lifetime: Duration,
    /// How many tokens it has issued.
    tokens: usize,
    // Dropped last: the processes write to it.
    folder: TempDir,
}

impl ControlPlane {
    /// Builds the programs, starts them, and returns when the API server is ready and accepts nodes
    /// with [`Self::token`].
    pub fn start(site: &Site) -> Result<Self> {
        Self::with(site, Minor::Peg, LIFETIME, Addressing::IPV4)
    }

    /// Like [`Self::start`], with both protocols; its nodes reach it by IPv6.
    pub fn dual_stack(site: &Site) -> Result<Self> {
        let plane = Self::with(site, Minor::Peg, LIFETIME, Addressing::DUAL)?;
        relay::start(plane.port)?;
        Ok(plane)
    }

    /// Like [`Self::start`], with the programs of another minor.
    pub fn of_minor(site: &Site, minor: Minor) -> Result<Self> {
        Self::with(site, minor, LIFETIME, Addressing::IPV4)
    }

    /// Like [`Self::start`]; the certificates of nodes are valid for `lifetime`.
    pub fn with_lifetime(site: &Site, lifetime: Duration) -> Result<Self> {
        Self::with(site, Minor::Peg, lifetime, Addressing::IPV4)
    }

    fn with(site: &Site, minor: Minor, lifetime: Duration, addressing: Addressing) -> Result<Self> {
        minor.build(site)?;
        let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        let authority = authority(folder.path())?;
        let port = free_port()?;
        let mut plane = ControlPlane {
            processes: Vec::new(),
            api: Api::new(&authority, "administrator", &local(port))?,
            authority,
            egress: Egress::start(folder.path())?,
            port,
            addressing,
            etcd: local_http()?,
            minor,
            lifetime,
            tokens: 0,
            folder,
        };
        let etcd = plane.etcd()?;
        plane.processes.push(Process::start(site, &minor.bin(site), "etcd", &etcd)?);
        plane.serve(site)?;
        plane.bind_roles()?;
        plane.issue_token()?;
        Ok(plane)
    }

    /// Restarts it. Certificates of nodes are valid as long as by default from now on.
    pub fn use_default_lifetime(&mut self, site: &Site) -> Result<()> {
        self.stop_serving();
        self.lifetime = LIFETIME;
        self.serve(site)
    }

    /// Replaces the CA and all certificates of the control plane. Its objects stay.
    pub fn rotate_authority(&mut self, site: &Site) -> Result<()> {
        self.stop_serving();
        self.authority = authority(self.folder.path())?;
        self.api = Api::new(&self.authority, "administrator", &self.local_server())?;
        self.serve(site)
    }

    /// A client of the API with an administrator's certificate.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The way from the API server to nodes and pods.
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// The minor of its programs.
    pub fn minor(&self) -> Minor {
        self.minor
    }

    /// The cluster's CA.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The path of a file in the cluster's folder.
    pub fn path(&self, file: &str) -> PathBuf {
        self.authority.path(file)
    }

    /// Its addresses.
    pub fn addressing(&self) -> Addressing {
        self.addressing
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
        local(self.port)
    }

    /// The URL of the API server for QEMU's guests.
    pub fn server(&self) -> String {
        format!("https://{}", self.addressing.at_host(self.port))
    }

    /// The token with which a node requests its certificate.
    pub fn token(&self) -> String {
        format!("{TOKEN_ID}.{:016}", self.tokens)
    }

    /// Issues another token.
    pub fn issue_token(&mut self) -> Result<()> {
        self.create_token(None)
    }

    /// Replaces the token with one that has expired.
    pub fn expire_token(&mut self) -> Result<()> {
        self.revoke_token()?;
        self.create_token(Some(EXPIRED))
    }

    fn create_token(&mut self, expiration: Option<&str>) -> Result<()> {
        self.tokens += 1;
        let mut token = json!({
            "metadata": { "name": token_name(), "namespace": "kube-system" },
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": TOKEN_ID,
                "token-secret": format!("{:016}", self.tokens),
                "usage-bootstrap-authentication": "true",
            },
        });
        if let Some(expiration) = expiration {
            token["stringData"]["expiration"] = json!(expiration);
        }
        self.api.create(SECRETS, &token).map(drop)
    }

    /// Revokes the token.
    pub fn revoke_token(&self) -> Result<()> {
        self.api.delete(&format!("{SECRETS}/{}", token_name()))
    }

    /// Checks that all programs still run.
    ///
    /// # Errors
    /// A program has ended.
    pub fn is_running(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(Process::is_running)
    }

    /// Ends the API server and the programs that use it. etcd stays.
    pub fn stop_serving(&mut self) {
        self.processes.truncate(1);
    }

    /// Starts the API server, and the programs that use it once it is ready.
    pub fn serve(&mut self, site: &Site) -> Result<()> {
        let (bin, local) = (self.minor.bin(site), self.local_server());
        let egress = self.path("egress.yaml");
        fs::write(&egress, self.egress.configuration())
            .or_build(|| format!("cannot write `{}`", egress.display()))?;
        self.processes.push(Process::start(site, &bin, "kube-apiserver", &self.api_server())?);
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
        let controllers = self.controllers(&self.authority.kubeconfig("controllers", &local)?);
        self.processes.push(Process::start(site, &bin, "kube-controller-manager", &controllers)?);
        let scheduler = scheduler(&self.authority.kubeconfig("scheduler", &local)?);
        self.processes.push(Process::start(site, &bin, "kube-scheduler", &scheduler)?);
        Ok(())
    }

    fn file(&self, name: &str) -> String {
        self.authority.path(name).display().to_string()
    }

    fn etcd(&self) -> Result<Vec<String>> {
        let (clients, peers) = (self.etcd.as_str(), local_http()?);
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

    fn api_server(&self) -> Vec<String> {
        flags(&[
            ("etcd-servers", &self.etcd),
            ("bind-address", "127.0.0.1"),
            ("secure-port", &self.port.to_string()),
            // The endpoint of the service `kubernetes` for pods.
            ("advertise-address", &self.addressing.host().to_string()),
            ("service-cluster-ip-range", self.addressing.services),
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
            ("cluster-signing-duration", &format!("{}s", self.lifetime.as_secs())),
            // As kubeadm sets both for a network plugin.
            ("allocate-node-cidrs", "true"),
            ("cluster-cidr", self.addressing.pods),
            ("root-ca-file", &self.file("ca.crt")),
            ("service-account-private-key-file", &self.file("accounts.key")),
            ("use-service-account-credentials", "true"),
            ("leader-elect", "false"),
            ("secure-port", "0"),
        ])
    }

    /// Lets nodes with a token request certificates.
    fn bind_roles(&self) -> Result<()> {
        for (name, role, group) in BINDINGS {
            self.api.create(
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                &binding(name, role, group),
            )?;
        }
        Ok(())
    }
}

/// A CA in `folder`, and the certificates of the control plane.
fn authority(folder: &Path) -> Result<Authority> {
    let authority = Authority::new(folder)?;
    let hosts = [HOST.to_string(), HOST6.to_string()];
    let names = ["127.0.0.1", &hosts[0], &hosts[1], NAME, "kubernetes", "kubernetes.default.svc"];
    authority.server("api-server", &[&names[..], &Addressing::API_SERVERS].concat())?;
    authority.client("administrator", "lab-administrator", Some("system:masters"))?;
    authority.client("controllers", "system:kube-controller-manager", None)?;
    authority.client("scheduler", "system:kube-scheduler", None)?;
    authority.client("kubelets", "lab-api-server", Some("system:masters"))?;
    authority.client("aggregator", AGGREGATOR, None)?;
    Ok(authority)
}

/// The URL of the API server on the loopback.
fn local(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

/// The URL of a server on a free port of the loopback.
fn local_http() -> Result<String> {
    Ok(format!("http://127.0.0.1:{}", free_port()?))
}

fn token_name() -> String {
    format!("bootstrap-token-{TOKEN_ID}")
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
