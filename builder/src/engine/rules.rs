//! The rules under which every action runs, whatever its command.
//!
//! A changed rule can change the bytes that an action makes although its command and its inputs
//! stay the same. So the digest of an action, which is the key of its result, contains
//! [`VERSION`]: results of other rules are not found.

use std::time::{Duration, SystemTime};

/// The version of these rules. Raise it in the commit that changes one of them, and add what an
/// action sees then.
///
/// 1. bubblewrap with [`ISOLATION`]; the root read-only at `/`; a minimal `/dev`, a `/proc` of its
///    own; `/tmp` and `/build` empty but for the inputs; toolchains read-only below `/toolchain`;
///    the environment of [`Action::environment`](super::action::Action::environment) and nothing of
///    the host's; [`UMASK`]; inputs of [`file_mode`] and of [`input_time`]; no standard input, and
///    both output streams in one pipe
pub const VERSION: u32 = 1;

/// The arguments of bubblewrap that separate an action from the host: none of its network,
/// processes and files. User 0 inside has no capabilities and so no more rights than the user
/// outside: an action does the same for root as for other users.
pub const ISOLATION: [&str; 11] = [
    "--unshare-all",
    "--unshare-user",
    "--uid",
    "0",
    "--gid",
    "0",
    "--cap-drop",
    "ALL",
    "--die-with-parent",
    "--hostname",
    "osbuild",
];

/// The umask of an action, because compilers and tar write modes into what they make.
pub const UMASK: u32 = 0o022;

/// The permission bits of an input.
pub fn file_mode(executable: bool) -> u32 {
    if executable { 0o755 } else { 0o644 }
}

/// The time of modification of every input. All have the same one, so that make(1) takes none for
/// newer than another; its value is arbitrary, but late enough for every archive format.
pub fn input_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(500_000_000)
}

/// The salt that keeps the results of these rules apart, for [`reapi::Action`].
///
/// Version 1 has none, as a protocol buffer omits a field with its default value: results that
/// were stored before there were versions belong to version 1.
///
/// [`reapi::Action`]: super::reapi::Action
pub(super) fn salt(version: u32) -> Vec<u8> {
    if version == 1 { Vec::new() } else { format!("osbuild rules {version}").into_bytes() }
}
