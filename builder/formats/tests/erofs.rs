//! EROFS images against mkfs.erofs and find, and damaged images.

mod support;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use osbuild_formats::erofs;
use proptest::prelude::*;
use support::tool;

/// Makes a tree with long folders, names and links, many sizes, and all kinds of permissions.
fn make_tree(root: &Path) {
    let folder = root.join("usr/share/many");
    std::fs::create_dir_all(&folder).unwrap();
    for number in 0..700 {
        std::fs::write(
            folder.join(format!("a-name-of-some-length-{number}")),
            vec![b'x'; number * 13],
        )
        .unwrap();
    }
    std::fs::create_dir_all(root.join("empty/größer")).unwrap();
    std::fs::write(root.join("big"), b"0123456789abcdef".repeat(40_000)).unwrap();
    std::fs::write(root.join("zero"), b"").unwrap();
    std::os::unix::fs::symlink("usr/share", root.join("link")).unwrap();
    std::os::unix::fs::symlink(format!("/{}", "long/".repeat(500)), root.join("long-link"))
        .unwrap();
    tool("coreutils", Command::new("chmod").arg("1777").arg(root.join("empty")));
    tool("coreutils", Command::new("chmod").arg("4555").arg(root.join("big")));
}

fn image(folder: &Path, root: &Path, options: &[&str]) -> Vec<u8> {
    let path = folder.join("image.erofs");
    tool(
        "erofs-utils",
        Command::new("mkfs.erofs").arg("--quiet").args(options).arg(&path).arg(root),
    );
    std::fs::read(&path).unwrap()
}

/// Lists the tree with `find`, in the form of [`ours`].
fn theirs(root: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    find.arg(root).args(["-type", "d", "-printf", "/%P %m %U %G d\n", "-o", "-type", "l"]);
    find.args(["-printf", "/%P %m %U %G l %l\n", "-o", "-printf", "/%P %m %U %G f %s\n"]);
    let mut lines: Vec<String> = tool("findutils", &mut find).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn ours(image: &[u8]) -> Vec<String> {
    let line = |entry: erofs::Entry| {
        let kind = match entry.mode >> 12 {
            0o04 => "d".to_owned(),
            0o12 => format!("l {}", entry.target.unwrap()),
            _ => format!("f {}", entry.size),
        };
        format!("{} {:o} {} {} {kind}", entry.path, entry.mode & 0o7777, entry.uid, entry.gid)
    };
    let mut lines: Vec<String> = erofs::read(image).unwrap().into_iter().map(line).collect();
    lines.sort();
    lines
}

#[test]
fn the_entries_are_those_that_find_lists() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    make_tree(&root);
    let expected = theirs(&root);
    assert!(expected.len() > 700);
    for options in [
        &["-T0"][..],
        &["-zlz4hc,12", "-C65536"],
        &["-zlz4hc", "-Eztailpacking"],
        &["-Eforce-inode-extended"],
    ] {
        assert_eq!(ours(&image(folder.path(), &root, options)), expected, "{options:?}");
    }
}

/// Returns the contents of the files of an image, by path.
fn contents(image: &[u8]) -> Result<Vec<(String, Vec<u8>)>, erofs::Error> {
    let mut files = erofs::Files::new(image)?;
    let regular = erofs::read(image)?.into_iter().filter(|entry| entry.mode >> 12 == 0o10);
    let content = |entry: erofs::Entry| {
        let mut bytes = Vec::new();
        files.read(&entry, |piece| bytes.extend_from_slice(piece))?;
        Ok((entry.path, bytes))
    };
    regular.map(content).collect()
}

/// Makes files that compress well, badly, not at all, and alternately, with lengths around those of
/// blocks and packs.
fn fill_with_all_kinds(root: &Path) {
    make_tree(root);
    let noise = |length: usize| -> Vec<u8> {
        let step = |state: &mut u32, ()| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some((*state >> 24) as u8)
        };
        std::iter::repeat_n((), length).scan(length as u32, step).collect()
    };
    for length in [1, 4095, 4096, 4097, 65_535, 65_537, 16 * 4096, 17 * 4096 + 1, 1 << 20] {
        let mixed: Vec<u8> =
            noise(length)
                .chunks(5000)
                .enumerate()
                .flat_map(|(index, part)| {
                    if index % 2 == 0 { part.to_vec() } else { vec![index as u8; part.len()] }
                })
                .collect();
        std::fs::write(root.join(format!("noise-{length}")), noise(length)).unwrap();
        std::fs::write(root.join(format!("mixed-{length}")), mixed).unwrap();
    }
}

#[test]
fn files_have_the_contents_of_their_source() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fill_with_all_kinds(&root);
    for options in [
        &["-T0"][..],
        &["-zlz4hc,12", "-C65536"],
        &["-zlz4hc"],
        &["-zlz4"],
        &["-zlz4", "-C1048576"],
        &["--chunksize=65536"],
        &["--chunksize=4096", "-Eforce-chunk-indexes"],
    ] {
        let found = contents(&image(folder.path(), &root, options))
            .unwrap_or_else(|error| panic!("{options:?}: {error}"));
        assert!(found.len() > 700);
        for (path, bytes) in found {
            assert!(std::fs::read(root.join(&path[1..])).unwrap() == bytes, "{path} {options:?}");
        }
    }
}

#[test]
fn holes_read_as_zeros_and_a_file_of_holes_cannot_stall_the_reader() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let file = std::fs::File::create(root.join("sparse")).unwrap();
    file.set_len(3 << 20).unwrap();
    file.write_all_at(b"in the middle", 1 << 20).unwrap();
    let mut image = image(folder.path(), &root, &["--chunksize=65536"]);
    assert!(image.len() < 1 << 20, "mkfs.erofs has stored the holes");
    assert!(
        contents(&image).unwrap()
            == [("/sparse".to_owned(), std::fs::read(root.join("sparse")).unwrap())]
    );
    // A file that claims to be a thousand times larger has no table of that size.
    let inode = (0..image.len())
        .step_by(32)
        .find(|at| image[*at + 8..*at + 16] == (3u64 << 20).to_le_bytes())
        .unwrap();
    image[inode + 8..inode + 16].copy_from_slice(&(3u64 << 40).to_le_bytes());
    assert!(matches!(contents(&image), Err(erofs::Error::File(_))));
}

#[test]
fn a_file_that_is_nearly_all_holes_is_read() {
    const SIZE: u64 = 256 << 20;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let file = std::fs::File::create(root.join("image.raw")).unwrap();
    file.set_len(SIZE).unwrap();
    file.write_all_at(b"at the start", 0).unwrap();
    let image = image(folder.path(), &root, &["--chunksize=65536"]);
    assert!((image.len() as u64) < SIZE / 1500, "mkfs.erofs has stored the holes");
    let entries = erofs::read(&image).unwrap();
    let entry = entries.iter().find(|entry| entry.path == "/image.raw").unwrap();
    let mut length = 0;
    erofs::Files::new(&image).unwrap().read(entry, |piece| length += piece.len() as u64).unwrap();
    assert_eq!(length, SIZE);
}

#[test]
fn a_file_stored_in_an_unknown_way_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fill_with_all_kinds(&root);
    let refused = contents(&image(folder.path(), &root, &["-zlz4hc", "-Elegacy-compress"]));
    assert!(matches!(refused, Err(erofs::Error::File(_))));
}

#[test]
fn owners_beyond_16_bits_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let image = image(folder.path(), &root, &["--force-uid=100000", "--force-gid=7"]);
    let entries = erofs::read(&image).unwrap();
    assert_eq!(
        entries.iter().map(|entry| (&*entry.path, entry.uid, entry.gid)).collect::<Vec<_>>(),
        [("/", 100_000, 7)]
    );
}

#[test]
fn a_folder_that_contains_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir_all(root.join("inner-folder")).unwrap();
    let mut image = image(folder.path(), &root, &[]);
    let number = |image: &[u8]| u64::from(u16::from_le_bytes([image[1024 + 14], image[1024 + 15]]));
    let root_number = number(&image);
    // The third entry of the root, after `.` and `..`, is the folder: make it refer to the root.
    let name = image.windows(12).position(|bytes| bytes == b"inner-folder").unwrap();
    let entry = (0..name)
        .rev()
        .find(|at| image[*at + 8..*at + 10] == (name as u16 - (*at as u16 - 24)).to_le_bytes())
        .unwrap();
    image[entry..entry + 8].copy_from_slice(&root_number.to_le_bytes());
    assert_eq!(erofs::read(&image), Err(erofs::Error::Folder("/inner-folder".to_owned())));
}

#[test]
fn a_folder_with_wrong_name_offsets_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir_all(root.join("inner-folder")).unwrap();
    let mut image = image(folder.path(), &root, &[]);
    let name = image.windows(12).position(|bytes| bytes == b"inner-folder").unwrap();
    // The root's three entries precede their names: `.`, `..` and this one. The first has the
    // offset of the names.
    let first = name - ".".len() - "..".len() - 3 * 12;
    assert_eq!(image[first + 8..first + 10], 36u16.to_le_bytes());
    image[first + 8] = 0;
    assert_eq!(erofs::read(&image), Err(erofs::Error::Folder(String::new())));
}

#[test]
fn a_link_longer_than_the_longest_path_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink("target", root.join("link")).unwrap();
    let mut image = image(folder.path(), &root, &[]);
    image.resize(64 << 10, b'x');
    let link = (0..4096)
        .step_by(32)
        .find(|at| image[at + 4..at + 6] == 0o120777u16.to_le_bytes())
        .unwrap();
    image[link + 8..link + 12].copy_from_slice(&4097u32.to_le_bytes());
    assert_eq!(erofs::read(&image), Err(erofs::Error::Inode((link / 32) as u64)));
}

#[test]
fn paths_many_times_longer_than_the_image_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let deep = (0..30).fold(root.clone(), |path, _| path.join("d".repeat(100)));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("0"), "").unwrap();
    for number in 1..2000 {
        std::fs::hard_link(deep.join("0"), deep.join(number.to_string())).unwrap();
    }
    assert!(matches!(erofs::read(&image(folder.path(), &root, &[])), Err(erofs::Error::Folder(_))));
}

#[test]
fn bytes_that_are_not_an_image_are_refused() {
    assert_eq!(erofs::read(&[]), Err(erofs::Error::Magic));
    assert_eq!(erofs::read(&[0; 4096]), Err(erofs::Error::Magic));
    let mut unknown = vec![0; 4096];
    unknown[1024..1028].copy_from_slice(&[0xE2, 0xE1, 0xF5, 0xE0]);
    unknown[1024 + 80] = 0x80;
    assert_eq!(erofs::read(&unknown), Err(erofs::Error::Features(0x80)));
}

#[test]
fn damaged_images_never_panic_or_loop() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    make_tree(&root);
    let sound = image(folder.path(), &root, &["-zlz4hc"]);
    let change = (any::<prop::sample::Index>(), any::<bool>(), any::<u8>());
    let strategy =
        (prop::collection::vec(change, 1..20), any::<prop::sample::Index>(), any::<bool>());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
    runner
        .run(&strategy, |(changes, length, cut)| {
            let mut image = sound.clone();
            for (place, early, byte) in changes {
                // The parts that matter are at the start: superblock, root and small inodes.
                let place = if early { 1024 + place.index(3072) } else { place.index(image.len()) };
                image[place] = byte;
            }
            image.truncate(if cut { length.index(image.len()) } else { image.len() });
            let _ = contents(&image);
            Ok(())
        })
        .unwrap();
}
