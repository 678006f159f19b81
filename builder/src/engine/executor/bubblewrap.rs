//! The command line of bubblewrap: a root of our own, no network, nothing of the host's but its
//! kernel.

use crate::engine::action::{Action, BUILD, TOOLCHAIN};
use std::path::Path;
use std::process::Command;

/// What separates a step from the host. Without capabilities the user 0 inside can do no more than
/// this user outside, so steps do the same for root as for anybody.
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

/// The command that runs `action` with the directories `build` and `tmp` of `scratch` as its own.
pub(super) fn command(action: &Action, scratch: &Path) -> Command {
    let mut command = Command::new("bwrap");
    command.args(ISOLATION);
    command.arg("--ro-bind").arg(&action.root.path).args(["/", "--dev", "/dev", "--proc", "/proc"]);
    command
        .arg("--bind")
        .arg(scratch.join("tmp"))
        .arg("/tmp")
        .arg("--bind")
        .arg(scratch.join("build"))
        .arg(BUILD);
    command.args(["--tmpfs", TOOLCHAIN]);
    for toolchain in &action.toolchains {
        command.arg("--ro-bind").arg(&toolchain.path).arg(toolchain.mount());
    }
    command.args(["--remount-ro", TOOLCHAIN, "--chdir", BUILD, "--clearenv"]);
    for (name, value) in action.environment() {
        command.args(["--setenv", &name, &value]);
    }
    command.arg("--").args(&action.argv);
    command
}
