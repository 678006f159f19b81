//! The command line of bubblewrap(1): the action's own root, no network, and nothing of the host's
//! but its kernel.

use crate::engine::action::{Action, BUILD, TOOLCHAIN};
use crate::engine::rules::ISOLATION;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Where the folders of an action are before they are mounted.
pub(super) struct Places {
    /// That of `/`, of which the action sees no change.
    pub root: PathBuf,
    /// That of `/tmp`.
    pub tmp: PathBuf,
    /// That of `/build`.
    pub build: PathBuf,
    /// Those of the action's toolchains, in their order.
    pub toolchains: Vec<PathBuf>,
}

/// The arguments of bubblewrap that run `action` in these folders, here or on a worker. They are
/// part of the [`rules`](crate::engine::rules).
pub(super) fn arguments(action: &Action, places: Places) -> Vec<OsString> {
    let Places { root, tmp, build, toolchains } = places;
    let mut arguments: Vec<OsString> = ISOLATION.map(OsString::from).to_vec();
    let mut add = |words: &[&OsStr]| arguments.extend(words.iter().map(OsString::from));
    let word = OsStr::new;
    add(&[word("--ro-bind"), root.as_ref(), word("/")]);
    add(&["--dev", "/dev", "--proc", "/proc"].map(word));
    add(&[word("--bind"), tmp.as_ref(), word("/tmp")]);
    add(&[word("--bind"), build.as_ref(), word(BUILD)]);
    add(&["--tmpfs", TOOLCHAIN].map(word));
    for (toolchain, place) in action.toolchains.iter().zip(&toolchains) {
        add(&[word("--ro-bind"), place.as_ref(), word(&toolchain.mount())]);
    }
    add(&["--remount-ro", TOOLCHAIN, "--chdir", BUILD, "--clearenv"].map(word));
    for (name, value) in &action.environment() {
        add(&["--setenv", name, value].map(word));
    }
    arguments.push("--".into());
    arguments.extend(action.argv.iter().map(OsString::from));
    arguments
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
        let places = Places {
            root: "/store/root".into(),
            tmp: "/scratch/tmp".into(),
            build: "/scratch/build".into(),
            toolchains: vec!["/store/go".into()],
        };
        let words = arguments(&action(), places);
        let words = words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>();
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
