//! The kernel's table of mounts, `/proc/self/mountinfo` (proc(5)). Pods mount too, at paths of
//! their choice: any bytes except NUL.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The mount points, latest first, except those that `init` itself needs to the end.
pub fn above_root(table: &[u8]) -> Vec<PathBuf> {
    let points = table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    let mut points: Vec<PathBuf> =
        points.map(|field| OsString::from_vec(unescaped(field)).into()).collect();
    points.retain(|path| {
        path.parent().is_some()
            && !["/proc", "/sys", "/dev"].iter().any(|kept| path.starts_with(kept))
    });
    points.reverse();
    points
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, which no other mount has at the same time.
    pub id: u64,
    /// The number of the mount that it is on.
    pub parent: u64,
    /// The numbers of its device, such as `8:1`. A file system without one has numbers of its own.
    pub device: String,
    /// The folder of its file system that is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub point: PathBuf,
    /// Its own options, such as `rw,nosuid,nodev`.
    pub options: String,
    /// The type of its file system.
    pub kind: String,
}

/// The mounts, latest last. Lines that the kernel never writes are left out.
pub fn entries(table: &[u8]) -> Vec<Entry> {
    table.split(|byte| *byte == b'\n').filter_map(entry).collect()
}

fn entry(line: &[u8]) -> Option<Entry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let text = |field: &[u8]| std::str::from_utf8(field).map(str::to_owned).ok();
    let id = text(fields.next()?)?.parse().ok()?;
    let parent = text(fields.next()?)?.parse().ok()?;
    let device = text(fields.next()?)?;
    let mut path = || Some(OsString::from_vec(unescaped(fields.next()?)).into());
    let (root, point) = (path()?, path()?);
    let options = text(fields.next()?)?;
    // Optional fields end with a hyphen.
    let kind = text(fields.skip_while(|field| *field != b"-").nth(1)?)?;
    Some(Entry { id, parent, device, root, point, options, kind })
}

/// The bytes of a field, in which a space, for example, is written as `\040`.
fn unescaped(mut field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    while let [first, rest @ ..] = field {
        let (byte, rest) = match rest {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] if *first == b'\\' => {
                ((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'), rest)
            }
            _ => (*first, rest),
        };
        bytes.push(byte);
        field = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_latest_mount_comes_first_and_the_kernels_own_are_left_out() {
        let table = b"1 0 0:1 / / ro - overlay overlay ro\n\
                      2 1 0:2 / /proc rw - proc proc rw\n\
                      3 1 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                      4 1 8:1 / /data rw - ext4 /dev/sda4 rw\n\
                      5 1 8:1 /kubelet /var/lib/kubelet rw - ext4 /dev/sda4 rw\n\
                      6 5 0:9 / /var/lib/kubelet/a\\040b\\134040 rw - tmpfs tmpfs rw\n";
        assert_eq!(
            above_root(table),
            ["/var/lib/kubelet/a b\\040", "/var/lib/kubelet", "/data"].map(Path::new)
        );
    }

    #[test]
    fn an_entry_has_the_fields_before_and_after_the_optional_ones() {
        let table = b"5 1 0:9 / /run/a\\040b rw,nosuid - tmpfs none rw,size=64k\n\
                      6 5 8:1 /x /srv ro shared:3 master:1 - ext4 /dev/sda4 rw\n\
                      7 5 8:1 / /cut ro shared:3\nx 5 8:1 / /bad ro - ext4 /dev/sda4 rw\n";
        let entry =
            |id, parent, [device, root]: [&str; 2], point: &str, options: &str, kind: &str| Entry {
                id,
                parent,
                device: device.to_owned(),
                root: root.into(),
                point: point.into(),
                options: options.to_owned(),
                kind: kind.to_owned(),
            };
        let expected = [
            entry(5, 1, ["0:9", "/"], "/run/a b", "rw,nosuid", "tmpfs"),
            entry(6, 5, ["8:1", "/x"], "/srv", "ro", "ext4"),
        ];
        assert_eq!(entries(table), expected);
    }

    #[test]
    fn a_mount_point_that_is_not_utf8_hides_no_other() {
        let table =
            b"4 1 8:1 / /data rw - ext4 /dev/sda4 rw\n5 4 0:9 / /data/\xff rw - tmpfs tmpfs rw\n";
        assert_eq!(
            above_root(table),
            [PathBuf::from(OsString::from_vec(b"/data/\xff".to_vec())), "/data".into()]
        );
    }
}
