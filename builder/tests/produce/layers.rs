//! The scripts that make the layers of an image, with this machine's mkfs.erofs.

use crate::bench::Bench;
use osbuild::engine::action::{Action, SandboxRoot};
use osbuild::engine::digest::Digest;
use osbuild::error::Result;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const LAYER: &str = include_str!("../../src/produce/layer.sh");
const CARRIED: &str = include_str!("../../src/produce/carried.sh");

/// The programs of the scripts that are links to busybox.
const PROGRAMS: [&str; 5] = ["chmod", "find", "mkdir", "sh", "touch"];

/// The attribute with the access control list that new files of a folder get.
const ACL: &str = "system.posix_acl_default";

/// The tags of acl(5) with their permissions and users: an entry for the user 1000, who has no
/// more rights than all others.
const ENTRIES: [(u16, u16, u32); 5] = [
    (0x01, 7, u32::MAX),
    (0x02, 5, 1000),
    (0x04, 5, u32::MAX),
    (0x10, 5, u32::MAX),
    (0x20, 5, u32::MAX),
];

/// Fills the root of a sandbox with the programs, and with the libraries that ldd(1) names.
fn fill(root: &Path) -> Result<()> {
    for folder in ["build", "dev", "proc", "tmp", "toolchain", "usr/bin", "usr/lib", "usr/lib64"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for folder in ["lib", "lib64"] {
        symlink(format!("usr/{folder}"), root.join(folder)).unwrap();
    }
    let busybox = root.join("usr/bin/busybox");
    fs::copy("/bin/busybox", busybox).expect("Debian's package busybox-static is installed");
    for name in PROGRAMS {
        symlink("busybox", root.join("usr/bin").join(name)).unwrap();
    }
    for program in ["/usr/bin/mkfs.erofs", "/usr/bin/zstd"] {
        let listed = Command::new("ldd").arg(program).output().unwrap().stdout;
        let listed = String::from_utf8(listed).unwrap();
        let words = listed.split_whitespace().filter(|word| word.starts_with('/'));
        for path in words.chain([program]) {
            let merged = path.trim_start_matches("/usr").trim_start_matches('/');
            let copy = root.join("usr").join(merged);
            fs::create_dir_all(copy.parent().unwrap()).unwrap();
            fs::copy(path, copy).expect("erofs-utils and zstd are installed");
        }
    }
    Ok(())
}

/// The step that runs a script of a layer.
fn action(bench: &Bench, script: &str) -> Action {
    let key = Digest::of(b"programs of layers");
    let path = bench.store().tree(&key, fill).unwrap();
    let mut action = bench.script(&format!("set -eu\n{script}"), &["layer.erofs"]);
    action.root = SandboxRoot { key, path };
    let uuid = "5eb3bd14-1f6c-5ee4-9a5c-0f0b7f0c4c5d";
    for (name, value) in [("UUID", uuid), ("SOURCE_DATE_EPOCH", "1790000000")] {
        action.env.insert(name.into(), value.into());
    }
    let image = b"a sector".repeat(64).into_iter().chain([0; 200_000]).collect::<Vec<u8>>();
    let packed = zstd::encode_all(image.as_slice(), 3).unwrap();
    for (name, bytes) in [
        ("modes", b"755 /etc/tool\n".as_slice()),
        ("image.raw.zst", &packed),
        ("root/etc/tool", b"#!/bin/sh\n"),
        ("root/etc/text", &b"a line of a text\n".repeat(9000)),
    ] {
        let digest = bench.store().put_bytes(bytes).unwrap();
        action.input.add_file(name, digest, false).unwrap();
    }
    action.input.add_symlink("root/etc/link", "text").unwrap();
    action.input.add_directory("root/usr/share/osbuild/install").unwrap();
    action
}

#[test]
fn attributes_of_the_hosts_file_system_are_in_no_layer() {
    let made = |script: &str, attribute: Option<&[u8]>| {
        let folder = tempfile::tempdir().unwrap();
        if let Some(list) = attribute {
            setxattr(folder.path(), ACL, list, XattrFlags::empty())
                .expect("the file system has access control lists");
        }
        let bench = Bench::at(folder.path());
        let tmp = folder.path().join("store/tmp");
        assert_eq!(getxattr(&tmp, ACL, &mut [0; 100]).is_ok(), attribute.is_some());
        bench.executor().run(&action(&bench, script)).unwrap().output("layer.erofs").unwrap()
    };
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, user) in ENTRIES {
        list.extend([tag.to_le_bytes(), permissions.to_le_bytes()].concat());
        list.extend(user.to_le_bytes());
    }
    for script in [LAYER, CARRIED] {
        let (plain, listed) = (made(script, None), made(script, Some(&list)));
        assert_eq!(listed, plain, "{script}");
    }
}
