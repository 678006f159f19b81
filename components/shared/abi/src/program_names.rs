//! The names outside `/bin` under which a host daemon finds a program of `/bin`. They are links in
//! a folder that only the `PATH` of the kubelet has, and none of them is a program of its own.

/// A name that a program of `/bin` answers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramName {
    /// The name, in [`crate::paths::KUBELET_PROGRAMS`].
    pub name: &'static str,
    /// The path of the program.
    pub program: &'static str,
    /// The reason for the name.
    pub reason: &'static str,
}

/// `losetup`, as the kubelet executes it.
pub const LOSETUP: ProgramName = ProgramName {
    name: "losetup",
    program: "/bin/mount",
    reason: "raw block volumes: the kubelet holds each device open with a loop device",
};

/// The names that the kubelet finds.
pub const KUBELET: &[ProgramName] = &[LOSETUP];
