//! A registry on the loopback, and how the node pulls from it what others pull from upstream's.

use super::addressing::Addressing;
use super::certificates::Authority;
use super::control_plane::BIN;
use super::images::{self, NamedImage};
use super::joining::NodeFile;
use super::large_image;
use super::process::Process;
use super::wait::{Seen, wait};
use crate::image::{builds_the_full_lab, builds_the_lab};
use crate::site::Site;
use crate::vm::machine::{HOST, HOST6};
use crate::vm::probe::free_port;
use crate::vm::relay;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use osbuild::engine::store::Store;
use osbuild::error::{Context, Error, Result};
use serde_json::json;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How long the registry may take to listen.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The user of the registry and the password, and its line in a file of `htpasswd` (bcrypt).
const CREDENTIALS: &str = "node:lab-secret";
const HTPASSWD: &str = "node:$2b$04$0Wa9J08UA2/cbse3bfBf4efscvfDX3hHW7Z0K7YunS2MnCSE7Wcrq\n";

/// The folder on the node with containerd's settings for registries.
const SETTINGS: &str = "/etc/containerd/certs.d";

/// Upstream's registries.
const UPSTREAM: [&str; 2] = ["registry.k8s.io", "ghcr.io"];

/// The registry. It ends when this is dropped.
pub struct Registry {
    port: u16,
    folder: PathBuf,
    /// None while it is stopped.
    process: Option<Process>,
}

impl Registry {
    /// Starts it with a certificate of this CA, and pushes all images of the lab.
    pub fn start(site: &Site, authority: &Authority) -> Result<Self> {
        let registry = Self::start_empty(site, authority)?;
        builds_the_full_lab(site)?;
        registry.push_all(site, &images::all(site, &site.store()?)?)?;
        Ok(registry)
    }

    /// Like [`Self::start`], with the images of a cluster's [first](images::first) pods alone.
    pub fn start_with_first_images(site: &Site, authority: &Authority) -> Result<Self> {
        let registry = Self::start_empty(site, authority)?;
        registry.push_all(site, &images::first(site, &site.store()?)?)?;
        Ok(registry)
    }

    fn start_empty(site: &Site, authority: &Authority) -> Result<Self> {
        builds_the_lab(site)?;
        let (port, folder) = (free_port()?, authority.path("registry"));
        authority.server("registry", &["127.0.0.1", &HOST.to_string(), &HOST6.to_string()])?;
        let cannot = || "cannot write the registry's files".to_owned();
        fs::create_dir_all(folder.join("certificates")).or_build(cannot)?;
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).or_build(cannot);
        write("certificates/ca.crt", &authority.read("ca.crt")?)?;
        write("htpasswd", HTPASSWD)?;
        write("config.yml", &configuration(authority, &folder, port).to_string())?;
        let mut registry = Registry { port, folder, process: None };
        registry.serve(site)?;
        Ok(registry)
    }

    /// Starts it, and returns when it listens.
    pub fn serve(&mut self, site: &Site) -> Result<()> {
        let words = ["serve".to_owned(), self.folder.join("config.yml").display().to_string()];
        let bin = site.project().join(BIN);
        let process = self.process.insert(Process::start(site, &bin, "registry", &words)?);
        let listens = wait(TIMEOUT, || {
            process.is_running()?;
            Ok(match TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) {
                Ok(_) => Seen::Yes(()),
                Err(error) => Seen::NotYet(error.to_string()),
            })
        })?;
        listens.map_err(|why| process.failure("the registry does not listen").cause(why))
    }

    /// Ends it. Its images stay.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Pushes these images.
    pub fn push_all(&self, site: &Site, images: &[NamedImage]) -> Result<()> {
        let store = site.store()?;
        images.iter().try_for_each(|image| {
            let name = format!("{}:{}", image.name, image.tag);
            self.push(site, &name, |layout| write_layout(&store, image, layout))
        })
    }

    /// The files with which a node pulls upstream's images from here. It accepts no other
    /// certificate than those of the CA, and the registry no other password.
    pub fn node_files(&self, authority: &Authority) -> Result<Vec<NodeFile>> {
        self.node_files_at(authority, Addressing::IPV4)
    }

    /// Like [`Self::node_files`], for nodes that reach this host by IPv6.
    pub fn node_files_by_ipv6(&self, authority: &Authority) -> Result<Vec<NodeFile>> {
        relay::start(self.port)?;
        self.node_files_at(authority, Addressing::DUAL)
    }

    fn node_files_at(&self, authority: &Authority, by: Addressing) -> Result<Vec<NodeFile>> {
        let mirror = format!("https://{}", by.at_host(self.port));
        let hosts = format!(
            "[host.\"{mirror}\"]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = \"ca.crt\"\n  \
             [host.\"{mirror}\".header]\n    authorization = \"Basic {}\"\n",
            STANDARD.encode(CREDENTIALS)
        );
        let ca = authority.read("ca.crt")?;
        let files = UPSTREAM.iter().flat_map(|upstream| {
            let file = |name, mode, text: &str| {
                NodeFile::new(format!("{SETTINGS}/{upstream}/{name}"), mode, text)
            };
            [file("ca.crt", 0o644, &ca), file("hosts.toml", 0o600, &hosts)]
        });
        Ok(files.collect())
    }

    /// Whether it answers nobody without the password: the status of such a request.
    pub fn refuses_strangers(&self, site: &Site) -> Result<std::result::Result<(), String>> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"]);
        curl.arg("--cacert").arg(self.folder.join("certificates/ca.crt"));
        curl.arg(format!("https://127.0.0.1:{}/v2/", self.port));
        let status = site.finish("registry-stranger", &mut curl)?.output;
        Ok(if status == "401" { Ok(()) } else { Err(format!("it answers {status}")) })
    }

    /// Pushes the image of a pod with [a layer more](large_image), under this name.
    pub fn push_large(&self, site: &Site, base: &str, name: &str) -> Result<()> {
        let store = site.store()?;
        let images = images::all(site, &store)?;
        let is_base = |image: &&NamedImage| image.name == base;
        let missing = || Error::build(format!("the lab has no image `{base}`"));
        let base = images.iter().find(is_base).ok_or_else(missing)?;
        self.push(site, &format!("{name}:1"), |layout| large_image::write(&store, base, layout))
    }

    /// Pushes an image. `write` writes its OCI layout.
    fn push(&self, site: &Site, name: &str, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let layout = self.folder.join("layout");
        write(&layout).or_build(|| format!("cannot write the image `{name}`"))?;
        self.copy(site, &format!("oci:{}", layout.display()), name)?;
        fs::remove_dir_all(&layout).or_build(|| format!("cannot remove `{}`", layout.display()))
    }

    /// Pushes the image with this reference of an OCI layout, under the name and tag `to`.
    pub fn push_layout(&self, site: &Site, layout: &Path, reference: &str, to: &str) -> Result<()> {
        self.copy(site, &format!("oci:{}:{reference}", layout.display()), to)
    }

    /// Pushes with skopeo, which verifies every digest.
    fn copy(&self, site: &Site, from: &str, to: &str) -> Result<()> {
        let mut skopeo = Command::new("skopeo");
        skopeo.args(["copy", "--quiet", "--preserve-digests", "--dest-creds", CREDENTIALS]);
        skopeo.arg("--dest-cert-dir").arg(self.folder.join("certificates"));
        skopeo.arg(from).arg(format!("docker://127.0.0.1:{}/{to}", self.port));
        site.finish("registry-push", &mut skopeo).map(drop)
    }
}

/// The configuration. YAML contains JSON.
fn configuration(authority: &Authority, folder: &Path, port: u16) -> serde_json::Value {
    let file = |name| authority.path(name);
    json!({
        "version": 0.1,
        "log": { "level": "warn", "accesslog": { "disabled": true } },
        "storage": { "filesystem": { "rootdirectory": folder.join("storage") } },
        "http": {
            "addr": format!("127.0.0.1:{port}"),
            "secret": "lab",
            "tls": { "certificate": file("registry.crt"), "key": file("registry.key") },
        },
        "auth": { "htpasswd": { "realm": "lab", "path": folder.join("htpasswd") } },
    })
}

/// Writes an OCI layout with one image.
pub fn write_layout(store: &Store, image: &NamedImage, layout: &Path) -> Result<()> {
    let blobs = layout.join("blobs/sha256");
    let write = |name: &str, text: String| {
        fs::write(layout.join(name), text).or_build(|| format!("cannot write `{name}`"))
    };
    fs::create_dir_all(&blobs).or_build(|| format!("cannot make `{}`", blobs.display()))?;
    let index = json!({ "schemaVersion": 2, "manifests": [image.image.manifest] });
    write("index.json", index.to_string())?;
    write("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    let copy = |blob| store.copy_to(blob, &blobs.join(blob.hex()), 0o644);
    image.image.blobs.iter().try_for_each(copy)
}
