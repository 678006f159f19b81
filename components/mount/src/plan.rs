//! Plans the system calls of a command line, in libmount's order.

use crate::option::BindDepth;
use crate::request::MountRequest;
use rustix::mount::{MountFlags, MountPropagationFlags};

/// The flags of a bind mount that need a second call, because mount(2) ignores them in the first
/// (`mount(8)`, "Bind mount operation").
const BIND_SETTABLE: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC)
    .union(MountFlags::NOATIME)
    .union(MountFlags::NODIRATIME)
    .union(MountFlags::RELATIME)
    .union(MountFlags::RDONLY)
    .union(MountFlags::NOSYMFOLLOW);

/// The system calls of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The call that mounts or remounts.
    pub first: First,
    /// The calls that then change the mount.
    pub then: Vec<Then>,
}

/// The call that mounts or remounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum First {
    /// Makes the source visible at the target too.
    Bind(BindDepth),
    /// Changes the mount at the target: the mount's own flags if they include [`MountFlags::BIND`],
    /// otherwise the file system's.
    Remount(MountFlags),
    /// Mounts a file system of this type.
    Mount(String, MountFlags),
    /// Mounts with the first of the kernel's file system types that recognizes the device.
    Probe(MountFlags),
}

/// A later call, which needs only the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Changes propagation.
    Propagate(MountPropagationFlags),
    /// Sets the flags of a new bind mount.
    Restrict(MountFlags),
}

impl Plan {
    /// Plans a request. Pure.
    pub fn new(request: &MountRequest) -> Plan {
        let options = &request.options;
        let flags = options.flags;
        let bound = if options.bind.is_some() { MountFlags::BIND } else { MountFlags::empty() };
        let first = match (options.remount, options.bind, &request.kind) {
            (true, _, _) => First::Remount(flags | bound),
            (false, Some(depth), _) => First::Bind(depth),
            (false, None, Some(kind)) => First::Mount(kind.clone(), flags),
            (false, None, None) => First::Probe(flags),
        };
        let mut then: Vec<Then> =
            options.propagation.iter().copied().map(Then::Propagate).collect();
        if matches!(first, First::Bind(_)) && flags.intersects(BIND_SETTABLE) {
            then.push(Then::Restrict(flags | MountFlags::BIND));
        }
        Plan { first, then }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    fn plan(line: &str) -> Plan {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        Plan::new(&MountRequest::parse(&words).unwrap())
    }

    #[test]
    fn a_read_only_bind_is_two_calls() {
        let restricted = Then::Restrict(MountFlags::BIND | MountFlags::RDONLY);
        assert_eq!(
            plan("-o bind,ro /a /b"),
            Plan { first: First::Bind(BindDepth::One), then: vec![restricted] }
        );
    }

    #[test]
    fn a_plain_bind_is_one_call() {
        assert_eq!(
            plan("-o bind,_netdev /a /b"),
            Plan { first: First::Bind(BindDepth::One), then: vec![] }
        );
    }

    #[test]
    fn remounting_a_bind_touches_only_that_mount() {
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NODEV;
        assert_eq!(
            plan("-o bind,remount,ro,nodev /a /b"),
            Plan { first: First::Remount(flags), then: vec![] }
        );
    }

    #[test]
    fn propagation_follows_the_mount() {
        let shared = Then::Propagate(MountPropagationFlags::SHARED | MountPropagationFlags::REC);
        let first = First::Mount("tmpfs".into(), MountFlags::empty());
        assert_eq!(plan("-t tmpfs -o rshared tmpfs /b"), Plan { first, then: vec![shared] });
    }

    #[test]
    fn without_a_type_the_kernels_types_are_tried() {
        assert_eq!(plan("-o ro /dev/vdb /b").first, First::Probe(MountFlags::RDONLY));
    }
}
