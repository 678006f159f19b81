//! A copy of a disk's DATA, which debugfs reads and changes.

use crate::site::Site;
use osbuild::error::{Context, Error, Result};
use osbuild::ship::audit::inspect::{Partition, inspect};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A copy of DATA. Paths are relative to its root.
pub struct Data<'a> {
    site: &'a Site<'a>,
    folder: TempDir,
}

impl<'a> Data<'a> {
    /// Copies DATA of a disk, and checks it.
    pub fn of(site: &'a Site<'a>, disk: &Path) -> Result<Self> {
        let copy = Data {
            site,
            folder: tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?,
        };
        let data = place(disk)?;
        let mut dd = dd(disk, &copy.path());
        dd.arg("conv=sparse")
            .args([format!("skip={}", data.start >> 20), format!("count={}", data.size >> 20)]);
        site.finish("data-out", &mut dd)?;
        check(site, &copy.path())?;
        Ok(copy)
    }

    /// Writes the copy back to the disk.
    pub fn put_into(&self, disk: &Path) -> Result<()> {
        let mut dd = dd(&self.path(), disk);
        dd.arg("conv=notrunc").arg(format!("seek={}", place(disk)?.start >> 20));
        self.site.finish("data-in", &mut dd).map(drop)
    }

    /// The UUID of the file system.
    pub fn identifier(&self) -> Result<String> {
        identifier(self.site, &self.path(), 0)
    }

    /// The text of a file, or none if there is no such file.
    pub fn read(&self, path: &str) -> Result<Option<String>> {
        let copy = self.folder.path().join("file");
        // An earlier call may have left one.
        let _ = fs::remove_file(&copy);
        self.debugfs("file-of-data", &["-R", &format!("dump {path} {}", copy.display())])?;
        let text = copy
            .exists()
            .then(|| fs::read(&copy))
            .transpose()
            .or_build(|| "cannot read a file of DATA".to_owned())?;
        Ok(text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Copies a folder with all that is in it into the folder `to`.
    pub fn copy_folder(&self, path: &str, to: &Path) -> Result<()> {
        let words = format!("rdump {path} {}", to.display());
        self.debugfs("folder-of-data", &["-R", &words]).map(drop)
    }

    /// Writes files with this text, which any user may execute.
    pub fn write(&self, paths: &[&str], text: &str) -> Result<()> {
        let file = self.folder.path().join("text");
        fs::write(&file, text).or_build(|| "cannot write a file for DATA".to_owned())?;
        let line = |path| {
            format!(
                "rm {path}\nwrite {file} {path}\nsif {path} mode 0100755\n",
                file = file.display()
            )
        };
        self.change(&paths.iter().map(line).collect::<String>())?;
        for path in paths {
            if self.read(path)?.as_deref() != Some(text) {
                return Err(Error::build(format!("debugfs has not written {path}")));
            }
        }
        Ok(())
    }

    /// Executes commands of debugfs, which does not report failures.
    pub fn change(&self, lines: &str) -> Result<()> {
        let commands = self.folder.path().join("commands");
        fs::write(&commands, lines)
            .or_build(|| "cannot write the commands of debugfs".to_owned())?;
        self.debugfs("change-data", &["-w", "-f", &commands.display().to_string()]).map(drop)
    }

    /// The regular files of a folder.
    pub fn files(&self, folder: &str) -> Result<Vec<String>> {
        let entries = self.list(folder)?.into_iter().filter(|entry| entry.mode.starts_with("100"));
        Ok(entries.map(|entry| format!("{folder}/{}", entry.name)).collect())
    }

    /// The entries of a folder.
    pub fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let output = self.debugfs("list-data", &["-R", &format!("ls -p {folder}")])?;
        Ok(output.lines().filter_map(Entry::parse).collect())
    }

    /// Runs debugfs, whose exit code hardly ever reports a failure and whose output contains its
    /// version.
    fn debugfs(&self, log: &str, words: &[&str]) -> Result<String> {
        Ok(self.site.finish(log, Command::new("debugfs").args(words).arg(self.path()))?.output)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("data")
    }
}

/// An entry of a folder, as debugfs lists it.
pub struct Entry {
    /// Its kind and permission bits, as octal digits (`st_mode` of inode(7)).
    pub mode: String,
    /// Its name in its folder.
    pub name: String,
}

impl Entry {
    /// Reads a line of `ls -p`: `/INODE/MODE/USER/GROUP/NAME/SIZE/`.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.strip_prefix('/')?.split('/').skip(1);
        let (mode, name) = (fields.next()?.to_owned(), fields.nth(2)?.to_owned());
        (name != "." && name != "..").then_some(Entry { mode, name })
    }
}

/// The path on DATA of a file in the node's `/var/lib`.
pub fn on_data(path: &str) -> String {
    path.replacen("/var/lib", "", 1)
}

/// The partition DATA of a disk.
pub fn place(disk: &Path) -> Result<Partition> {
    let found = inspect(disk)?.disk;
    let data = found
        .into_iter()
        .flat_map(|disk| disk.partitions)
        .find(|partition| partition.purpose == "data");
    data.ok_or_else(|| Error::build("the disk has no DATA").cause(disk.display()))
}

/// Replays the journal of a copy of DATA, which debugfs does not, and checks the file system.
pub fn check(site: &Site, copy: &Path) -> Result<()> {
    let checked =
        site.run("e2fsck-of-data", Command::new("e2fsck").args(["-f", "-p"]).arg(copy))?;
    // 1: errors were corrected that `-p` corrects without asking.
    if matches!(checked.code, Some(0 | 1)) {
        Ok(())
    } else {
        Err(checked.failure("DATA is damaged"))
    }
}

/// The UUID of the file system at an offset of a file, as `blkid` reads it.
pub fn identifier(site: &Site, path: &Path, offset: u64) -> Result<String> {
    let mut blkid = Command::new("blkid");
    blkid
        .args([
            "--probe",
            "--match-tag",
            "UUID",
            "--output",
            "value",
            "--offset",
            &offset.to_string(),
        ])
        .arg(path);
    Ok(site.finish("blkid-of-data", &mut blkid)?.output.trim().to_owned())
}

/// Partitions start and end on whole MiB.
fn dd(from: &Path, to: &Path) -> Command {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", from.display()))
        .arg(format!("of={}", to.display()))
        .args(["bs=1M", "status=none"]);
    dd
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
