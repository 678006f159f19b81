//! The names outside `/bin` under which a host daemon looks for a program. Those that it executes
//! are links to programs of `/bin`, in a folder that only the `PATH` of the kubelet has; the others
//! are text. None of them is a program of its own.

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

/// A file of text in the place of a program that a host daemon looks for and does not execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placeholder {
    /// The path.
    pub path: &'static str,
    /// The content of the file.
    pub text: &'static str,
    /// The reason for the file.
    pub reason: &'static str,
}

/// The mode of a placeholder: nobody can execute it.
pub const PLACEHOLDER_MODE: u32 = 0o444;

/// The file with which containerd uses AppArmor. The image has it if the kernel has AppArmor.
pub const APPARMOR_PARSER: Placeholder = Placeholder {
    path: "/sbin/apparmor_parser",
    text: "containerd uses AppArmor only if this file exists. It is not a program: the image has \
           the profile of pods compiled, and init loads it.\n",
    reason: "AppArmor: containerd looks for the file, and executes it only if init has not loaded \
             the profile of pods",
};

/// The placeholders that an image may have.
pub const PLACEHOLDERS: &[Placeholder] = &[APPARMOR_PARSER];
