//! Images of upstream's programs under upstream's names, for a registry on the loopback. The
//! programs are those of the recipes `lab` and `lab-full`; programs around them, such as `nft`,
//! come from the Debian packages of the lock of `lab`.

use super::control_plane::BIN;
use super::minor::Minor;
use super::modules::version;
use crate::image::{self, LAB, LAB_FULL};
use crate::site::Site;
use osbuild::engine::store::Store;
use osbuild::error::{Context, Error, Result};
use osbuild::plan::{Architecture, Lock};
use osbuild::produce::debian::{Contents, contents};
use osbuild::produce::podimage::{Files, Image, from_program};
use serde_json::Value;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The version of the image `agnhost` in this minor (`test/images/agnhost/VERSION`).
pub const AGNHOST: &str = "2.59";

/// The tag of the image of etcd that this minor's kubeadm deploys
/// (`cmd/kubeadm/app/constants/constants.go`).
const ETCD: &str = "3.6.6-0";

/// The tags of the images of etcd, CoreDNS and `pause` with the next minor's kubeadm. The first two
/// have the programs of the peg's cluster.
const NEXT_ETCD: &str = "3.6.8-0";
const NEXT_COREDNS: &str = "v1.14.2";
const NEXT_PAUSE: &str = "3.10.2";

/// The image of an administrator with kubeadm.
pub const KUBEADM: &str = "example/kubeadm";

/// The program in the place of `pause`, which kubeadm has a Job run with `-v` until it ends, the
/// one that kubeadm executes, and the libraries that they need.
const ENDS: &str = "/bin/true";
const COPIES: &str = "/bin/cp";
const LIBRARIES: [&str; 6] = [
    "/ld-linux-x86-64.so.2",
    "/libacl.so.1",
    "/libattr.so.1",
    "/libc.so.6",
    "/libpcre2-8.so.0",
    "/libselinux.so.1",
];

/// The tag of the image with flannel's CNI plugin in the manifest of this flannel
/// (`Documentation/kube-flannel.yml`).
const FLANNEL_CNI: &str = "v1.9.1-flannel3";

/// The folder of the programs of [`LAB_FULL`] in the checkout.
pub const FULL_BIN: &str = "out/lab-full/bin";

/// The folder of documents, which no image needs.
const DOCUMENTS: &str = "usr/share";

/// Programs that Debian's packages make when they are installed, and the file in a package that
/// each is a link to.
const ALTERNATIVES: [(&str, &str); 8] = [
    ("/bin/sh", "bin/bash"),
    ("/usr/sbin/iptables", "usr/sbin/xtables-nft-multi"),
    ("/usr/sbin/iptables-restore", "usr/sbin/xtables-nft-multi"),
    ("/usr/sbin/iptables-save", "usr/sbin/xtables-nft-multi"),
    ("/usr/sbin/ip6tables", "usr/sbin/xtables-nft-multi"),
    ("/usr/sbin/ip6tables-restore", "usr/sbin/xtables-nft-multi"),
    ("/usr/sbin/ip6tables-save", "usr/sbin/xtables-nft-multi"),
    ("/usr/sbin/ebtables", "usr/sbin/xtables-nft-multi"),
];

/// The highest number of links in a row that lead to a file.
const MAX_LINKS: usize = 8;

/// An image and its name in the registry.
pub struct NamedImage {
    /// The name without the registry.
    pub name: &'static str,
    /// The tag.
    pub tag: String,
    /// Its content.
    pub image: Image,
}

/// Makes the images of a cluster with a Deployment behind a Service: kube-proxy, CoreDNS and
/// `agnhost`. Their blobs are in `store`.
pub fn first(site: &Site, store: &Store) -> Result<Vec<NamedImage>> {
    Maker::new(site, store)?.first()
}

/// Makes all images. Their blobs are in `store`.
pub fn all(site: &Site, store: &Store) -> Result<Vec<NamedImage>> {
    let maker = Maker::new(site, store)?;
    let mut images = maker.first()?;
    images.extend(maker.control_plane()?);
    images.extend(maker.full()?);
    Ok(images)
}

/// Makes images around the programs of the lab.
struct Maker<'a> {
    site: &'a Site<'a>,
    store: &'a Store,
    lab: Lock,
    /// The files of the lab's Debian packages.
    debian: Files,
}

impl<'a> Maker<'a> {
    fn new(site: &'a Site<'a>, store: &'a Store) -> Result<Self> {
        let lab = image::lock(site, LAB)?;
        let debian = debian_files(store, &lab, &ALTERNATIVES)?;
        Ok(Maker { site, store, lab, debian })
    }

    fn first(&self) -> Result<Vec<NamedImage>> {
        let coredns = ("coredns/coredns", version(&self.lab, "coredns")?);
        let agnhost = ("e2e-test-images/agnhost", AGNHOST.to_owned());
        Ok(vec![
            kube_proxy(self.site, self.store, Minor::Peg)?,
            self.image(coredns, BIN, "coredns", &Files::new())?,
            self.image(agnhost, BIN, "agnhost", &self.debian)?,
        ])
    }

    fn control_plane(&self) -> Result<Vec<NamedImage>> {
        let (etcd, kubernetes) = (beside_etcd(self.site)?, version(&self.lab, "kubernetes")?);
        let of_kubernetes = |name| {
            let path = format!("usr/local/bin/{name}");
            self.image((name, kubernetes.clone()), BIN, &path, &Files::new())
        };
        Ok(vec![
            of_kubernetes("kube-apiserver")?,
            of_kubernetes("kube-controller-manager")?,
            of_kubernetes("kube-scheduler")?,
            self.image(("etcd", ETCD.to_owned()), BIN, "usr/local/bin/etcd", &etcd)?,
        ])
    }

    /// Those around the programs of [`LAB_FULL`].
    fn full(&self) -> Result<Vec<NamedImage>> {
        let full = image::lock(self.site, LAB_FULL)?;
        let conf = program(self.site, FULL_BIN, "install-conf")?;
        let beside_flannel: Files = self
            .debian
            .clone()
            .into_iter()
            .chain([("/opt/bin/install-conf".to_owned(), conf)])
            .collect();
        let cni = ("flannel-io/flannel-cni-plugin", FLANNEL_CNI.to_owned());
        let make = |name, component, path, around: &Files| {
            self.image((name, version(&full, component)?), FULL_BIN, path, around)
        };
        let (metrics, policies) = ("metrics-server", "kube-network-policies");
        let (devices, nothing) = ("dra-test-driver", Files::new());
        Ok(vec![
            make("metrics-server/metrics-server", metrics, metrics, &nothing)?,
            make("flannel-io/flannel", "flannel", "opt/bin/flanneld", &beside_flannel)?,
            self.image(cni, FULL_BIN, "flannel", &self.debian)?,
            make("networking/kube-network-policies", policies, "bin/netpol", &nothing)?,
            make("e2e-test-images/dra-test-driver", devices, devices, &nothing)?,
        ])
    }

    /// The image of this name and tag, whose program is at `path` and comes from the folder `bin`
    /// of the checkout.
    fn image(
        &self,
        (name, tag): (&'static str, String),
        bin: &str,
        path: &str,
        around: &Files,
    ) -> Result<NamedImage> {
        let bytes = program(self.site, bin, path.rsplit('/').next().unwrap_or(path))?;
        let image = from_program(self.store, path, &bytes, around, Architecture::Amd64)?;
        Ok(NamedImage { name, tag, image })
    }
}

/// The programs for an administrator in the image of etcd.
fn beside_etcd(site: &Site) -> Result<Files> {
    ["etcdctl", "etcdutl"]
        .into_iter()
        .map(|name| Ok((format!("/usr/local/bin/{name}"), program(site, FULL_BIN, name)?)))
        .collect()
}

/// The images with which kubeadm upgrades a control plane of the peg to the next minor, and that of
/// kubeadm, which executes `cp`.
pub fn next_control_plane(site: &Site, store: &Store) -> Result<Vec<NamedImage>> {
    let lab = image::lock(site, LAB)?;
    let (mut debian, nothing) = (debian_files(store, &lab, &ALTERNATIVES)?, Files::new());
    let tag = Minor::Next.version(site)?;
    let make = |name, tag: &str, path: &str, bytes: &[u8], around: &Files| -> Result<NamedImage> {
        let image = from_program(store, path, bytes, around, Architecture::Amd64)?;
        Ok(NamedImage { name, tag: tag.to_owned(), image })
    };
    let of_next = |name, program: &str, around: &Files| {
        let bytes = read(&Minor::Next.bin(site).join(program))?;
        make(name, &tag, &format!("usr/local/bin/{program}"), &bytes, around)
    };
    let etcd = program(site, BIN, "etcd")?;
    let coredns = program(site, BIN, "coredns")?;
    let mut take = |name: &str| {
        debian.remove(name).ok_or_else(|| Error::build(format!("no locked package has `{name}`")))
    };
    let (ends, copies) = (take(ENDS)?, take(COPIES)?);
    debian.retain(|path, _| LIBRARIES.iter().any(|name| path.ends_with(name)));
    let libraries = debian;
    let beside_kubeadm: Files =
        libraries.clone().into_iter().chain([(COPIES.to_owned(), copies)]).collect();
    Ok(vec![
        of_next("kube-apiserver", "kube-apiserver", &nothing)?,
        of_next("kube-controller-manager", "kube-controller-manager", &nothing)?,
        of_next("kube-scheduler", "kube-scheduler", &nothing)?,
        of_next(KUBEADM, "kubeadm", &beside_kubeadm)?,
        kube_proxy(site, store, Minor::Next)?,
        make("etcd", NEXT_ETCD, "usr/local/bin/etcd", &etcd, &beside_etcd(site)?)?,
        make("coredns/coredns", NEXT_COREDNS, "coredns", &coredns, &nothing)?,
        make("pause", NEXT_PAUSE, "pause", &ends, &libraries)?,
    ])
}

/// The image of kube-proxy of a minor.
pub fn kube_proxy(site: &Site, store: &Store, minor: Minor) -> Result<NamedImage> {
    let bytes = read(&minor.bin(site).join("kube-proxy"))?;
    let debian = debian_files(store, &image::lock(site, LAB)?, &ALTERNATIVES)?;
    let path = "usr/local/bin/kube-proxy";
    let image = from_program(store, path, &bytes, &debian, Architecture::Amd64)?;
    Ok(NamedImage { name: "kube-proxy", tag: minor.version(site)?, image })
}

/// The image `NAME:1` of a package of this workspace, whose program has the package's name.
pub fn of_package(site: &Site, package: &str, name: &'static str) -> Result<NamedImage> {
    let target = Architecture::Amd64.rust_musl();
    let mut cargo = site.cargo()?;
    cargo.args(["build", "--quiet", "--locked", "--release", "--package", package]);
    cargo.args(["--target", target, "--message-format", "json-render-diagnostics"]);
    cargo.env(format!("CC_{}", target.replace('-', "_")), "gcc");
    let output = site.finish(&format!("image-{package}"), &mut cargo)?.output;
    let built = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = built.filter_map(|one| one["executable"].as_str().map(PathBuf::from));
    let program = programs.find(|path| path.ends_with(package));
    let program = program.ok_or_else(|| Error::build(format!("cargo has built no `{package}`")))?;
    let (store, nothing) = (site.store()?, Files::new());
    let image = from_program(&store, package, &read(&program)?, &nothing, Architecture::Amd64)?;
    Ok(NamedImage { name, tag: "1".to_owned(), image })
}

/// Reads a program of a recipe. `bin` is the folder of its programs in the checkout.
pub fn program(site: &Site, bin: &str, name: &str) -> Result<Vec<u8>> {
    read(&site.project().join(bin).join(name))
}

fn read(file: &Path) -> Result<Vec<u8>> {
    fs::read(file).or_build(|| format!("cannot read `{}`", file.display()))
}

/// The files of the lock's Debian packages, and of `alternatives`. The format of [`Files`] has no
/// links, so a link becomes a copy of its target.
pub fn debian_files(store: &Store, lock: &Lock, alternatives: &[(&str, &str)]) -> Result<Files> {
    let mut all = Contents::default();
    for package in &lock.sandbox.packages {
        let package = contents(store, package, "")?;
        all.files.extend(package.files);
        all.links.extend(package.links);
    }
    let mut files = Files::new();
    for (path, bytes) in &all.files {
        files.insert(absolute(path), bytes.clone());
    }
    for link in all.links.keys() {
        if let Some(bytes) = follow(&all, link) {
            files.insert(absolute(link), bytes.clone());
        }
    }
    for (link, target) in alternatives {
        let missing = || Error::build(format!("no locked package has `{target}`"));
        files.insert(
            (*link).to_owned(),
            follow(&all, Path::new(target)).ok_or_else(missing)?.clone(),
        );
    }
    files.retain(|path, _| !path.trim_start_matches('/').starts_with(DOCUMENTS));
    Ok(files)
}

fn absolute(path: &Path) -> String {
    format!("/{}", path.display())
}

/// The bytes of the file that a path leads to; none if it leads to a folder or nowhere.
fn follow<'c>(contents: &'c Contents, path: &Path) -> Option<&'c Vec<u8>> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if let Some(bytes) = contents.files.get(&path) {
            return Some(bytes);
        }
        let target = contents.links.get(&path)?;
        path = plain(&path.parent().unwrap_or(Path::new("")).join(target));
    }
    None
}

/// The path without `..`, relative to the root.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => drop(plain.pop()),
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_through_relative_and_absolute_links_to_a_file() {
        let contents = Contents {
            files: [("usr/sbin/multi".into(), b"program".to_vec())].into(),
            links: [
                ("usr/sbin/first".into(), "multi".into()),
                ("sbin/second".into(), "../usr/sbin/first".into()),
                ("bin/third".into(), "/sbin/second".into()),
                ("bin/folder".into(), "/usr/sbin".into()),
                ("bin/circle".into(), "circle".into()),
            ]
            .into(),
        };
        let found = |path: &str| follow(&contents, Path::new(path)).map(Vec::as_slice);
        assert_eq!(found("bin/third"), Some(&b"program"[..]));
        assert_eq!(found("usr/sbin/multi"), Some(&b"program"[..]));
        assert_eq!(found("bin/folder"), None);
        assert_eq!(found("bin/circle"), None);
    }
}
