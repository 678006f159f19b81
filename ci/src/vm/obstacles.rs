//! Files of every kind, planted on DATA in places where `init` or a daemon expects another kind.

use super::data::Data;
use osbuild::error::{Error, Result};
use std::collections::BTreeMap;

/// A path on DATA, and whether a regular file is an obstacle there. In the other places it is a
/// valid setting.
type Place = (&'static str, bool);

const PLACES: &[Place] = &[
    ("log/init.log", true),
    ("log/init.log.1", true),
    ("log/init.log.old", true),
    ("log/containerd.log", true),
    ("log/containerd.log.1", true),
    ("log/kubelet.log", true),
    ("log/kubelet.log.old", true),
    ("kubernetes/kubelet.conf.d", true),
    ("kubernetes/kubelet.conf", false),
    ("kubernetes/bootstrap-kubelet.conf", false),
    ("kubernetes/manifests", true),
    ("osbuild", true),
    ("cni-net.d/10-planted.conflist", false),
    ("kubelet/pki/kubelet.crt", false),
    ("kubelet/pki/kubelet.key", false),
    ("kubelet/plugins", true),
    ("kubelet/planted", true),
    ("updater", true),
    ("osd", true),
    ("volume-plugins", true),
    ("cni-bin", true),
    ("registries", true),
    ("clock", true),
    ("hostname", true),
    ("host-settings", true),
    ("host-settings-good", true),
    ("host-settings-bad", true),
    ("host-settings-failures", true),
    ("reset", true),
    (".hostname.new", true),
    ("machine-id", true),
    ("containerd-failures", true),
];

/// A kind of file.
struct Kind {
    /// debugfs's commands to make it, in which `NAME` is the last part of the path `PATH`.
    commands: &'static str,
    /// The first digits of its octal `st_mode` (inode(7)).
    mode: &'static str,
    /// `init`'s words for it.
    words: &'static str,
}

impl Kind {
    fn is_file(&self) -> bool {
        self.mode == FILE
    }
}

/// The first digits of the octal `st_mode` of a regular file.
const FILE: &str = "100";

/// Sockets are missing: debugfs makes none that e2fsck accepts. The tests of `osbuild-folder` make
/// one.
const KINDS: &[Kind] = &[
    Kind { commands: "mknod NAME p", mode: "010", words: "a FIFO" },
    Kind { commands: "mkdir NAME\nmkdir NAME/in-the-way", mode: "040", words: "a folder" },
    Kind { commands: "symlink NAME /dev/vda", mode: "120", words: "a symbolic link" },
    Kind { commands: "write /dev/null NAME\nsif NAME mode 0100000", mode: FILE, words: "a file" },
    Kind { commands: "symlink NAME nowhere", mode: "120", words: "a symbolic link" },
    Kind { commands: "mknod NAME b 254 0", mode: "060", words: "a device" },
    Kind { commands: "symlink NAME /data/PATH", mode: "120", words: "a symbolic link" },
    Kind { commands: "write /dev/null NAME\nsif NAME flags 0x80010", mode: FILE, words: "a file" },
    Kind { commands: "mknod NAME c 1 3", mode: "020", words: "a device" },
];

/// The number of turns in which each place gets each kind.
pub const TURNS: usize = KINDS.len();

/// Plants a file in each place, of another kind in each of the [`TURNS`], and returns the number of
/// places.
///
/// # Errors
/// A place has no file of its kind afterwards, or DATA cannot be changed.
pub fn plant(data: &Data, turn: usize) -> Result<usize> {
    for (number, (path, any)) in PLACES.iter().enumerate() {
        let kind = kind(number, turn, *any);
        let (folder, name) = split(path);
        let lines = kind.commands.replace("NAME", name).replace("PATH", path);
        // debugfs makes devices only in its current folder.
        data.change(&format!(
            "cd /{folder}\nrm {name}\nrmdir {name}/in-the-way\nrmdir {name}\n{lines}\n"
        ))?;
    }
    are_planted(data, turn)
}

/// Checks that each place has a file of its kind, and returns the number of places.
fn are_planted(data: &Data, turn: usize) -> Result<usize> {
    let mut folders = BTreeMap::new();
    for (number, (path, any)) in PLACES.iter().enumerate() {
        let (folder, name) = split(path);
        if !folders.contains_key(folder) {
            folders.insert(folder, data.list(&format!("/{folder}"))?);
        }
        let mode = kind(number, turn, *any).mode;
        let mut entries = folders[folder].iter().filter(|entry| entry.name == name);
        if !entries.next().is_some_and(|entry| entry.mode.starts_with(mode)) {
            return Err(Error::build(format!("debugfs has not planted /{path}, mode {mode}…")));
        }
    }
    Ok(PLACES.len())
}

/// The folder of a path on DATA, and the name in it.
fn split(path: &'static str) -> (&'static str, &'static str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// `init` must report each obstacle that it moved aside.
pub fn were_moved(console: &str, turn: usize) -> Result<()> {
    let watched = [
        "log/init.log",
        "log/kubelet.log",
        "kubernetes/kubelet.conf.d",
        "kubernetes/kubelet.conf",
        "kubernetes/manifests",
        "clock",
    ];
    for (number, (path, any)) in
        PLACES.iter().enumerate().filter(|(_, (path, _))| watched.contains(path))
    {
        let kind = kind(number, turn, *any);
        // Two places take a folder, the others a regular file.
        let wants_folder = ["kubernetes/kubelet.conf.d", "kubernetes/manifests"].contains(path);
        let stays = if wants_folder { kind.words == "a folder" } else { kind.is_file() };
        let line = format!("/data/{path} is {}, and is moved aside to /data/aside/", kind.words);
        if !stays && !console.contains(&line) {
            return Err(Error::build(format!("`init` does not print: {line}")));
        }
    }
    Ok(())
}

/// The kind for a place in a turn.
fn kind(number: usize, turn: usize, any: bool) -> &'static Kind {
    let mut kinds = KINDS.iter().cycle().skip((number + turn) % KINDS.len());
    kinds.find(|kind| any || !kind.is_file()).unwrap_or(&KINDS[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_place_gets_each_kind_that_is_an_obstacle_there() {
        for (number, (path, any)) in PLACES.iter().enumerate() {
            let planted: BTreeSet<_> =
                (0..TURNS).map(|turn| kind(number, turn, *any).commands).collect();
            let possible = KINDS.iter().filter(|kind| *any || !kind.is_file()).count();
            assert_eq!(planted.len(), possible, "{path}");
        }
    }

    #[test]
    fn one_turn_has_every_kind() {
        let planted: BTreeSet<_> = PLACES
            .iter()
            .enumerate()
            .map(|(number, (_, any))| kind(number, 0, *any).commands)
            .collect();
        assert_eq!(planted.len(), KINDS.len());
    }
}
