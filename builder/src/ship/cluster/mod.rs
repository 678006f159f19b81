//! The files with which nodes become a cluster of their own: CAs that its administrator keeps,
//! kubeadm's configuration for the nodes of the control plane, a node document for the others, and
//! a kubeconfig.
//!
//! A node has no shell from which to copy kubeadm's `admin.conf`, or the keys that the nodes of a
//! control plane share. So the CAs are made here, these nodes get them, and one signs the
//! administrator's certificate here.

mod authority;
mod endpoint;
mod files;
mod token;

pub use endpoint::{Endpoint, PORT};

use crate::engine::fs_error::{IoContext, remove};
use crate::error::{Context, Error, Result};
use crate::plan::{Locked, Plan};
use authority::{Authority, CLUSTER, ETCD, FRONT_PROXY, token_keys};
use files::{kubeadm, kubeadm_of_plane, kubeconfig, node_document};
use osbuild_document::Document;
use serde_json::Value;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use token::token;

/// The component that makes a node a control plane.
const KUBEADM: &str = "kubeadm";

/// The place of kubeadm's configuration on DATA.
pub const KUBEADM_ON_DATA: &str = "kubernetes/kubeadm.yaml";

/// The folder for the first node, which `osbuild run --files` and the installer's stick take.
const FIRST: &str = "first";
/// The folder for each further node of the control plane.
const PLANES: &str = "planes";
/// The folder for the other nodes.
const OTHERS: &str = "others";
/// The path of the document of a node in a folder that is laid out like its root.
const NODE_DOCUMENT: &str = "etc/osbuild/node.toml";
/// The administrator's kubeconfig.
const KUBECONFIG: &str = "administrator.kubeconfig";

/// A cluster that does not exist yet.
#[derive(Clone, Debug)]
pub struct NewCluster {
    /// The version of its control plane: `1.35.8`.
    pub kubernetes: String,
    /// Where nodes and pods reach its API server.
    pub server: Endpoint,
    /// Where the administrator reaches it.
    pub administrator: Endpoint,
    /// How fast its nodes are.
    pub nodes: Nodes,
}

/// How fast the nodes of a control plane are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// Fast enough for the defaults of Kubernetes.
    Fast,
    /// Not always: processors are emulated, or disks take seconds to write. A leader gets more time
    /// before another one takes over, and a server before the kubelet ends it.
    Slow,
}

/// The files of a cluster, in a folder.
#[derive(Clone, Debug)]
pub struct ClusterFiles {
    folder: PathBuf,
}

impl ClusterFiles {
    /// The files in this folder, if they are there.
    pub fn find(folder: &Path) -> Option<Self> {
        let files = ClusterFiles { folder: folder.to_owned() };
        files.kubeconfig().exists().then_some(files)
    }

    /// Makes the files. The folder appears as a whole, or not at all. `now` is the time from which
    /// certificates are valid.
    ///
    /// # Errors
    /// The folder exists: another CA would be another cluster.
    pub fn make(folder: &Path, cluster: &NewCluster, now: SystemTime) -> Result<Self> {
        if folder.exists() {
            return Err(Error::usage(format!("`{}` exists", folder.display()))
                .cause("the CA of a cluster is never overwritten: its nodes would not be in it")
                .hint("name another folder"));
        }
        let (authority, token) = (Authority::new(CLUSTER, now)?, token());
        let administrator = authority.administrator(now)?;
        let files = ClusterFiles { folder: folder.to_owned() };
        let unfinished = folder.with_added_extension("unfinished");
        remove(&unfinished)?;
        let shared = shared_keys(&authority, now)?;
        for (node, configuration) in [
            (FIRST, kubeadm(cluster, &token)),
            (PLANES, kubeadm_of_plane(cluster, &authority.hash(), &token)),
        ] {
            let place = unfinished.join(node).join("etc/kubernetes");
            write(&place.join("kubeadm.yaml"), &configuration)?;
            shared
                .iter()
                .try_for_each(|(name, text)| write(&place.join("pki").join(name), text))?;
            write_patches(cluster.nodes, &unfinished.join(node))?;
        }
        let certificate = authority.certificate();
        let document = node_document(cluster, &certificate, &token);
        write(&unfinished.join(OTHERS).join(NODE_DOCUMENT), &document)?;
        let config = kubeconfig(cluster, &certificate, &administrator);
        write(&unfinished.join(KUBECONFIG), &config)?;
        fs::rename(&unfinished, folder).at("write", folder)?;
        Ok(files)
    }

    /// Checks that these files are for an API server at this address.
    ///
    /// # Errors
    /// They are for another one, under which the cluster's nodes and certificates know it.
    pub fn expect_server(&self, server: &Endpoint) -> Result<()> {
        let path = self.others().join(NODE_DOCUMENT);
        let text = fs::read_to_string(&path).at("read", &path)?;
        let document = Document::parse(&text).ok().and_then(|document| document.cluster);
        let theirs = document.map(|cluster| cluster.server().as_str().to_owned());
        if theirs.as_deref() == Some(&server.url()) {
            return Ok(());
        }
        let cause = match theirs {
            Some(theirs) => format!("the cluster's nodes expect it at {theirs}"),
            None => format!("`{}` is not the document of its nodes", path.display()),
        };
        Err(Error::usage(format!("the API server of the cluster would be at {}", server.url()))
            .cause(cause)
            .hint(format!(
                "run the node as before, or start another cluster: rm -r {}",
                self.folder.display()
            )))
    }

    /// Makes the kubeconfig lead to the API server at `administrator`: the port on this machine may
    /// be another one than at the last run.
    ///
    /// # Errors
    /// The kubeconfig is not the one that [`ClusterFiles::make`] has written.
    pub fn lead_to(&self, administrator: &Endpoint) -> Result<()> {
        let path = self.kubeconfig();
        let text = fs::read(&path).at("read", &path)?;
        let mut config: Value = serde_json::from_slice(&text)
            .or_build(|| format!("`{}` is not the kubeconfig of this cluster", path.display()))?;
        let url = Value::from(administrator.url());
        match config.pointer_mut("/clusters/0/cluster/server") {
            Some(server) if *server == url => return Ok(()),
            Some(server) => *server = url,
            None => {}
        }
        let new = path.with_added_extension("new");
        remove(&new)?;
        write(&new, &format!("{config:#}\n"))?;
        fs::rename(&new, &path).at("write", &path)
    }

    /// The folder with the files of the first node, laid out like its root.
    pub fn first(&self) -> PathBuf {
        self.folder.join(FIRST)
    }

    /// The folder with the files of each further node of the control plane.
    pub fn planes(&self) -> PathBuf {
        self.folder.join(PLANES)
    }

    /// The folder with the files of the other nodes.
    pub fn others(&self) -> PathBuf {
        self.folder.join(OTHERS)
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join(KUBECONFIG)
    }
}

/// The keys and certificates that the nodes of a control plane share: each file's path below
/// `/etc/kubernetes/pki`, and its text. kubeadm makes the others, and signs them with these keys.
fn shared_keys(cluster: &Authority, now: SystemTime) -> Result<Vec<(&'static str, String)>> {
    let (etcd, front_proxy) = (Authority::new(ETCD, now)?, Authority::new(FRONT_PROXY, now)?);
    let [token_key, public_token_key] = token_keys()?;
    Ok(vec![
        ("ca.crt", cluster.certificate()),
        ("ca.key", cluster.key()),
        ("etcd/ca.crt", etcd.certificate()),
        ("etcd/ca.key", etcd.key()),
        ("front-proxy-ca.crt", front_proxy.certificate()),
        ("front-proxy-ca.key", front_proxy.key()),
        ("sa.key", token_key),
        ("sa.pub", public_token_key),
    ])
}

/// Gives slow nodes patches of their static pods, below the folder of a node's files.
fn write_patches(nodes: Nodes, node: &Path) -> Result<()> {
    if nodes == Nodes::Fast {
        return Ok(());
    }
    let place = node.join(files::PATCHES.trim_start_matches('/'));
    files::PATCHED
        .into_iter()
        .map(files::patch)
        .try_for_each(|(name, text)| write(&place.join(name), &text))
}

/// The version of the control plane that a recipe's node makes; `None` if it makes none.
pub fn control_plane(plan: &Plan<Locked>) -> Option<String> {
    let kubeadm = plan.payloads().map(|payload| &payload.go).find(|go| go.name == KUBEADM);
    kubeadm.map(|go| go.version.to_string())
}

/// Writes a file that only its owner may read, and makes the folders above it.
fn write(path: &Path, text: &str) -> Result<()> {
    let above = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(above).at("make", above)?;
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).at("write", path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    fn made(folder: &Path) -> Result<ClusterFiles> {
        made_for(Nodes::Fast, folder)
    }

    fn made_for(nodes: Nodes, folder: &Path) -> Result<ClusterFiles> {
        let cluster = NewCluster {
            kubernetes: "1.35.8".into(),
            server: "10.0.2.15".parse()?,
            administrator: "127.0.0.1:7443".parse()?,
            nodes,
        };
        ClusterFiles::make(folder, &cluster, SystemTime::now())
    }

    #[test]
    fn openssl_verifies_the_administrators_certificate() {
        let place = tempfile::tempdir().unwrap();
        let files = made(&place.path().join("cluster")).unwrap();
        let config = std::fs::read(files.kubeconfig()).unwrap();
        let config: Value = serde_json::from_slice(&config).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:7443");
        let certificate = config["users"][0]["user"]["client-certificate-data"].as_str().unwrap();
        let text = format!(
            "echo {certificate} | base64 -d > client.crt && openssl verify -purpose sslclient \
             -CAfile cluster/first/etc/kubernetes/pki/ca.crt client.crt && openssl x509 -noout \
             -subject -in client.crt"
        );
        let ran = Command::new("bash").args(["-ec", &text]).current_dir(&place).output().unwrap();
        let output = String::from_utf8_lossy(&ran.stdout);
        assert!(output.starts_with("client.crt: OK\n"), "{ran:?}");
        assert!(output.contains("CN = administrator, O = system:masters"), "{output}");
    }

    #[test]
    fn openssl_finds_the_same_hash_of_the_ca_and_pairs_of_keys() {
        let place = tempfile::tempdir().unwrap();
        let files = made(&place.path().join("cluster")).unwrap();
        let script = "cd etc/kubernetes/pki
            for pair in ca etcd/ca front-proxy-ca; do
                openssl pkey -in $pair.key -pubout >public
                openssl x509 -in $pair.crt -noout -pubkey | cmp - public
                openssl verify -CAfile $pair.crt $pair.crt
            done
            openssl pkey -in sa.key -pubout | cmp - sa.pub
            openssl x509 -in ca.crt -noout -pubkey | openssl pkey -pubin -outform der | sha256sum";
        let text = |folder: &Path| {
            let mut openssl = Command::new("bash");
            let ran = openssl.args(["-ec", script]).current_dir(folder).output().unwrap();
            assert!(ran.status.success(), "{ran:?}");
            String::from_utf8(ran.stdout).unwrap()
        };
        let output = text(&files.planes());
        assert_eq!(output, text(&files.first()), "the nodes of a control plane share the keys");
        let hash = output.lines().last().and_then(|line| line.split(' ').next()).unwrap();
        let configuration = files.planes().join("etc/kubernetes/kubeadm.yaml");
        let configuration = std::fs::read_to_string(configuration).unwrap();
        assert!(configuration.contains(&format!("    - sha256:{hash}\n")), "{configuration}");
    }

    #[test]
    fn the_other_nodes_get_a_document_that_they_accept() {
        let place = tempfile::tempdir().unwrap();
        let files = made(&place.path().join("cluster")).unwrap();
        let text = std::fs::read_to_string(files.others().join("etc/osbuild/node.toml")).unwrap();
        let cluster = Document::parse(&text).unwrap().cluster.unwrap();
        assert_eq!(cluster.server().as_str(), "https://10.0.2.15:6443");
        let kubeadm =
            std::fs::read_to_string(files.first().join("etc/kubernetes/kubeadm.yaml")).unwrap();
        assert!(kubeadm.contains(&format!("- token: {}\n", cluster.token().unwrap().reveal())));
    }

    #[test]
    fn only_slow_nodes_give_leaders_more_time() {
        let place = tempfile::tempdir().unwrap();
        let configuration = |nodes, folder| -> Value {
            let files = made_for(nodes, &place.path().join(folder)).unwrap();
            let text =
                std::fs::read_to_string(files.first().join("etc/kubernetes/kubeadm.yaml")).unwrap();
            serde_saphyr::from_str(text.split("---\n").nth(1).unwrap()).unwrap()
        };
        let (fast, slow) = (configuration(Nodes::Fast, "fast"), configuration(Nodes::Slow, "slow"));
        assert_eq!(fast.pointer("/etcd"), None);
        let lease = json!({ "name": "leader-elect-lease-duration", "value": "120s" });
        assert_eq!(slow["scheduler"]["extraArgs"][0], lease);
        assert_eq!(slow["controllerManager"], slow["scheduler"]);
        let election = json!({ "name": "election-timeout", "value": "10000" });
        assert_eq!(slow["etcd"]["local"]["extraArgs"][1], election);
        assert_eq!(slow["networking"], fast["networking"]);
        for (server, processor) in [("etcd", "150m"), ("kube-apiserver", "200m")] {
            let patch = format!("first/etc/kubernetes/patches/{server}+strategic.yaml");
            assert!(!place.path().join("fast").join(&patch).exists());
            let text = std::fs::read_to_string(place.path().join("slow").join(&patch)).unwrap();
            let pod: Value = serde_saphyr::from_str(&text).unwrap();
            let container = &pod["spec"]["containers"][0];
            assert_eq!(container["name"], server);
            assert_eq!(container["resources"]["requests"]["cpu"], processor);
        }
    }

    #[test]
    fn a_folder_with_a_version_in_its_name_leaves_that_of_another_cluster() {
        let place = tempfile::tempdir().unwrap();
        let other = place.path().join("v1.unfinished");
        fs::create_dir(&other).unwrap();
        made(&place.path().join("v1.35")).unwrap();
        assert!(other.exists());
    }

    #[test]
    fn only_the_owner_may_read_the_files_of_a_cluster() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("cluster");
        let files = made(&folder).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder), 0o700);
        let key = files.first().join("etc/kubernetes/pki/ca.key");
        assert_eq!((mode(&key), mode(&files.kubeconfig())), (0o600, 0o600));
    }

    #[test]
    fn the_kubeconfig_follows_the_port_of_each_run() {
        let place = tempfile::tempdir().unwrap();
        let files = made(&place.path().join("cluster")).unwrap();
        let config = || -> Value {
            serde_json::from_slice(&std::fs::read(files.kubeconfig()).unwrap()).unwrap()
        };
        let before = config();
        files.lead_to(&"127.0.0.1:7443".parse().unwrap()).unwrap();
        assert_eq!(config(), before);
        files.lead_to(&"127.0.0.2:6443".parse().unwrap()).unwrap();
        assert_eq!(config()["clusters"][0]["cluster"]["server"], "https://127.0.0.2:6443");
        assert_eq!(config()["users"], before["users"]);
        assert_eq!(files.kubeconfig().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_files_of_a_cluster_are_for_one_address_of_its_server() {
        let place = tempfile::tempdir().unwrap();
        let files = made(&place.path().join("cluster")).unwrap();
        files.expect_server(&"10.0.2.15".parse().unwrap()).unwrap();
        let error = files.expect_server(&"10.0.2.16".parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("would be at https://10.0.2.16:6443"), "{error}");
        assert!(error.contains("expect it at https://10.0.2.15:6443"), "{error}");
    }

    #[test]
    fn a_cluster_is_never_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("cluster");
        let files = made(&folder).unwrap();
        let before = std::fs::read(files.kubeconfig()).unwrap();
        let error = made(&folder).unwrap_err().to_string();
        assert!(error.contains("exists") && error.contains("never overwritten"), "{error}");
        assert_eq!(std::fs::read(files.kubeconfig()).unwrap(), before);
        assert!(ClusterFiles::find(&folder).is_some());
        assert!(ClusterFiles::find(&place.path().join("none")).is_none());
    }
}
