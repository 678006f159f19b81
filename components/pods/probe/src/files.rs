//! Facts about files: the programs in `/bin`, shells and scripts, mounts, the sizes of DATA and of
//! disks.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use osbuild_abi::paths::KUBELET_PROGRAMS;
use osbuild_abi::program_names::{self, Placeholder};

/// Names of shells.
const SHELLS: [&str; 14] = [
    "ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "mksh", "nu", "rbash", "sh", "tcsh",
    "toybox", "zsh",
];

/// `bin NAME`, `kubelet-name NAME TARGET`, `placeholder PATH MODE`, `shell PATH`, `mount SOURCE
/// POINT TYPE OPTIONS`, `command-line WORDS`, `data BYTES` and `disk NAME BYTES` lines.
pub fn facts(host: &Path) -> io::Result<Vec<String>> {
    let mut facts: Vec<String> =
        names(&host.join("bin"))?.into_iter().map(|name| format!("bin {name}")).collect();
    let folder = host.join(KUBELET_PROGRAMS.trim_start_matches('/'));
    for name in names(&folder)? {
        let target = fs::read_link(folder.join(&name)).unwrap_or_default();
        facts.push(format!("kubelet-name {name} {}", target.display()));
    }
    for Placeholder { path, .. } in program_names::PLACEHOLDERS {
        if let Ok(meta) = host.join(path.trim_start_matches('/')).symlink_metadata() {
            facts.push(format!("placeholder {path} {:o}", meta.mode()));
        }
    }
    shells(host, host, host.metadata()?.dev(), &mut facts)?;
    facts.extend(fs::read_to_string("/proc/1/mountinfo")?.lines().filter_map(mount));
    facts.push(format!("command-line {}", fs::read_to_string("/proc/cmdline")?.trim_end()));
    let data = rustix::fs::statvfs(host.join("data"))?;
    facts.push(format!("data {}", data.f_blocks * data.f_frsize));
    for disk in names(Path::new("/sys/block"))? {
        let sectors: u64 = fs::read_to_string(format!("/sys/block/{disk}/size"))?
            .trim()
            .parse()
            .map_err(io::Error::other)?;
        facts.push(format!("disk {disk} {}", sectors * 512));
    }
    Ok(facts)
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Finds shells by their names and scripts by their first bytes, below `folder` on the file system
/// `device`.
fn shells(host: &Path, folder: &Path, device: u64, facts: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let meta = path.symlink_metadata()?;
        let named = path.file_name().is_some_and(|name| SHELLS.iter().any(|shell| name == *shell));
        if meta.is_dir() && meta.dev() == device {
            shells(host, &path, device, facts)?;
        } else if (named && !meta.is_dir()) || (meta.is_file() && is_script(&path)) {
            facts.push(format!("shell /{}", path.strip_prefix(host).unwrap_or(&path).display()));
        }
    }
    Ok(())
}

fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"#!"
}

/// Parses a line of mountinfo (proc(5)): the fields up to a lone `-`, then type and source. The
/// fact has the flags of both the mount and the file system.
fn mount(line: &str) -> Option<String> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ');
    let point = mount.nth(4)?;
    let flags = mount.next()?;
    let mut file_system = file_system.split(' ');
    let (kind, source, options) = (file_system.next()?, file_system.next()?, file_system.next()?);
    Some(format!("mount {source} {point} {kind} {flags},{options}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_has_source_point_type_and_both_kinds_of_flags() {
        let line = "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext4 /dev/vda4 rw,errors=continue";
        assert_eq!(
            mount(line).unwrap(),
            "mount /dev/vda4 /mnt2 ext4 rw,noatime,rw,errors=continue"
        );
        assert_eq!(mount("36 35 98:0 / / rw"), None);
    }

    #[test]
    fn shells_and_scripts_are_found_in_any_folder() {
        let root = tempfile::tempdir().unwrap();
        let bin = root.path().join("usr/bin");
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink("busybox", bin.join("sh")).unwrap();
        fs::write(bin.join("tool"), "#!/bin/tool\n").unwrap();
        fs::write(bin.join("program"), "\x7fELF").unwrap();
        let mut facts = Vec::new();
        shells(root.path(), root.path(), root.path().metadata().unwrap().dev(), &mut facts)
            .unwrap();
        facts.sort();
        assert_eq!(facts, ["shell /usr/bin/sh", "shell /usr/bin/tool"]);
    }
}
