//! A node whose disk was in somebody else's machine.

use super::kept::{Kept, check_data, read_data};
use super::node::Node;
use crate::check::Verdict;
use crate::image::RECIPE;
use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild_abi::paths::CONTAINERD_BLOBS;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where containerd unpacks images on the node, a numbered folder each.
const SNAPSHOTS: &str = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots";

/// What is put in the place of each program and each blob. Nothing can be started that has a part of it.
const PLANTED: &str = "planted";

/// What the kubelet remembers of its containers, as one with another policy leaves it: it ends with an error as soon as it reads that.
const MEMORIES: [(&str, &str); 2] = [
    ("kubelet/cpu_manager_state", r#"{"policyName":"static","defaultCpuSet":"0","checksum":1}"#),
    ("kubelet/memory_manager_state", r#"{"policyName":"Static","machineState":{},"checksum":1}"#),
];

/// DATA in a file of its own, which debugfs changes.
struct Data<'a> {
    site: &'a Site<'a>,
    path: PathBuf,
}

/// With the power off, all that containerd keeps on DATA of the node's own pods is replaced, what was unpacked and what it was unpacked from. The
/// next boot gets ready: it runs what is in the signed root. And it does so with another release's leftovers in the way, and with those of another
/// release's kubelet.
pub fn system_pods_do_not_come_from_data(site: &Site) -> Result<Verdict> {
    let kept = Kept::of(site, RECIPE);
    drop(Node::boot(site, "before-planting", RECIPE, &["--keep"])?);
    let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
    let data = Data { site, path: folder.path().join("data") };
    kept.copy_data(site, &data.path)?;
    check_data(site, &data.path)?;
    let planted = data.plant(&folder.path().join(PLANTED))?;
    data.mislead_the_kubelet(&folder.path().join("memory"))?;
    kept.replace_data(site, &data.path)?;
    let said = Node::boot(site, "after-planting", RECIPE, &["--keep"])?.said()?;
    kept.copy_data(site, &data.path)?;
    check_data(site, &data.path)?;
    let left = data.files(CONTAINERD_BLOBS)?.iter().filter(|path| data.is_planted(path)).count();
    if left > 0 {
        return Err(Error::build(format!("{left} of the blobs on DATA are still those that were planted")).cause(said));
    }
    Ok(Verdict::holds(format!("{planted} files replaced")))
}

impl Data<'_> {
    /// Replaces every program of every unpacked image, and every blob. Gives how many files that were.
    fn plant(&self, planted: &Path) -> Result<usize> {
        let cannot = || "cannot write what is planted".to_owned();
        fs::write(planted, PLANTED).or_build(cannot)?;
        fs::set_permissions(planted, fs::Permissions::from_mode(0o755)).or_build(cannot)?;
        let mut programs = Vec::new();
        for snapshot in self.list(SNAPSHOTS)? {
            programs.extend(self.files(&format!("{SNAPSHOTS}/{}/fs", snapshot.name))?);
        }
        let blobs = self.files(CONTAINERD_BLOBS)?;
        // The pause image and at least two pods: a program, and three blobs.
        if programs.len() < 3 || blobs.len() < 9 {
            return Err(Error::build(format!("{} programs and {} blobs are on DATA", programs.len(), blobs.len())));
        }
        let all = [programs, blobs].concat();
        let line = |path: &String| format!("rm {path}\nwrite {} {path}\n", planted.display());
        let commands = planted.with_extension("commands");
        fs::write(&commands, all.iter().map(line).collect::<String>()).or_build(cannot)?;
        self.site.finish("plant", Command::new("debugfs").arg("-w").arg("-f").arg(&commands).arg(&self.path))?;
        match all.iter().all(|path| self.is_planted(path)) {
            true => Ok(all.len()),
            false => Err(Error::build("debugfs has not replaced all of them")),
        }
    }

    /// Replaces what the kubelet remembers.
    fn mislead_the_kubelet(&self, memory: &Path) -> Result<()> {
        for (path, text) in MEMORIES {
            fs::write(memory, text).or_build(|| "cannot write what the kubelet is to remember".to_owned())?;
            for words in [format!("rm {path}"), format!("write {} {path}", memory.display())] {
                self.site.finish("mislead", Command::new("debugfs").args(["-w", "-R", &words]).arg(&self.path))?;
            }
            if !read_data(self.site, &self.path, path)?.contains(text) {
                return Err(Error::build(format!("debugfs has not written {path}")));
            }
        }
        Ok(())
    }

    fn is_planted(&self, path: &str) -> bool {
        read_data(self.site, &self.path, path).is_ok_and(|said| said.contains(PLANTED))
    }

    /// The regular files of a folder of the node, by their paths on DATA.
    fn files(&self, folder: &str) -> Result<Vec<String>> {
        let entries = self.list(folder)?.into_iter().filter(|entry| entry.mode.starts_with("100"));
        Ok(entries.map(|entry| format!("{}/{}", on_data(folder), entry.name)).collect())
    }

    fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let mut debugfs = Command::new("debugfs");
        debugfs.args(["-R", &format!("ls -p {}", on_data(folder))]).arg(&self.path);
        Ok(self.site.finish("list-data", &mut debugfs)?.said.lines().filter_map(Entry::parse).collect())
    }
}

/// The path on DATA of what the node knows as `path`.
fn on_data(path: &str) -> String {
    path.replacen("/var/lib", "", 1)
}

/// What debugfs says of a file.
struct Entry {
    mode: String,
    name: String,
}

impl Entry {
    /// Reads a line of `ls -p`: `/INODE/MODE/USER/GROUP/NAME/SIZE/`.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.strip_prefix('/')?.split('/').skip(1);
        let (mode, name) = (fields.next()?.to_owned(), fields.nth(2)?.to_owned());
        (name != "." && name != "..").then_some(Entry { mode, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_debugfs_is_read() {
        let entry = Entry::parse("/28/100755/0/0/dhcp/576600/").unwrap();
        assert_eq!((entry.mode.as_str(), entry.name.as_str()), ("100755", "dhcp"));
        assert!(Entry::parse("/2/040755/0/0/../").is_none());
        assert!(Entry::parse("debugfs 1.47.0").is_none());
    }
}
