//! The initramfs against GNU cpio, and against damaged input.
#![cfg(feature = "cpio")]

mod support;

use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::{Command, Stdio};

use osbuild_formats::cpio::{self, Entry, Kind};
use proptest::prelude::*;
use support::tool;

fn entries() -> Vec<Entry<'static>> {
    vec![
        Entry::file("/layers/10-kubelet.erofs", 0o444, vec![7; 100_001]),
        Entry::char_device("/dev/console", 0o600, 5, 1),
        Entry::directory("/layers", 0o755),
        Entry::symlink("/sbin", "bin/../bin"),
        Entry::file("/init", 0o555, &b"#!"[..]),
        Entry::directory("/dev", 0o755),
        Entry::directory("/dev/pts", 0o1777),
        Entry::file("/layers/empty", 0o644, &b""[..]),
    ]
}

fn archive(entries: &[Entry]) -> Vec<u8> {
    cpio::write(entries, Vec::new()).unwrap()
}

/// Sorts entries into the archive's order.
fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by_key(|entry| (entry.kind != Kind::Directory, entry.path.clone()));
    entries
}

fn refused(entries: &[Entry]) -> String {
    cpio::write(entries, Vec::new()).unwrap_err().to_string()
}

#[test]
fn cpio_lists_what_we_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    std::fs::write(&path, archive(&entries())).unwrap();
    let input = std::fs::File::open(&path).unwrap();
    let listing = tool(
        "cpio",
        Command::new("cpio")
            .args(["-itv", "--numeric-uid-gid"])
            .env("TZ", "UTC")
            .stdin(Stdio::from(input)),
    );
    let rows: Vec<String> =
        listing.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        rows,
        [
            "drwxr-xr-x 2 0 0 0 Jan 1 1970 dev",
            "drwxrwxrwt 2 0 0 0 Jan 1 1970 dev/pts",
            "drwxr-xr-x 2 0 0 0 Jan 1 1970 layers",
            "crw------- 1 0 0 5, 1 Jan 1 1970 dev/console",
            "-r-xr-xr-x 1 0 0 2 Jan 1 1970 init",
            "-r--r--r-- 1 0 0 100001 Jan 1 1970 layers/10-kubelet.erofs",
            "-rw-r--r-- 1 0 0 0 Jan 1 1970 layers/empty",
            "lrwxrwxrwx 1 0 0 10 Jan 1 1970 sbin -> bin/../bin",
        ]
    );
}

#[test]
fn cpio_unpacks_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    // Devices need privileges to unpack; `cpio_lists_what_we_wrote` covers them.
    let entries: Vec<Entry> = entries()
        .into_iter()
        .filter(|entry| !matches!(entry.kind, Kind::CharDevice { .. }))
        .collect();
    std::fs::write(&path, archive(&entries)).unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let input = std::fs::File::open(&path).unwrap();
    tool(
        "cpio",
        Command::new("cpio")
            .args(["-i", "--quiet", "--no-preserve-owner"])
            .current_dir(&root)
            .stdin(input),
    );
    for entry in &entries {
        let path = root.join(&entry.path[1..]);
        let found = path.symlink_metadata().unwrap();
        match &entry.kind {
            Kind::Directory => assert!(found.is_dir()),
            Kind::File(bytes) => assert_eq!(std::fs::read(&path).unwrap(), **bytes),
            Kind::Symlink(to) => {
                assert_eq!(std::fs::read_link(&path).unwrap().to_str(), Some(&**to))
            }
            Kind::CharDevice { .. } => assert!(found.file_type().is_char_device()),
            Kind::Sized(_) => panic!("the reader never returns one"),
        }
        assert_eq!(found.mode() & 0o7777, entry.mode, "{}", entry.path);
    }
}

#[test]
fn a_file_written_by_a_callback_gives_the_same_archive() {
    let bytes = vec![7; 100_001];
    let mut sized = entries();
    sized[0] = Entry::sized(&sized[0].path, sized[0].mode, bytes.len() as u64);
    let give = |path: &str, out: &mut dyn Write| {
        assert_eq!(path, "/layers/10-kubelet.erofs");
        bytes.chunks(1000).try_for_each(|piece| out.write_all(piece))
    };
    assert_eq!(cpio::write_with(&sized, Vec::new(), give).unwrap(), archive(&entries()));
    let short =
        cpio::write_with(&sized, Vec::new(), |_, out| out.write_all(&bytes[1..])).unwrap_err();
    assert_eq!(short.to_string(), "the initramfs ends within `/layers/10-kubelet.erofs`");
    let long =
        cpio::write_with(&sized, Vec::new(), |_, out| out.write_all(&[&bytes[..], b"7"].concat()))
            .unwrap_err();
    assert!(matches!(long, cpio::Error::Io(_)), "{long}");
    assert!(cpio::write(&sized, Vec::new()).is_err(), "`write` has no bytes for them");
}

#[test]
fn an_archive_of_cpio_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir_all(root.join("bin")).unwrap();
    std::fs::write(root.join("bin/init"), b"abc").unwrap();
    std::os::unix::fs::symlink("init", root.join("bin/link")).unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "find . | LC_ALL=C sort | cpio --quiet -o -H newc > ../archive"])
        .current_dir(&root);
    tool("cpio", &mut shell);
    let bytes = std::fs::read(folder.path().join("archive")).unwrap();
    let kinds: Vec<(String, Kind)> =
        cpio::read(&bytes).unwrap().into_iter().map(|entry| (entry.path, entry.kind)).collect();
    let expected = [
        ("/bin", Kind::Directory),
        ("/bin/init", Kind::File(b"abc".into())),
        ("/bin/link", Kind::Symlink("init".into())),
    ];
    assert_eq!(kinds, expected.map(|(path, kind)| (path.to_owned(), kind)));
}

#[test]
fn the_order_of_the_list_does_not_matter() {
    let mut reversed = entries();
    reversed.reverse();
    assert_eq!(archive(&reversed), archive(&entries()));
}

#[test]
fn file_data_starts_at_a_multiple_of_four() {
    let mut list = vec![Entry::directory("/layers", 0o755)];
    let names: Vec<String> =
        (1..9).map(|length| format!("/layers/{}", "n".repeat(length))).collect();
    list.extend(names.iter().map(|name| Entry::file(name, 0o444, vec![0xE0; name.len()])));
    let bytes = archive(&list);
    for entry in cpio::read(&bytes).unwrap() {
        let Kind::File(data) = entry.kind else { continue };
        assert_eq!((data.as_ptr() as usize - bytes.as_ptr() as usize) % 4, 0, "{}", entry.path);
    }
}

#[test]
fn invalid_initramfs_entries_are_refused() {
    for path in ["", "init", "/", "/a/", "/a//b", "/../a", "/a/./b", "/a\0b", "/TRAILER!!!"] {
        assert_eq!(
            refused(&[Entry::file(path, 0o644, &b""[..])]),
            format!("path `{path}` is not valid in an initramfs")
        );
    }
    let file = |path| Entry::file(path, 0o644, &b""[..]);
    assert_eq!(refused(&[file("/a/b")]), "the folder of `/a/b` is not in the initramfs");
    assert_eq!(
        refused(&[file("/a"), file("/a/b")]),
        "the folder of `/a/b` is not in the initramfs"
    );
    assert_eq!(
        refused(&[file("/a"), Entry::directory("/a", 0o755)]),
        "`/a` is in the initramfs twice"
    );
    assert_eq!(
        refused(&[Entry::directory("/a", 0o40755)]),
        "mode `40755` has bits besides permissions"
    );
    assert_eq!(refused(&[Entry::symlink("/a", "")]), "path `` is not valid in an initramfs");
}

#[test]
fn only_zeros_may_follow_the_archive() {
    let mut bytes = archive(&entries());
    let end = bytes.len();
    bytes.resize(end + 512, 0);
    assert_eq!(cpio::read(&bytes).unwrap(), sorted(entries()));
    bytes[end + 9] = 1;
    assert!(matches!(cpio::read(&bytes), Err(cpio::Error::Behind(offset)) if offset == end + 9));
}

#[test]
fn a_truncated_initramfs_is_refused() {
    let plain = archive(&entries());
    for length in (1..plain.len()).step_by(997) {
        assert!(cpio::read(&plain[..length]).is_err(), "{length}");
    }
}

fn arbitrary_entries() -> impl Strategy<Value = Vec<Entry<'static>>> {
    let kind = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200).prop_map(|bytes| Kind::File(bytes.into())),
        "[a-z/.]{1,20}".prop_map(Kind::Symlink),
        (0..4096u32, 0..4096u32).prop_map(|(major, minor)| Kind::CharDevice { major, minor }),
    ];
    let leaves = prop::collection::btree_map("[b-zä ]{1,9}", (0..0o10000u32, kind), 0..8);
    (leaves, 0..0o10000u32).prop_map(|(leaves, mode)| {
        let leaves = leaves.into_iter().map(|(name, (mode, kind))| Entry {
            path: format!("/a/{name}"),
            mode,
            kind,
        });
        leaves.chain([Entry::directory("/a", mode)]).collect()
    })
}

proptest! {
    #[test]
    fn write_then_read_is_identity(entries in arbitrary_entries()) {
        let bytes = archive(&entries);
        prop_assert_eq!(cpio::read(&bytes).unwrap(), sorted(entries));
    }

    #[test]
    fn damaged_input_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = archive(&entries()[1..]);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = cpio::read(&bytes);
    }
}
