//! The command line of bubblewrap(1): the action's own root, no network, and nothing of the host's
//! but its kernel.

use crate::engine::action::{Action, BUILD, TOOLCHAIN};
use crate::engine::rules::ISOLATION;
use std::path::Path;
use std::process::Command;

/// The command that runs `action`, with the directories `build` and `tmp` of `scratch` as its
/// `/build` and `/tmp`. It is part of the [`rules`](crate::engine::rules).
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::action::{InputTree, SandboxRoot, Toolchain};
    use crate::engine::digest::Digest;
    use crate::engine::rules;
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    fn action() -> Action {
        let key = Digest::of(b"");
        Action {
            name: "name".into(),
            argv: ["make", "all"].map(str::to_owned).to_vec(),
            env: BTreeMap::from([("A".into(), "1".into())]),
            input: InputTree::new(),
            outputs: Vec::new(),
            root: SandboxRoot { key, path: PathBuf::from("/store/root") },
            toolchains: vec![Toolchain { name: "go".into(), key, path: "/store/go".into() }],
        }
    }

    /// If this test fails, raise [`rules::VERSION`]: other rules may give other bytes, and the
    /// store would mix results of both.
    #[test]
    fn the_rules_of_the_version_are_pinned() {
        let command = command(&action(), Path::new("/scratch"));
        let words = command.get_args().map(|word| word.to_str().unwrap()).collect::<Vec<_>>();
        let since_epoch = rules::input_time().duration_since(std::time::UNIX_EPOCH).unwrap();
        let others = (rules::UMASK, rules::file_mode(false), rules::file_mode(true));
        assert_eq!((rules::VERSION, since_epoch.as_secs()), (1, 500_000_000));
        assert_eq!(others, (0o022, 0o644, 0o755));
        assert_eq!(
            words.join(" "),
            "--unshare-all --unshare-user --uid 0 --gid 0 --cap-drop ALL --die-with-parent \
             --hostname osbuild --ro-bind /store/root / --dev /dev --proc /proc \
             --bind /scratch/tmp /tmp --bind /scratch/build /build --tmpfs /toolchain \
             --ro-bind /store/go /toolchain/go --remount-ro /toolchain --chdir /build --clearenv \
             --setenv A 1 --setenv HOME /build/home --setenv LC_ALL C \
             --setenv PATH /usr/bin:/usr/sbin --setenv TZ UTC -- make all"
        );
    }
}
