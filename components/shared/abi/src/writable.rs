//! All writable paths of the node. The rest of the root is read-only.
//!
//! `init` mounts this table in order. The builder makes an empty folder (or file) in the root for
//! each path that is not below another one of the table. The documentation shows the same table,
//! and a test compares them.

use crate::paths;

/// One writable path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writable {
    /// The path on the node.
    pub path: &'static str,
    /// The storage behind it, which decides the lifetime of its contents.
    pub backing: Backing,
    /// Permission bits of the folder or file.
    pub mode: u32,
    /// Whether programs on it can be executed. Set-user-id bits and device files never work.
    pub exec: bool,
    /// The programs that write there.
    pub owner: &'static str,
}

/// The storage behind a writable path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// This folder of DATA, for the lifetime of the disk.
    Data(&'static str),
    /// This file of DATA, bind-mounted over an empty file of the root.
    DataFile(&'static str),
    /// Memory, at most this percentage of it, until the next boot.
    Memory(u32),
}

/// The table, parents before their children.
pub const WRITABLE: &[Writable] = &[
    Writable {
        path: "/run",
        backing: Backing::Memory(10),
        mode: 0o755,
        exec: false,
        owner: "init, containerd, CNI plugins",
    },
    Writable {
        path: "/tmp",
        backing: Backing::Memory(10),
        mode: 0o1777,
        exec: false,
        owner: "host daemons",
    },
    Writable {
        path: paths::MACHINE_ID,
        backing: Backing::DataFile("machine-id"),
        mode: 0o444,
        exec: false,
        owner: "init",
    },
    Writable {
        path: "/var/log",
        backing: Backing::Data("log"),
        mode: 0o755,
        exec: false,
        owner: "init, kubelet, containerd",
    },
    Writable {
        path: "/var/lib/containerd",
        backing: Backing::Data("containerd"),
        mode: 0o700,
        exec: false,
        owner: "containerd",
    },
    Writable {
        path: "/var/lib/kubelet",
        backing: Backing::Data("kubelet"),
        mode: 0o750,
        exec: true,
        owner: "kubelet",
    },
    Writable {
        path: "/var/lib/cni",
        backing: Backing::Data("cni"),
        mode: 0o700,
        exec: false,
        owner: "CNI plugins",
    },
    Writable {
        path: "/var/lib/updater",
        backing: Backing::Data("updater"),
        mode: 0o700,
        exec: false,
        owner: "the updater's pod",
    },
    Writable {
        path: "/var/lib/osd",
        backing: Backing::Data("osd"),
        mode: 0o700,
        exec: false,
        owner: "the pod `osd`",
    },
    // The node document, `node.toml`.
    Writable {
        path: "/etc/osbuild",
        backing: Backing::Data("osbuild"),
        mode: 0o700,
        exec: false,
        owner: "configuration pods",
    },
    Writable {
        path: "/etc/kubernetes",
        backing: Backing::Data("kubernetes"),
        mode: 0o700,
        exec: false,
        owner: "configuration pods",
    },
    // Where containerd looks for the settings of each registry: mirrors, CAs, credentials.
    Writable {
        path: "/etc/containerd/certs.d",
        backing: Backing::Data("registries"),
        mode: 0o700,
        exec: false,
        owner: "configuration pods",
    },
    Writable {
        path: "/etc/cni/net.d",
        backing: Backing::Data("cni-net.d"),
        mode: 0o755,
        exec: false,
        owner: "the CNI's pod",
    },
    Writable {
        path: "/opt/cni/bin",
        backing: Backing::Data("cni-bin"),
        mode: 0o755,
        exec: true,
        owner: "the CNI's pod",
    },
    Writable {
        path: "/usr/libexec/kubernetes/kubelet-plugins/volume/exec",
        backing: Backing::Data("volume-plugins"),
        mode: 0o755,
        exec: true,
        owner: "volume plugins",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_unique() {
        for (index, one) in WRITABLE.iter().enumerate() {
            assert!(WRITABLE[..index].iter().all(|other| other.path != one.path), "{}", one.path);
        }
    }

    #[test]
    fn parents_precede_their_children() {
        for (index, child) in WRITABLE.iter().enumerate() {
            let below = |parent: &Writable| {
                child.path.strip_prefix(parent.path).is_some_and(|rest| rest.starts_with('/'))
            };
            assert!(!WRITABLE[index..].iter().any(below), "{}", child.path);
        }
    }

    #[test]
    fn no_two_paths_share_storage_on_data() {
        let place = |one: &Writable| match one.backing {
            Backing::Data(name) | Backing::DataFile(name) => Some(name),
            Backing::Memory(_) => None,
        };
        for (index, one) in WRITABLE.iter().enumerate() {
            let Some(name) = place(one) else { continue };
            assert!(WRITABLE[..index].iter().all(|other| place(other) != Some(name)), "{name}");
        }
    }
}
