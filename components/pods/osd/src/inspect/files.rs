//! The files that a client may read: a closed list, with nothing in it that is secret.
//!
//! A path of a client is only compared with those of the list. Each file is opened below its folder
//! and through no symbolic link, so an entry in a folder cannot lead to a file elsewhere.

use super::below;
use osbuild_abi::paths::{
    CONTAINERD_CONFIG, KERNEL_PARAMETERS, KUBELET_CONFIG, KUBELET_CONFIGURATIONS, MOUNT_TARGETS,
    POD_MANIFESTS, SHARE, SYSCTL,
};
use osbuild_cosi::v1::ReadableFile;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// How the name of a pod's manifest ends.
const MANIFEST: &str = ".yaml";

/// Files of the signed root. Everyone who has the image has them.
const IMAGE: [(&str, &str); 5] = [
    (CONTAINERD_CONFIG, "the configuration of containerd"),
    (KERNEL_PARAMETERS, "the kernel parameters that may be set"),
    (KUBELET_CONFIG, "the configuration of the kubelet, as the image has it"),
    (MOUNT_TARGETS, "the folders in which may be mounted"),
    (SYSCTL, "the kernel parameters that the image sets"),
];

/// The kubelet's configurations that `init` generates: names and descriptions.
const KUBELET: [(&str, &str); 2] = [
    ("joined.json", "the configuration of the kubelet in a cluster"),
    ("standalone.json", "the configuration of the kubelet without a cluster"),
];

/// Files of proc(5).
const PROC: [(&str, &str); 26] = [
    ("1/mountinfo", "the mounts of init, with their peers"),
    ("1/mounts", "the mounts of init"),
    ("buddyinfo", "free memory by size"),
    ("cgroups", "the controllers of control groups"),
    ("cmdline", "the command line of the kernel"),
    ("cpuinfo", "the processors"),
    ("crypto", "the ciphers of the kernel"),
    ("devices", "the drivers of devices"),
    ("diskstats", "what the disks have read and written"),
    ("filesystems", "the file systems that the kernel has"),
    ("interrupts", "the interrupts of each processor"),
    ("iomem", "the memory of devices"),
    ("loadavg", "the load"),
    ("meminfo", "the memory"),
    ("modules", "the modules of the kernel"),
    ("partitions", "the disks and partitions"),
    ("pressure/cpu", "how long processes wait for a processor"),
    ("pressure/io", "how long processes wait for a disk"),
    ("pressure/memory", "how long processes wait for memory"),
    ("softirqs", "the deferred interrupts of each processor"),
    ("stat", "counters of the kernel"),
    ("swaps", "the swap areas"),
    ("uptime", "the time since boot"),
    ("version", "the kernel"),
    ("vmstat", "counters of the memory"),
    ("zoneinfo", "the zones of the memory"),
];

/// Files about the network of the node, in `net` of proc(5).
const NET: [(&str, &str); 22] = [
    ("arp", "the neighbours, with IPv4"),
    ("dev", "what the links have received and sent"),
    ("fib_trie", "the routes of the kernel, with IPv4"),
    ("icmp", "the sockets for ICMP"),
    ("icmp6", "the sockets for ICMPv6"),
    ("if_inet6", "the addresses, with IPv6"),
    ("igmp", "the groups, with IPv4"),
    ("igmp6", "the groups, with IPv6"),
    ("ipv6_route", "the routes, with IPv6"),
    ("netstat", "counters of TCP and IP"),
    ("packet", "the sockets for packets"),
    ("protocols", "the protocols, with their memory"),
    ("raw", "the raw sockets, with IPv4"),
    ("route", "the routes, with IPv4"),
    ("snmp", "counters of each protocol, with IPv4"),
    ("snmp6", "counters of each protocol, with IPv6"),
    ("sockstat", "the number of sockets"),
    ("softnet_stat", "the packets that each processor has received"),
    ("tcp", "the TCP sockets, with IPv4"),
    ("tcp6", "the TCP sockets, with IPv6"),
    ("udp", "the UDP sockets, with IPv4"),
    ("udp6", "the UDP sockets, with IPv6"),
];

/// Where the container has the files of the node.
#[derive(Clone, Debug)]
pub struct Places {
    /// The folder of the image's files, [`SHARE`].
    pub share: PathBuf,
    /// The folder of the kubelet's configurations, [`KUBELET_CONFIGURATIONS`].
    pub kubelet: PathBuf,
    /// The file `os-release`.
    pub os_release: PathBuf,
}

/// A file that a client may read, as long as it exists.
struct Candidate {
    /// Its path on the node.
    path: String,
    meaning: String,
    /// The folder below which it is opened, and where it is there.
    place: (PathBuf, PathBuf),
}

/// The sources of the files that clients may read.
pub struct Files {
    /// Where the container has them.
    pub places: Places,
    /// The file system with the processes of the node (proc(5)).
    pub processes: PathBuf,
    /// The name servers (resolv.conf(5)).
    pub resolver: PathBuf,
    /// Names and their addresses (hosts(5)).
    pub hosts: PathBuf,
}

impl Files {
    /// The files that there are, by their paths.
    pub fn list(&self) -> Vec<ReadableFile> {
        let there = self.candidates().into_iter().filter(|one| matches!(one.open(), Ok(Some(_))));
        there.map(|Candidate { path, meaning, .. }| ReadableFile { path, meaning }).collect()
    }

    /// Opens the file with this path of the list; nothing if there is none.
    pub fn open(&self, path: &str) -> io::Result<Option<File>> {
        match self.candidates().into_iter().find(|one| one.path == path) {
            Some(found) => found.open(),
            None => Ok(None),
        }
    }

    fn candidates(&self) -> Vec<Candidate> {
        let Places { share, kubelet, os_release } = &self.places;
        let below = |folder: &Path, shown: &str, name: &str, meaning: &str| Candidate {
            path: format!("{shown}/{name}"),
            meaning: meaning.to_owned(),
            place: (folder.to_owned(), name.into()),
        };
        let mut all = vec![
            single(os_release, "/etc/os-release", "the name of the operating system"),
            single(&self.resolver, "/etc/resolv.conf", "the name servers"),
            single(&self.hosts, "/etc/hosts", "names and their addresses"),
        ];
        all.extend(PROC.map(|(name, meaning)| below(&self.processes, "/proc", name, meaning)));
        // `/proc/net` is a link to the network of the reader: that of init is the node's.
        all.extend(NET.map(|(name, meaning)| Candidate {
            place: (self.processes.clone(), Path::new("1/net").join(name)),
            ..below(&self.processes, "/proc/net", name, meaning)
        }));
        all.extend(
            KUBELET.map(|(name, meaning)| below(kubelet, KUBELET_CONFIGURATIONS, name, meaning)),
        );
        let image = IMAGE.iter().filter_map(|(path, meaning)| {
            let name = path.strip_prefix(SHARE)?.trim_start_matches('/');
            Some(below(share, SHARE, name, meaning))
        });
        all.extend(image);
        all.extend(self.manifests());
        all.sort_by(|a, b| a.path.cmp(&b.path));
        all
    }

    /// The manifests of the image's pods. Those on DATA may contain a secret.
    fn manifests(&self) -> Vec<Candidate> {
        let folder = POD_MANIFESTS.strip_prefix(SHARE).unwrap_or_default().trim_start_matches('/');
        let names = fs::read_dir(self.places.share.join(folder)).into_iter().flatten();
        let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let manifests = names.filter_map(|name| {
            let pod = name.strip_suffix(MANIFEST)?;
            Some(Candidate {
                path: format!("{POD_MANIFESTS}/{name}"),
                meaning: format!("the manifest of the pod `{pod}`"),
                place: (self.places.share.clone(), Path::new(folder).join(&name)),
            })
        });
        manifests.collect()
    }
}

fn single(file: &Path, shown: &str, meaning: &str) -> Candidate {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let name = file.file_name().unwrap_or_default();
    Candidate {
        path: shown.to_owned(),
        meaning: meaning.to_owned(),
        place: (folder.to_owned(), name.into()),
    }
}

impl Candidate {
    /// Opens it; nothing if it is missing, no regular file, or behind a link.
    fn open(&self) -> io::Result<Option<File>> {
        let (folder, name) = &self.place;
        below::file(folder, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustix::fs::{CWD, Mode};
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    const SECRET: &str = "a secret";

    /// A node with secrets beside what may be read.
    fn node() -> (TempDir, Files) {
        let folder = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("share/containerd.toml", "version = 3"),
            ("share/pods/dhcp.yaml", "kind: Pod"),
            ("share/pods/key.pem", SECRET),
            ("share/update/settings", SECRET),
            ("kubelet/config/joined.json", "{}"),
            ("kubelet/config/kubelet.conf", SECRET),
            ("kubelet/kubelet.conf", SECRET),
            ("etc/hosts", "127.0.0.1 localhost"),
            ("etc/shadow", SECRET),
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let place = |name: &str| folder.path().join(name);
        let places = Places {
            share: place("share"),
            kubelet: place("kubelet/config"),
            os_release: place("etc/os-release"),
        };
        let files = Files {
            places,
            processes: "/proc".into(),
            resolver: place("etc/resolv.conf"),
            hosts: place("etc/hosts"),
        };
        (folder, files)
    }

    fn text(files: &Files, path: &str) -> Option<String> {
        let mut text = String::new();
        files.open(path).unwrap()?.read_to_string(&mut text).unwrap();
        Some(text)
    }

    fn paths(files: &Files) -> Vec<String> {
        files.list().into_iter().map(|file| file.path).collect()
    }

    #[test]
    fn what_is_listed_is_read() {
        let (_folder, files) = node();
        let paths = paths(&files);
        assert!(paths.is_sorted(), "{paths:?}");
        for (path, part) in [
            ("/usr/share/osbuild/containerd.toml", "version = 3"),
            ("/usr/share/osbuild/pods/dhcp.yaml", "kind: Pod"),
            ("/run/osbuild/kubelet/config/joined.json", "{}"),
            ("/etc/hosts", "localhost"),
            ("/proc/meminfo", "MemAvailable:"),
            ("/proc/1/mounts", " / "),
            ("/proc/net/dev", "lo:"),
        ] {
            assert!(paths.iter().any(|listed| listed == path), "{path}");
            assert!(text(&files, path).unwrap().contains(part), "{path}");
        }
    }

    #[test]
    fn what_is_missing_is_not_listed() {
        let (_folder, files) = node();
        assert!(!paths(&files).iter().any(|path| path == "/etc/os-release"));
        assert_eq!(text(&files, "/etc/os-release"), None);
    }

    #[test]
    fn a_secret_is_neither_listed_nor_read() {
        let (_folder, files) = node();
        for path in paths(&files).iter().filter(|path| !path.starts_with("/proc/")) {
            assert_ne!(text(&files, path).as_deref(), Some(SECRET), "{path}");
        }
        for path in [
            "",
            "/",
            "/etc/shadow",
            "/etc/../etc/hosts",
            "/etc/kubernetes/kubelet.conf",
            "/etc/kubernetes/pki/ca.key",
            "/etc/osbuild/node.toml",
            "/proc/1/environ",
            "/proc/1/cwd/etc/shadow",
            "/proc/kcore",
            "/proc/net/../1/environ",
            "/run/osbuild/kubelet/config/../kubelet.conf",
            "/run/osbuild/kubelet/config/kubelet.conf",
            "/run/osbuild/kubelet/kubelet.conf",
            "/usr/share/osbuild/pods",
            "/usr/share/osbuild/pods/../update/settings",
            "/usr/share/osbuild/pods/key.pem",
            "/usr/share/osbuild/update/settings",
            "/var/lib/kubelet/pods/0/volumes/token",
            "/var/lib/osd/identity.pem",
            "containerd.toml",
        ] {
            assert_eq!(text(&files, path), None, "{path}");
        }
    }

    #[test]
    fn no_link_is_followed_and_no_fifo_is_opened() {
        let (folder, files) = node();
        let pods = folder.path().join("share/pods");
        symlink("../../etc/shadow", pods.join("linked.yaml")).unwrap();
        symlink(folder.path().join("etc/shadow"), pods.join("absolute.yaml")).unwrap();
        rustix::fs::mkfifoat(CWD, pods.join("fifo.yaml"), Mode::RUSR).unwrap();
        fs::create_dir(pods.join("folder.yaml")).unwrap();
        fs::remove_file(folder.path().join("etc/hosts")).unwrap();
        symlink("shadow", folder.path().join("etc/hosts")).unwrap();
        let paths = paths(&files);
        for name in ["linked", "absolute", "fifo", "folder"] {
            let path = format!("{POD_MANIFESTS}/{name}.yaml");
            assert_eq!((text(&files, &path), paths.contains(&path)), (None, false), "{name}");
        }
        assert_eq!(text(&files, "/etc/hosts"), None);
    }

    #[test]
    fn a_folder_that_is_replaced_by_a_link_leads_nowhere() {
        let (folder, files) = node();
        let pods = folder.path().join("share/pods");
        fs::rename(&pods, folder.path().join("elsewhere")).unwrap();
        symlink("../elsewhere", &pods).unwrap();
        assert_eq!(text(&files, "/usr/share/osbuild/pods/dhcp.yaml"), None);
    }

    proptest! {
        #[test]
        fn only_listed_paths_are_read(
            path in "(/(proc|etc|usr|1|net|\\.\\.|\\.|hosts|dev|x)){0,6}",
        ) {
            let (_folder, files) = node();
            let is_listed = paths(&files).contains(&path);
            prop_assert_eq!(files.open(&path).unwrap().is_some(), is_listed);
        }
    }
}
