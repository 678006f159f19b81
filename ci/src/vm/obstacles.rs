//! Files of every kind, planted on DATA in places where `init` or a daemon expects another kind.

use super::data::Data;
use osbuild::error::{Error, Result};

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

/// A kind of file: debugfs's commands to make it, in which `NAME` is the last part of the path
/// `PATH`; whether it is a regular file; and `init`'s word for it.
type Kind = (&'static str, bool, &'static str);

/// Sockets are missing: debugfs makes none that e2fsck accepts. The tests of `osbuild-folder` make
/// one.
const KINDS: &[Kind] = &[
    ("mknod NAME p", false, "a FIFO"),
    ("mkdir NAME\nmkdir NAME/in-the-way", false, "a folder"),
    ("symlink NAME /dev/vda", false, "a symbolic link"),
    ("write /dev/null NAME\nsif NAME mode 0100000", true, ""),
    ("symlink NAME nowhere", false, "a symbolic link"),
    ("mknod NAME b 254 0", false, "a device"),
    ("symlink NAME /data/PATH", false, "a symbolic link"),
    ("write /dev/null NAME\nsif NAME flags 0x80010", true, ""),
    ("mknod NAME c 1 3", false, "a device"),
];

/// The number of turns in which each place gets each kind.
pub const TURNS: usize = KINDS.len();

/// Plants a file in each place, of another kind in each of the [`TURNS`], and returns the number of
/// places.
pub fn plant(data: &Data, turn: usize) -> Result<usize> {
    for (number, (path, any)) in PLACES.iter().enumerate() {
        let (lines, ..) = kind(number, turn, *any);
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let lines = lines.replace("NAME", name).replace("PATH", path);
        // debugfs makes devices only in its current folder.
        data.change(&format!(
            "cd /{folder}\nrm {name}\nrmdir {name}/in-the-way\nrmdir {name}\n{lines}\n"
        ))?;
    }
    Ok(PLACES.len())
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
        let &(_, is_file, word) = kind(number, turn, *any);
        // Two places take a folder, the others a regular file.
        let wants_folder = ["kubernetes/kubelet.conf.d", "kubernetes/manifests"].contains(path);
        let stays = if wants_folder { word == "a folder" } else { is_file };
        let line = format!(
            "/data/{path} is {}, and is moved aside to /data/aside/",
            if is_file { "a file" } else { word }
        );
        if !stays && !console.contains(&line) {
            return Err(Error::build(format!("`init` does not print: {line}")));
        }
    }
    Ok(())
}

/// The kind for a place in a turn.
fn kind(number: usize, turn: usize, any: bool) -> &'static Kind {
    let mut kinds = KINDS.iter().cycle().skip((number + turn) % KINDS.len());
    kinds.find(|(_, is_file, _)| any || !is_file).unwrap_or(&KINDS[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_place_gets_each_kind_that_is_an_obstacle_there() {
        for (number, (path, any)) in PLACES.iter().enumerate() {
            let planted: BTreeSet<_> = (0..TURNS).map(|turn| kind(number, turn, *any).0).collect();
            let possible = KINDS.iter().filter(|(_, is_file, _)| *any || !is_file).count();
            assert_eq!(planted.len(), possible, "{path}");
        }
    }

    #[test]
    fn one_turn_has_every_kind() {
        let planted: BTreeSet<_> =
            PLACES.iter().enumerate().map(|(number, (_, any))| kind(number, 0, *any).0).collect();
        assert_eq!(planted.len(), KINDS.len());
    }
}
