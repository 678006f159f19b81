use super::*;
use crate::engine::action::InputTree;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use tempfile::TempDir;

/// A package as `ar` and `tar` would make it.
struct Package {
    data: tar::Builder<Vec<u8>>,
}

impl Package {
    fn new() -> Package {
        Package { data: tar::Builder::new(Vec::new()) }
    }

    fn entry(
        mut self,
        kind: EntryType,
        path: &str,
        mode: u32,
        link: &str,
        content: &[u8],
    ) -> Package {
        let mut header = tar::Header::new_gnu();
        // Not `set_path`: that refuses what these tests are about.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(1_000_000_000);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.data.append(&header, content).unwrap();
        self
    }

    fn file(self, path: &str, mode: u32, content: &str) -> Package {
        self.entry(EntryType::Regular, path, mode, "", content.as_bytes())
    }

    fn link(self, path: &str, target: &str) -> Package {
        self.entry(EntryType::Symlink, path, 0o777, target, b"")
    }

    fn put(self, store: &Store) -> Digest {
        let data = self.data.into_inner().unwrap();
        let header = format!(
            "{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
            "data.tar",
            0,
            0,
            0,
            100644,
            data.len()
        );
        store.put_bytes(&[b"!<arch>\n", header.as_bytes(), &data].concat()).unwrap()
    }
}

fn store() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().join("store")).unwrap();
    (directory, store)
}

fn read(root: &SandboxRoot, path: &str) -> String {
    fs::read_to_string(root.path.join(path)).unwrap()
}

#[test]
fn packages_with_and_without_merged_usr_share_its_folders() {
    let (_directory, store) = store();
    let old = Package::new()
        .file("./bin/sh", 0o755, "sh")
        .link("./lib64/ld.so", "/lib/x86/ld.so")
        .file("./lib/x86/ld.so", 0o755, "ld");
    let new = Package::new().entry(EntryType::Directory, "./usr/bin/", 0o755, "", b"").file(
        "./usr/bin/mawk",
        0o755,
        "mawk",
    );
    let root = SandboxRoot::unpack(&store, &[old.put(&store), new.put(&store)]).unwrap();
    assert_eq!(read(&root, "usr/bin/sh"), "sh");
    assert_eq!(read(&root, "bin/mawk"), "mawk");
    assert_eq!(read(&root, "usr/lib/x86/ld.so"), "ld");
    assert_eq!(
        fs::read_link(root.path.join("usr/lib64/ld.so")).unwrap(),
        Path::new("/lib/x86/ld.so")
    );
    assert_eq!(fs::read_link(root.path.join("lib")).unwrap(), Path::new("usr/lib"));
}

#[test]
fn links_of_maintainer_scripts_are_made() {
    let (_directory, store) = store();
    let tools =
        Package::new().file("./usr/bin/mawk", 0o755, "mawk").file("./usr/bin/gcc", 0o755, "gcc");
    let root = SandboxRoot::unpack(&store, &[tools.put(&store)]).unwrap();
    assert_eq!(
        (read(&root, "usr/bin/awk"), read(&root, "usr/bin/cc")),
        ("mawk".to_owned(), "gcc".to_owned())
    );
    assert!(read(&root, "etc/passwd").starts_with("root:x:0:0:"));
    let without = SandboxRoot::unpack(&store, &[]).unwrap();
    assert!(fs::symlink_metadata(without.path.join("usr/bin/cc")).is_err());
}

#[test]
fn the_root_does_not_depend_on_the_umask_and_has_no_setuid_bit() {
    let (_directory, store) = store();
    let package = Package::new()
        .file("./usr/bin/su", 0o4755, "su")
        .file("./usr/share/doc", 0o600, "doc")
        .put(&store);
    let before = rustix::process::umask(Mode::from_raw_mode(0o077));
    let root = SandboxRoot::unpack(&store, &[package]);
    rustix::process::umask(before);
    let root = root.unwrap();
    let mode =
        |path: &str| fs::metadata(root.path.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(
        [mode("usr/bin/su"), mode("usr/share/doc"), mode("usr/share"), mode("build")],
        [0o755, 0o644, 0o755, 0o755]
    );
    assert_eq!(fs::metadata(root.path.join("usr/bin/su")).unwrap().mtime(), 1_000_000_000);
}

#[test]
fn no_link_in_a_package_leads_out_of_the_root() {
    let (directory, store) = store();
    let outside = directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    let up = "../".repeat(20) + outside.to_str().unwrap().trim_start_matches('/');
    for target in [outside.to_str().unwrap(), &up] {
        let package =
            Package::new().link("./a", target).file("./a/file", 0o644, "inside").put(&store);
        let root = SandboxRoot::unpack(&store, &[package]);
        assert!(!outside.join("file").exists());
        // The link's target does not exist inside, so there is no directory to write to.
        assert!(root.is_err());
        let package = Package::new()
            .link("./a", target)
            .entry(EntryType::Link, "./stolen", 0o644, "./a/secret", b"")
            .put(&store);
        assert!(SandboxRoot::unpack(&store, &[package]).is_err());
    }
    let over = Package::new()
        .link("./file", outside.join("secret").to_str().unwrap())
        .file("./file", 0o644, "changed")
        .put(&store);
    SandboxRoot::unpack(&store, &[over]).unwrap();
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret");
}

#[test]
fn our_own_files_of_the_root_follow_no_link_out_of_it() {
    let (directory, store) = store();
    let outside = directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("passwd"), "secret").unwrap();
    let inside = outside.strip_prefix("/").unwrap().join("keep");
    let folder = || Package::new().file(inside.to_str().unwrap(), 0o644, "");
    let file = Package::new().link("./etc/passwd", outside.join("passwd").to_str().unwrap());
    for package in [file, folder().link("./etc", outside.to_str().unwrap())] {
        let root = SandboxRoot::unpack(&store, &[package.put(&store)]).unwrap();
        assert_eq!(fs::read_to_string(outside.join("passwd")).unwrap(), "secret");
        assert!(!outside.join("group").exists());
        let etc = if root.path.join("etc").is_symlink() {
            outside.strip_prefix("/").unwrap()
        } else {
            Path::new("etc")
        };
        assert!(fs::symlink_metadata(root.path.join(etc).join("passwd")).unwrap().is_file());
    }
}

#[test]
fn a_path_with_dots_or_a_device_is_refused() {
    let (_directory, store) = store();
    for package in [
        Package::new().file("../file", 0o644, ""),
        Package::new().file("./usr/../../file", 0o644, ""),
        Package::new().entry(EntryType::Link, "./file", 0o644, "../../etc/passwd", b""),
        Package::new().entry(EntryType::Char, "./dev/null", 0o666, "", b""),
    ] {
        assert!(SandboxRoot::unpack(&store, &[package.put(&store)]).is_err());
    }
}

#[test]
fn a_package_that_dpkg_made_unpacks_as_dpkg_unpacks_it() {
    let (directory, store) = store();
    let source = directory.path().join("source");
    for path in ["DEBIAN", "usr/lib/deep/er", "usr/bin"] {
        fs::create_dir_all(source.join(path)).unwrap();
    }
    let control = "Package: probe\nVersion: 1\nArchitecture: all\nMaintainer: nobody \
         <nobody@localhost>\nDescription: probe\n";
    fs::write(source.join("DEBIAN/control"), control).unwrap();
    fs::write(source.join("usr/lib/deep/er/file"), "x".repeat(100_000)).unwrap();
    fs::hard_link(source.join("usr/lib/deep/er/file"), source.join("usr/lib/hard")).unwrap();
    fs::write(source.join("usr/bin/tool"), "#!").unwrap();
    fs::set_permissions(source.join("usr/bin/tool"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("deep/er/file", source.join("usr/lib").join("long".repeat(40)))
        .unwrap();
    for compression in ["-Zxz", "-Zzstd", "-Zgzip", "-Znone"] {
        let package = directory.path().join("probe.deb");
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().expect("dpkg is installed");
            assert!(
                output.status.success(),
                "{program}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        };
        let theirs = directory.path().join(format!("theirs{compression}"));
        run(
            "dpkg-deb",
            &[
                compression,
                "--root-owner-group",
                "--build",
                source.to_str().unwrap(),
                package.to_str().unwrap(),
            ],
        );
        run("dpkg", &["-x", package.to_str().unwrap(), theirs.to_str().unwrap()]);
        let root = SandboxRoot::unpack(&store, &[store.put_file(&package).unwrap()]).unwrap();
        let scan = |path: &str, root: &Path| {
            InputTree::scan(&root.join(path), &mut Digest::of_file).unwrap()
        };
        assert_eq!(scan("usr/lib", &root.path), scan("usr/lib", &theirs), "{compression}");
        assert_eq!(scan("usr/bin", &root.path), scan("usr/bin", &theirs), "{compression}");
    }
}
