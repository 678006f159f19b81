//! DATA of a disk that no machine uses, changed with debugfs: it needs neither root nor a mount,
//! and gives all files to root.

use super::{Scratch, absolute, not_started};
use crate::error::{Context, Error, Result};
use crate::report::bytes;
use crate::ship::vm::files::{Content, NodeFile, NodeFiles};
use osbuild_abi::disk::DATA;
use osbuild_formats::gpt::{Geometry, Label};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

/// The Debian package with debugfs and e2fsck.
const PACKAGE: &str = "e2fsprogs";

/// Block size of DATA (`produce/data.sh`).
const BLOCK_SIZE: u64 = 4096;

/// Blocks for a file's extents and for its part of a folder, at most.
const MORE_BLOCKS: u64 = 2;

/// Places files on DATA of a raw disk. The programs change a copy of DATA in `folder`, which must
/// have room for it: e2fsck 1.47 can check a file system inside a file (`?offset=`), but loses the
/// offset when it has replayed the journal.
///
/// # Errors
/// DATA is damaged, or too small for the files. The disk is then unchanged.
pub fn place(disk: &Path, sector_size: u32, files: &NodeFiles, folder: &Path) -> Result<()> {
    let data = Data::of(disk, sector_size, Scratch::near(folder)?)?;
    data.replay_journal()?;
    data.has_room(files)?;
    let missing = data.remove(files)?;
    data.write(files, &missing)?;
    data.put_back()
}

/// A copy of DATA.
struct Data {
    /// Has the copy, and links to the files: a path may have characters that debugfs does not take.
    folder: Scratch,
    disk: File,
    /// Where DATA starts on the disk, in bytes.
    offset: u64,
    /// Its size in bytes.
    size: u64,
}

/// The name of the copy.
const COPY: &str = "data";

impl Data {
    fn of(path: &Path, sector_size: u32, folder: Scratch) -> Result<Self> {
        let cannot = || format!("cannot find {DATA} on `{}`", path.display());
        let mut disk = File::options().read(true).write(true).open(path).or_build(cannot)?;
        let size = disk.metadata().or_build(cannot)?.len();
        let geometry = Geometry::new(u64::from(sector_size), size).or_build(cannot)?;
        let label = Label::read(&mut disk, geometry).or_build(cannot)?;
        let partition = label.table().named(DATA).ok_or_else(|| Error::build(cannot()))?;
        let offset = partition.first * u64::from(sector_size);
        let size = partition.sectors() * u64::from(sector_size);
        let copy = || -> io::Result<()> {
            let copy = File::create(folder.path().join(COPY))?;
            copy.set_len(size)?;
            copy_data((&disk, offset), (&copy, 0), size)
        };
        copy().or_build(|| format!("cannot copy {DATA} of `{}`", path.display()))?;
        Ok(Data { folder, disk, offset, size })
    }

    /// Holes of the copy are holes or zeros of the disk: neither program makes any.
    fn put_back(&self) -> Result<()> {
        let put = || {
            let copy = File::open(self.folder.path().join(COPY))?;
            copy_data((&copy, 0), (&self.disk, self.offset), self.size)
        };
        put().or_build(|| format!("cannot write {DATA} to the disk"))
    }

    /// debugfs does not know what a machine left in the journal.
    fn replay_journal(&self) -> Result<()> {
        let ran = self.run("e2fsck", &["-p", COPY])?;
        // 1: errors were corrected that `-p` corrects without asking.
        if matches!(ran.status.code(), Some(0 | 1)) {
            return Ok(());
        }
        Err(Error::build(format!("the file system on {DATA} is damaged"))
            .cause(text(&ran.stdout).trim())
            .hint("boot the disk once without `--files`: the node repairs it"))
    }

    fn has_room(&self, files: &NodeFiles) -> Result<()> {
        let stats = text(&self.run("debugfs", &["-R", "stats -h", COPY])?.stdout);
        let free = stats.lines().find_map(|line| line.strip_prefix("Free blocks:"));
        let free = free.and_then(|count| count.trim().parse::<u64>().ok()).ok_or_else(|| {
            Error::build(format!("cannot read the size of {DATA}")).cause(stats.trim())
        })?;
        let blocks = |size: u64| size.div_ceil(BLOCK_SIZE) + MORE_BLOCKS;
        let needed = files.files.iter().map(|file| blocks(file.size)).sum::<u64>()
            + files.folders.len() as u64;
        if needed <= free {
            return Ok(());
        }
        Err(Error::usage(format!(
            "the files have {}, and {DATA} has {} free",
            bytes(files.size()),
            bytes(free * BLOCK_SIZE)
        ))
        .hint("DATA grows to the disk when the node boots; raise `data-size-mib` of the board"))
    }

    /// Removes the files that will be replaced, and returns the folders that do not exist.
    fn remove<'a>(&self, files: &'a NodeFiles) -> Result<Vec<&'a str>> {
        let mut commands = String::new();
        for folder in &files.folders {
            let _ = writeln!(commands, "cd \"/{}\"", folder.path);
        }
        for file in &files.files {
            let _ = writeln!(commands, "rm \"/{}/{}\"", file.folder, file.name);
        }
        let complaints = self.debugfs(&commands)?;
        let is_missing =
            |path: &&str| complaints.iter().any(|line| line.starts_with(&format!("/{path}: ")));
        Ok(files.folders.iter().map(|folder| folder.path.as_str()).filter(is_missing).collect())
    }

    fn write(&self, files: &NodeFiles, missing: &[&str]) -> Result<()> {
        let mut commands = String::new();
        for folder in files.folders.iter().filter(|folder| missing.contains(&&*folder.path)) {
            let (path, mode) = (&folder.path, folder.mode);
            let _ = writeln!(commands, "mkdir \"/{path}\"\nsif \"/{path}\" mode 04{mode:04o}");
        }
        for (number, file) in files.files.iter().enumerate() {
            let NodeFile { folder, name, content, .. } = file;
            let link = format!("source-{number}");
            let path = self.folder.path().join(&link);
            match content {
                Content::File(source) => symlink(absolute(source)?, path),
                Content::Text(text) => write_private(&path, text),
            }
            .or_build(|| cannot_write(name))?;
            // debugfs makes a file only in its current folder. It keeps the mode, and a command
            // that sets it would change whatever was in the way.
            let _ = writeln!(commands, "cd \"/{folder}\"\nwrite {link} \"{name}\"");
        }
        match self.debugfs(&commands)? {
            none if none.is_empty() => Ok(()),
            complaints => {
                let error = Error::build(format!("cannot place files on {DATA}"));
                Err(complaints.into_iter().fold(error, |error, line| error.cause(line)))
            }
        }
    }

    /// Executes commands of debugfs, and returns what it reports on stderr. Its exit code does not
    /// report a failed command.
    fn debugfs(&self, commands: &str) -> Result<Vec<String>> {
        fs::write(self.folder.path().join("commands"), commands)
            .or_build(|| cannot_write("commands"))?;
        let ran = self.run("debugfs", &["-w", "-f", "commands", COPY])?;
        if !ran.status.success() {
            let error = Error::build(format!("debugfs cannot open {DATA}"));
            return Err(error.cause(text(&ran.stderr).trim()));
        }
        let stderr = text(&ran.stderr);
        let lines = stderr.lines().filter(|line| !line.starts_with("debugfs 1."));
        Ok(lines.map(|line| line.trim().to_owned()).collect())
    }

    /// Runs a program, also one of the system folders, which are not in the `PATH` of Debian's
    /// ordinary users.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output> {
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        path.push(":/usr/sbin:/sbin");
        let mut command = Command::new(program);
        command.args(arguments).env("PATH", path).env("LC_ALL", "C");
        command.current_dir(self.folder.path());
        command.output().map_err(|error| not_started(program, PACKAGE, &error))
    }
}

/// Copies `size` bytes of a sparse file to an offset of another one, without its holes.
fn copy_data(from: (&File, u64), to: (&File, u64), size: u64) -> io::Result<()> {
    let ((source, start), (target, offset)) = (from, to);
    let end = start + size;
    let mut buffer = vec![0; 1 << 20];
    let mut position = start;
    while position < end {
        position = match seek(source, SeekFrom::Data(position)) {
            Ok(data) if data < end => data,
            Ok(_) | Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let hole = seek(source, SeekFrom::Hole(position))?.min(end);
        while position < hole {
            let length = buffer.len().min((hole - position) as usize);
            source.read_exact_at(&mut buffer[..length], position)?;
            target.write_all_at(&buffer[..length], offset + (position - start))?;
            position += length as u64;
        }
    }
    Ok(())
}

/// Writes a file that its owner alone may read. debugfs gives its mode to the node's file.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    File::options().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

fn cannot_write(name: &str) -> String {
    format!("cannot write `{name}` for debugfs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ship::vm::files::NodeFolder;
    use osbuild_abi::disk::DATA_TYPE;
    use osbuild_formats::gpt::{self, Partition, Table, guid_from_name};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use tempfile::TempDir;

    const MIB: u64 = 1 << 20;

    /// A disk with DATA, an empty ext4, at 2 MiB, and the folder with the files' sources.
    struct Lab {
        folder: TempDir,
    }

    impl Lab {
        fn new() -> Self {
            let lab = Lab { folder: tempfile::tempdir().unwrap() };
            let disk = File::create(lab.disk()).unwrap();
            disk.set_len(24 * MIB).unwrap();
            let data = Partition {
                number: 4,
                type_guid: DATA_TYPE.parse().unwrap(),
                guid: guid_from_name("data"),
                first: 2 * MIB / 512,
                last: 22 * MIB / 512 - 1,
                attributes: 0,
                name: DATA.into(),
            };
            let table = Table { disk_guid: guid_from_name("disk"), partitions: vec![data] };
            for write in gpt::create(&table, Geometry::new(512, 24 * MIB).unwrap()).unwrap() {
                disk.write_all_at(&write.bytes, write.offset).unwrap();
            }
            let offset = format!("offset={}", 2 * MIB);
            lab.tool("mke2fs", &["-q", "-t", "ext4", "-b", "4096", "-E", &offset, "disk", "20M"]);
            // A disk larger than its image has its second table elsewhere.
            disk.set_len(32 * MIB).unwrap();
            lab
        }

        fn disk(&self) -> PathBuf {
            self.folder.path().join("disk")
        }

        fn tool(&self, program: &str, arguments: &[&str]) -> String {
            let path = std::env::var("PATH").unwrap() + ":/usr/sbin:/sbin";
            let mut command = Command::new(program);
            command.args(arguments).env("PATH", path).current_dir(self.folder.path());
            let ran = command.output().unwrap();
            assert!(ran.status.success(), "{program}: {ran:?}");
            text(&ran.stdout)
        }

        fn debugfs(&self, command: &str) -> String {
            self.tool("debugfs", &["-w", "-R", command, "disk?offset=2097152"])
        }

        fn file(&self, folder: &str, name: &str, mode: u32, content: &[u8]) -> NodeFile {
            let source = self.folder.path().join(format!("source \"of\" {name}"));
            fs::write(&source, content).unwrap();
            fs::set_permissions(&source, fs::Permissions::from_mode(mode)).unwrap();
            let (content, size) = (Content::File(source), content.len() as u64);
            NodeFile { content, folder: folder.into(), name: name.into(), size }
        }

        fn place(&self, files: &[NodeFile]) -> Result<()> {
            let folder = |path: &str, mode| NodeFolder { path: path.into(), mode };
            let folders = vec![folder("kubernetes", 0o700), folder("kubernetes/a b", 0o1755)];
            self.place_all(&NodeFiles { folders, files: files.to_vec() })
        }

        fn place_all(&self, files: &NodeFiles) -> Result<()> {
            place(&self.disk(), 512, files, self.folder.path())
        }

        fn is_intact(&self) {
            self.tool("e2fsck", &["-f", "-n", "disk?offset=2097152"]);
        }
    }

    #[test]
    fn files_and_folders_belong_to_root_and_have_their_modes() {
        let lab = Lab::new();
        let content = vec![7; 70_000];
        lab.place(&[
            lab.file("kubernetes", "ca.crt", 0o644, b"ca"),
            lab.file("kubernetes/a b", "c d", 0o4750, &content),
        ])
        .unwrap();
        let [root, first, second] = ["/", "/kubernetes", "\"/kubernetes/a b\""]
            .map(|path| lab.debugfs(&format!("ls -p {path}")));
        assert!(root.contains("/040700/0/0/kubernetes//"), "{root}");
        assert!(first.contains("/041755/0/0/a b//"), "{first}");
        assert!(first.contains("/100644/0/0/ca.crt/2/"), "{first}");
        assert!(second.contains("/104750/0/0/c d/70000/"), "{second}");
        lab.debugfs("dump \"/kubernetes/a b/c d\" dumped");
        assert_eq!(fs::read(lab.folder.path().join("dumped")).unwrap(), content);
        lab.is_intact();
    }

    #[test]
    fn a_text_is_placed_for_root_alone() {
        let lab = Lab::new();
        lab.place_all(&NodeFiles::document("hostname = \"a\"\n".to_owned())).unwrap();
        assert!(lab.debugfs("ls -p /osbuild").contains("/100600/0/0/node.toml/15/"));
        lab.debugfs("dump /osbuild/node.toml dumped");
        let dumped = fs::read_to_string(lab.folder.path().join("dumped")).unwrap();
        assert_eq!(dumped, "hostname = \"a\"\n");
        lab.is_intact();
    }

    #[test]
    fn a_second_placement_replaces_files_and_keeps_everything_else() {
        let lab = Lab::new();
        lab.place(&[
            lab.file("kubernetes", "kept", 0o600, b"kept"),
            lab.file("kubernetes", "new", 0o600, b"a longer text"),
        ])
        .unwrap();
        // As a pod would.
        lab.debugfs("sif /kubernetes mode 040750");
        lab.place(&[lab.file("kubernetes", "new", 0o640, b"new")]).unwrap();
        assert!(lab.debugfs("ls -p /").contains("/040750/0/0/kubernetes//"));
        let files = lab.debugfs("ls -p /kubernetes");
        assert!(files.contains("/100600/0/0/kept/4/"), "{files}");
        assert!(files.contains("/100640/0/0/new/3/"), "{files}");
        lab.is_intact();
    }

    #[test]
    fn files_larger_than_data_are_refused_before_anything_is_written() {
        let lab = Lab::new();
        let before = lab.debugfs("ls -p /");
        let error =
            lab.place(&[lab.file("kubernetes", "big", 0o600, &vec![0; 21 << 20])]).unwrap_err();
        let message = &error.problems[0].message;
        assert!(message.starts_with("the files have 22.0 MB, and DATA has 1"), "{message}");
        assert_eq!(lab.debugfs("ls -p /"), before);
    }

    #[test]
    fn a_folder_in_the_place_of_a_file_is_an_error() {
        let lab = Lab::new();
        lab.place(&[lab.file("kubernetes", "a", 0o600, b"a")]).unwrap();
        let error = lab.place(&[lab.file("kubernetes", "a b", 0o600, b"a")]).unwrap_err();
        assert_eq!(error.problems[0].message, "cannot place files on DATA");
        assert!(error.problems[0].causes[0].contains("already exists"), "{error}");
        lab.is_intact();
    }

    #[test]
    fn a_disk_whose_power_failed_gets_its_journal_replayed_first() {
        let lab = Lab::new();
        // debugfs writes a transaction that only the journal has: block 5 is free, and becomes 7s.
        fs::write(lab.folder.path().join("block"), [7; 4096]).unwrap();
        fs::write(lab.folder.path().join("journal"), "jo\njw -b 4000 block\njc\n").unwrap();
        lab.tool("debugfs", &["-w", "-f", "journal", "disk?offset=2097152"]);
        let has_journal = || lab.debugfs("features").contains("needs_recovery");
        assert!(has_journal());
        lab.place(&[lab.file("kubernetes", "a", 0o600, b"a")]).unwrap();
        assert!(!has_journal());
        let mut block = [0; 4096];
        File::open(lab.disk()).unwrap().read_exact_at(&mut block, 2 * MIB + 4000 * 4096).unwrap();
        assert_eq!(block, [7; 4096]);
        assert!(lab.debugfs("ls -p /kubernetes").contains("/100600/0/0/a/1/"));
        lab.is_intact();
    }

    #[test]
    fn damage_is_reported_with_a_remedy() {
        let lab = Lab::new();
        let disk = File::options().write(true).open(lab.disk()).unwrap();
        disk.write_all_at(&[0xff; 4096], 2 * MIB).unwrap();
        let error = lab.place(&[lab.file("kubernetes", "a", 0o600, b"a")]).unwrap_err().to_string();
        assert!(error.starts_with("error: the file system on DATA is damaged\n"), "{error}");
        assert!(error.contains("without `--files`"), "{error}");
    }

    #[test]
    fn a_disk_without_data_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        fs::write(&disk, vec![0; 1 << 20]).unwrap();
        let error =
            place(&disk, 512, &NodeFiles::default(), folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("error: cannot find DATA on `"), "{error}");
    }
}
