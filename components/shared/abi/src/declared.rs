//! Writable paths that a recipe declares in addition to those of [`crate::writable`]: the lines of
//! [`crate::paths::WRITABLE_PATHS`], each `PATH MODE exec|noexec data FOLDER` or `PATH MODE
//! exec|noexec memory MIB`, with the mode in octal.
//!
//! A declared path overlaps neither another one nor one of the table. Each mount point of `init` is
//! a folder of the read-only root, so nothing that a pod has written affects it.

use crate::paths::VOLUME_MOUNTS;
use crate::writable::{WRITABLE, Writable};
use core::fmt;

/// The folder of DATA with the folders of the declared paths, so that their names cannot collide
/// with those of the table.
pub const DATA_FOLDER: &str = "declared";

/// First components of paths that cannot be declared: those of the node's own files and of the
/// mounts of the kernel and `init`.
const RESERVED: [&str; 16] = [
    "bin", "boot", "data", "dev", "etc", "init", "layers", "lib", "lib32", "lib64", "proc", "run",
    "sbin", "sys", "tmp", "usr",
];

/// The highest mode: all permission bits and the sticky bit.
const MAX_MODE: u32 = 0o1777;

/// One declared path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared<'a> {
    /// The path on the node.
    pub path: &'a str,
    /// The storage behind it.
    pub backing: Backing<'a>,
    /// Permission bits of the folder when it is created.
    pub mode: u32,
    /// Whether the host can execute programs on it. Set-user-id bits and device files never work.
    /// Containers have mounts of their own.
    pub exec: bool,
}

/// The storage behind a declared path, which decides the lifetime of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing<'a> {
    /// This folder of DATA's [`DATA_FOLDER`], for the lifetime of the disk.
    Data(&'a str),
    /// Memory of at most this many MiB, until the next boot.
    Memory(u32),
}

/// Why a path cannot be declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not absolute, has an empty, `.` or `..` component, or contains white space.
    Malformed,
    /// It begins with the name of a folder that is reserved for the node.
    Reserved(&'static str),
    /// It is at, above or below this writable path of every node.
    Overlaps(&'static Writable),
}

/// Whether two paths are equal, or one is an ancestor of the other.
pub fn overlap(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns why a recipe cannot declare `path`; `None` if it can.
pub fn refusal(path: &str) -> Option<Refusal> {
    let Some(parts) = path.strip_prefix('/') else { return Some(Refusal::Malformed) };
    let is_bad = |part: &str| {
        matches!(part, "" | "." | "..")
            || part.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    if parts.split('/').any(is_bad) {
        return Some(Refusal::Malformed);
    }
    let first = parts.split('/').next();
    if let Some(reserved) = RESERVED.into_iter().find(|reserved| first == Some(reserved)) {
        return Some(Refusal::Reserved(reserved));
    }
    if overlap(VOLUME_MOUNTS, path) {
        return Some(Refusal::Reserved("var/mnt"));
    }
    WRITABLE.iter().find(|row| overlap(row.path, path)).map(Refusal::Overlaps)
}

impl<'a> Declared<'a> {
    /// Reads a line; `None` if the builder never writes such a line.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut word = || words.next();
        let (path, mode, exec, kind, value) = (word()?, word()?, word()?, word()?, word()?);
        let backing = match kind {
            "data" if is_name(value) => Backing::Data(value),
            "memory" => Backing::Memory(number(value, 10).filter(|mib| *mib > 0)?),
            _ => return None,
        };
        let exec = match exec {
            "exec" => true,
            "noexec" => false,
            _ => return None,
        };
        let mode = number(mode, 8).filter(|mode| *mode <= MAX_MODE)?;
        (word().is_none() && refusal(path).is_none()).then_some(Declared {
            path,
            backing,
            mode,
            exec,
        })
    }
}

/// Reads the whole list; `None` if the builder never writes one of the lines, if two paths overlap,
/// or if two paths share a folder of DATA.
pub fn parse(list: &str) -> Option<impl Iterator<Item = Declared<'_>>> {
    let rows = || list.lines().map(Declared::parse);
    for (index, row) in rows().enumerate() {
        let row = row?;
        for earlier in rows().take(index).flatten() {
            let is_same_folder =
                matches!(row.backing, Backing::Data(_)) && earlier.backing == row.backing;
            if is_same_folder || overlap(earlier.path, row.path) {
                return None;
            }
        }
    }
    Some(rows().flatten())
}

/// Reads a number without a sign or leading zeros.
fn number(text: &str, radix: u32) -> Option<u32> {
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if is_plain { u32::from_str_radix(text, radix).ok() } else { None }
}

/// Whether this is the name of a folder of DATA: lower-case letters, digits and hyphens.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

impl fmt::Display for Declared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Declared { path, backing, mode, exec } = self;
        write!(f, "{path} {mode:o} {} ", if *exec { "exec" } else { "noexec" })?;
        match backing {
            Backing::Data(folder) => write!(f, "data {folder}"),
            Backing::Memory(mib) => write!(f, "memory {mib}"),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::format;
    use std::vec::Vec;

    const LIST: &str = "/var/lib/longhorn 755 exec data longhorn\n/srv 1777 noexec memory 64\n";

    fn read(list: &str) -> Option<Vec<Declared<'_>>> {
        parse(list).map(Iterator::collect)
    }

    #[test]
    fn a_line_names_the_storage_behind_a_path() {
        let [longhorn, srv] = read(LIST).unwrap()[..] else { panic!("two lines") };
        assert_eq!(
            (longhorn.path, longhorn.backing, longhorn.mode, longhorn.exec),
            ("/var/lib/longhorn", Backing::Data("longhorn"), 0o755, true)
        );
        assert_eq!((srv.backing, srv.mode, srv.exec), (Backing::Memory(64), 0o1777, false));
    }

    #[test]
    fn one_invalid_line_invalidates_the_list() {
        for line in [
            "",
            "/srv/a 755 exec data",
            "/srv/a 755 exec data a more",
            "/srv/a  755 exec data a",
            "/srv/a 0755 exec data a",
            "/srv/a 2755 exec data a",
            "/srv/a 755 exec data ../a",
            "/srv/a 755 exec data A",
            "/srv/a 755 exec memory 0",
            "/srv/a 755 exec memory +1",
            "/srv/a 755 yes data a",
            "/srv/../etc 755 exec data a",
            "/etc/a 755 exec data a",
            "/var/lib/kubelet/a 755 exec data a",
            "/opt 755 exec data a",
            "srv/a 755 exec data a",
            "/srv/a 755 exec disk a",
        ] {
            assert_eq!(read(&format!("/srv/b 755 exec data b\n{line}\n")), None, "{line}");
        }
    }

    #[test]
    fn neither_two_paths_nor_two_folders_overlap() {
        assert_eq!(read(&[LIST, "/srv/a 755 exec data a\n"].concat()), None);
        assert_eq!(read(&[LIST, "/opt/a 755 exec data longhorn\n"].concat()), None);
        assert!(read(&[LIST, "/srva 755 exec data a\n"].concat()).is_some());
    }

    #[test]
    fn a_reserved_path_cannot_be_declared() {
        for row in WRITABLE {
            let below = format!("{}/x", row.path);
            for path in [row.path, &below] {
                assert!(refusal(path).is_some(), "{path}");
            }
        }
        assert_eq!(refusal("/usr/lib/x"), Some(Refusal::Reserved("usr")));
        assert_eq!(refusal("/var/mnt/db"), Some(Refusal::Reserved("var/mnt")));
        assert!(matches!(refusal("/var/lib"), Some(Refusal::Overlaps(_))));
        for path in [
            "/var/lib/rook",
            "/opt/local-path-provisioner",
            "/srv",
            "/mnt",
            "/storage",
            "/var/openebs/local",
        ] {
            assert_eq!(refusal(path), None, "{path}");
        }
    }
}
