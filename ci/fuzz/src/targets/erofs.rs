//! The layers of a root, EROFS images, as `osbuild inspect` reads them.

use std::fs;
use std::path::Path;
use std::process::Command;

use osbuild_formats::erofs;

use crate::target::{Memory, Outcome, Target};

/// See the module. Paths repeat the names of folders, so they can be larger than the image.
pub const TARGET: Target = Target { name: "erofs", seeds, run, memory: Memory::per_byte(64) };

fn run(input: &[u8]) -> Outcome {
    let read = erofs::read(input);
    for entry in read.iter().flatten() {
        assert!(entry.path.starts_with('/') && !entry.path.contains("//"), "{:?}", entry.path);
    }
    if let (Ok(entries), Ok(mut files)) = (&read, erofs::Files::new(input)) {
        for entry in entries.iter().filter(|entry| entry.mode >> 12 == 0o10) {
            let mut length = 0;
            let read = files.read(entry, |piece| length += piece.len() as u64);
            assert!(read.is_err() || length == entry.size, "{:?}", entry.path);
        }
    }
    Outcome::of(&read)
}

/// An image with folders, links and files, which mkfs.erofs makes.
pub fn image(options: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (root, image) = (folder.path().join("root"), folder.path().join("image"));
    fill(&root).expect("a folder can be filled");
    let made = Command::new("mkfs.erofs")
        .args(["--quiet", "-T0"])
        .args(options)
        .args([&image, &root])
        .status();
    assert!(made.expect("`erofs-utils` is installed").success());
    fs::read(image).expect("mkfs.erofs has written it")
}

fn fill(root: &Path) -> std::io::Result<()> {
    fs::create_dir_all(root.join("usr/deep/er"))?;
    fs::create_dir(root.join("bin"))?;
    fs::write(root.join("bin/init"), b"\x7fELF")?;
    fs::write(root.join("usr/deep/er/text"), "text ".repeat(100))?;
    std::os::unix::fs::symlink("usr/deep", root.join("link"))
}

fn seeds() -> Vec<Vec<u8>> {
    [
        &[][..],
        &["-zlz4hc"],
        &["-Eforce-inode-extended"],
        &["-zlz4hc", "-Eztailpacking"],
        &["--chunksize=4096"],
    ]
    .map(image)
    .into()
}
