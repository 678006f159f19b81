//! Every path of the node that something may write to. All else of the root is read-only.
//!
//! `init` mounts this table in its order; the builder makes an empty folder (or file) in the root
//! for each path that does not lie below another one of the table; the documentation shows the same
//! table, and a test compares them.

/// One writable path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writable {
    /// The path on the node.
    pub path: &'static str,
    /// What is behind it, and so how long its content lives.
    pub from: From,
    /// Permission bits of the folder or file.
    pub mode: u32,
    /// Whether a program on it can be executed. Set-user-id bits and device files never work.
    pub exec: bool,
    /// Who writes there.
    pub owner: &'static str,
}

/// What is behind a writable path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// This folder of DATA: the content lives as long as the disk.
    Data(&'static str),
    /// This file of DATA, bound over an empty file of the root.
    DataFile(&'static str),
    /// Memory, at most this many percent of it: the content is gone at the next boot.
    Memory(u32),
}

/// The table, parents before their children.
pub const WRITABLE: &[Writable] = &[
    Writable {
        path: "/run",
        from: From::Memory(10),
        mode: 0o755,
        exec: false,
        owner: "init, containerd, CNI plugins",
    },
    Writable {
        path: "/tmp",
        from: From::Memory(10),
        mode: 0o1777,
        exec: false,
        owner: "host daemons",
    },
    Writable {
        path: "/etc/machine-id",
        from: From::DataFile("machine-id"),
        mode: 0o444,
        exec: false,
        owner: "init",
    },
    Writable {
        path: "/var/log",
        from: From::Data("log"),
        mode: 0o755,
        exec: false,
        owner: "init, kubelet, containerd",
    },
    Writable {
        path: "/var/lib/containerd",
        from: From::Data("containerd"),
        mode: 0o700,
        exec: false,
        owner: "containerd",
    },
    Writable {
        path: "/var/lib/kubelet",
        from: From::Data("kubelet"),
        mode: 0o750,
        exec: true,
        owner: "kubelet",
    },
    Writable {
        path: "/var/lib/cni",
        from: From::Data("cni"),
        mode: 0o700,
        exec: false,
        owner: "CNI plugins",
    },
    Writable {
        path: "/var/lib/updater",
        from: From::Data("updater"),
        mode: 0o700,
        exec: false,
        owner: "the updater's pod",
    },
    Writable {
        path: "/etc/kubernetes",
        from: From::Data("kubernetes"),
        mode: 0o700,
        exec: false,
        owner: "configuration pods",
    },
    Writable {
        path: "/etc/cni/net.d",
        from: From::Data("cni-net.d"),
        mode: 0o755,
        exec: false,
        owner: "the CNI's pod",
    },
    Writable {
        path: "/opt/cni/bin",
        from: From::Data("cni-bin"),
        mode: 0o755,
        exec: true,
        owner: "the CNI's pod",
    },
    Writable {
        path: "/usr/libexec/kubernetes/kubelet-plugins/volume/exec",
        from: From::Data("volume-plugins"),
        mode: 0o755,
        exec: true,
        owner: "volume plugins",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_stands_twice() {
        for (index, one) in WRITABLE.iter().enumerate() {
            assert!(WRITABLE[..index].iter().all(|other| other.path != one.path), "{}", one.path);
        }
    }

    #[test]
    fn parents_stand_before_their_children() {
        for (index, child) in WRITABLE.iter().enumerate() {
            let below = |parent: &Writable| {
                child.path.strip_prefix(parent.path).is_some_and(|rest| rest.starts_with('/'))
            };
            assert!(!WRITABLE[index..].iter().any(below), "{}", child.path);
        }
    }

    #[test]
    fn no_two_paths_share_a_place_on_data() {
        let place = |one: &Writable| match one.from {
            From::Data(name) | From::DataFile(name) => Some(name),
            From::Memory(_) => None,
        };
        for (index, one) in WRITABLE.iter().enumerate() {
            let Some(name) = place(one) else { continue };
            assert!(WRITABLE[..index].iter().all(|other| place(other) != Some(name)), "{name}");
        }
    }
}
