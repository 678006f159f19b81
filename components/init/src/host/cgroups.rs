//! The control groups of the node's daemons. While many pods start, each daemon gets its share of
//! the processor and the disk, and all shims together get one: in the root's group each of a
//! hundred shims would get as much as the kubelet.
//!
//! The kubelet makes the groups of pods itself, below `/kubepods`.

use std::fs;
use std::io::ErrorKind;

use osbuild_failure::{Explain, Outcome};

/// The group of containerd.
pub const CONTAINERD: &str = "/sys/fs/cgroup/system/containerd";
/// The group of the kubelet.
pub const KUBELET: &str = "/sys/fs/cgroup/system/kubelet";
/// The group of containerd's shims. `containerd.toml` names it, too.
const SHIMS: &str = "/sys/fs/cgroup/system/shims";

/// The groups whose children have controllers. The kernel's root comes first.
const PARENTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/system"];
/// The controllers that the kubelet gives to pods.
const CONTROLLERS: &str = "+cpu +memory +pids +cpuset +io";

/// Makes the groups, and lets the children of [`PARENTS`] use the controllers.
pub fn apply() -> Outcome {
    for parent in PARENTS {
        make(parent)?;
        let control = format!("{parent}/cgroup.subtree_control");
        fs::write(&control, CONTROLLERS)
            .explain(format_args!("write `{CONTROLLERS}` to {control}"))?;
    }
    [CONTAINERD, KUBELET, SHIMS].into_iter().try_for_each(make)
}

fn make(group: &str) -> Outcome {
    match fs::create_dir(group) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
    .explain(format_args!("make {group}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containerd_puts_its_shims_into_their_group() {
        let settings = include_str!("../../../containerd/containerd.toml");
        let group = SHIMS.strip_prefix(PARENTS[0]).unwrap();
        assert!(settings.contains(&format!("ShimCgroup = \"{group}\"\n")));
    }

    #[test]
    fn every_group_is_below_the_last_parent() {
        for group in [CONTAINERD, KUBELET, SHIMS] {
            assert_eq!(group.rsplit_once('/').unwrap().0, PARENTS[1]);
        }
    }
}
