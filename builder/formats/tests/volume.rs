//! Volumes that genisoimage, xorriso, mkfs.fat and mtools have made, and damaged ones.
#![cfg(feature = "volumes")]

mod support;

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use osbuild_formats::volume::{Volume, label};
use proptest::prelude::*;
use support::tool;
use tempfile::TempDir;

const BLOCK: usize = 2048;
const MAX: usize = 4096;
const USER_DATA: &[u8] = b"hostname = \"edge-1\"\n";
const NESTED: &str = "openstack/latest/user_data";

/// A folder with files as both kinds of volume have them.
fn source() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let nested = folder.path().join("openstack/latest");
    fs::create_dir_all(&nested).unwrap();
    fs::write(nested.join("user_data"), USER_DATA).unwrap();
    fs::write(folder.path().join("user-data"), USER_DATA).unwrap();
    fs::write(folder.path().join("meta-data"), "instance-id: i-1\n").unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    fs::write(folder.path().join("large"), vec![b'#'; MAX + 1]).unwrap();
    folder
}

/// An image that `maker`, a program with the options of mkisofs, makes of `folder`.
fn iso(maker: &[&str], options: &[&str], folder: &Path) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let image = place.path().join("image");
    let mut command = Command::new(maker[0]);
    command.args(&maker[1..]).args(options).arg("-o").arg(&image).arg(folder);
    tool(maker[0], &mut command);
    fs::read(image).unwrap()
}

fn genisoimage(options: &[&str], folder: &Path) -> Vec<u8> {
    iso(&["genisoimage", "-quiet"], options, folder)
}

/// A FAT volume of `kib` with the files of `folder`.
fn fat(options: &[&str], kib: u32, folder: &Path) -> Vec<u8> {
    let place = tempfile::tempdir().unwrap();
    let image = place.path().join("image");
    let mut make = Command::new("mkfs.fat");
    make.args(options).args(["-n", "CIDATA", "-C"]).arg(&image).arg(kib.to_string());
    tool("dosfstools", &mut make);
    let files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut copy = Command::new("mcopy");
    tool("mtools", copy.arg("-i").arg(&image).arg("-s").args(files).arg("::"));
    fs::read(image).unwrap()
}

fn file(image: &[u8], path: &str) -> Result<Option<Vec<u8>>, String> {
    let mut volume = Volume::open(Cursor::new(image)).map_err(|error| error.to_string())?;
    volume.file(path, MAX).map_err(|error| error.to_string())
}

fn label_of(image: &[u8]) -> Option<String> {
    label(&mut Cursor::new(image))
}

#[track_caller]
fn has_the_files(image: &[u8]) {
    for path in [NESTED, "user-data"] {
        assert_eq!(file(image, path), Ok(Some(USER_DATA.to_vec())), "{path}");
    }
    assert_eq!(file(image, "empty"), Ok(Some(Vec::new())));
    for path in ["user_data", "openstack/user_data", "no/file", ""] {
        assert_eq!(file(image, path), Ok(None), "{path}");
    }
    let refusal = file(image, "large").unwrap_err();
    assert_eq!(refusal, "`large` has 4097 bytes, which is more than 4096");
    let refusal = file(image, "openstack").unwrap_err();
    assert_eq!(refusal, "`openstack` is a folder, not a file");
    let refusal = file(image, "user-data/latest").unwrap_err();
    assert_eq!(refusal, "`user-data/latest` is a file, not a folder");
}

#[test]
fn files_are_read_from_iso_9660_with_each_kind_of_names() {
    let folder = source();
    let options: [&[&str]; 5] = [
        // cloud-localds, nova, Proxmox, and the two kinds of names alone.
        &["-volid", "cidata", "-joliet", "-rock"],
        &["-V", "config-2", "-ldots", "-allow-lowercase", "-allow-multidot", "-l", "-J", "-r"],
        &["-iso-level", "3", "-R", "-V", "cidata"],
        &["-J", "-V", "cidata"],
        &["-ldots", "-allow-lowercase", "-relaxed-filenames", "-l", "-V", "cidata"],
    ];
    for (options, label) in
        options.into_iter().zip(["cidata", "config-2", "cidata", "cidata", "cidata"])
    {
        let image = genisoimage(options, folder.path());
        assert_eq!(label_of(&image).as_deref(), Some(label), "{options:?}");
        has_the_files(&image);
        let xorriso =
            iso(&["xorriso", "-as", "mkisofs"], &["-V", label, "-J", "-r"], folder.path());
        assert_eq!(label_of(&xorriso).as_deref(), Some(label));
        has_the_files(&xorriso);
    }
}

#[test]
fn files_are_read_from_every_width_of_fat() {
    let folder = source();
    let kinds: [(&[&str], u32); 5] = [
        (&["-F", "12"], 1440),
        (&["-F", "16"], 16 << 10),
        (&["-F", "32"], 64 << 10),
        (&["-S", "1024"], 16 << 10),
        (&["-F", "12", "-s", "8"], 8192),
    ];
    for (options, kib) in kinds {
        let image = fat(options, kib, folder.path());
        assert_eq!(label_of(&image).as_deref(), Some("CIDATA"), "{options:?}");
        has_the_files(&image);
    }
}

#[test]
fn a_file_in_scattered_clusters_is_read_whole() {
    let place = source();
    let text: Vec<u8> = (0..4000u32).map(|number| (number / 7) as u8).collect();
    for index in 0..40 {
        fs::write(place.path().join(format!("a{index}")), vec![b'x'; 600]).unwrap();
    }
    for (width, kib) in [("12", 256), ("16", 8192), ("32", 40_960)] {
        let image = fat(&["-F", width, "-s", "1"], kib, place.path());
        let path = place.path().join("../scattered.img");
        let path = path.parent().unwrap().join(format!("scattered-{width}-{}", std::process::id()));
        fs::write(&path, image).unwrap();
        let odd: Vec<String> = (0..40).step_by(2).map(|index| format!("::a{index}")).collect();
        tool("mtools", Command::new("mdel").arg("-i").arg(&path).args(odd));
        let long = place.path().join("long");
        fs::write(&long, &text).unwrap();
        tool("mtools", Command::new("mcopy").arg("-i").arg(&path).arg(&long).arg("::"));
        fs::remove_file(&long).unwrap();
        let image = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(file(&image, "long"), Ok(Some(text.clone())), "FAT{width}");
    }
}

#[test]
fn a_volume_that_ends_early_names_the_part_that_is_missing() {
    let folder = source();
    let image = genisoimage(&["-J", "-r", "-V", "cidata"], folder.path());
    let cut = |blocks: usize| file(&image[..blocks * BLOCK], "user-data").unwrap_err();
    assert_eq!(cut(17), "the volume ends within the volume descriptors");
    assert_eq!(cut(20), "the volume ends within a folder");
    let at = place_of(&image, USER_DATA) / BLOCK;
    assert_eq!(cut(at), "the volume ends within a file");
    let image = fat(&["-F", "16"], 16 << 10, folder.path());
    let at = place_of(&image, USER_DATA);
    assert_eq!(file(&image[..at], "user-data").unwrap_err(), "the volume ends within a file");
}

fn place_of(image: &[u8], bytes: &[u8]) -> usize {
    image.windows(bytes.len()).position(|window| window == bytes).unwrap()
}

/// Replaces the extent of each directory record of `name` by that of the root.
fn loops(image: &mut [u8], name: &[u8]) {
    let root = image[16 * BLOCK + 156 + 2..][..8].to_vec();
    let records: Vec<usize> = (33..image.len() - name.len())
        .filter(|at| image[*at..].starts_with(name) && image[at - 1] == name.len() as u8)
        .map(|at| at - 33)
        .collect();
    assert!(!records.is_empty());
    for record in records {
        image[record + 2..record + 10].copy_from_slice(&root);
    }
}

#[test]
fn a_folder_that_contains_itself_ends_with_the_path() {
    let folder = source();
    let mut image = genisoimage(&["-r", "-V", "cidata"], folder.path());
    loops(&mut image, b"OPENSTAC");
    assert_eq!(file(&image, NESTED), Ok(None));
    assert_eq!(file(&image, "openstack/openstack/user-data"), Ok(Some(USER_DATA.to_vec())));
}

#[test]
fn a_chain_of_clusters_that_loops_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("loop")).unwrap();
    fs::write(folder.path().join("loop/file"), USER_DATA).unwrap();
    let mut image = fat(&["-F", "16", "-s", "1"], 16 << 10, folder.path());
    let reserved = usize::from(u16::from_le_bytes([image[14], image[15]])) * 512;
    // Cluster 2 is the folder. Its own number follows it, and its unused entries are not its end.
    image[reserved + 4..reserved + 6].copy_from_slice(&[2, 0]);
    let at = place_of(&image, b"FILE       ");
    let start = at - at % 512;
    for entry in image[start..start + 512].chunks_exact_mut(32).filter(|entry| entry[0] == 0) {
        entry[0] = 0xE5;
    }
    assert_eq!(
        file(&image, "loop/other").unwrap_err(),
        "the folder `loop/other` has too many entries"
    );
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let folder = source();
    std::os::unix::fs::symlink("user-data", folder.path().join("link")).unwrap();
    std::os::unix::fs::symlink("openstack", folder.path().join("stack")).unwrap();
    let image = genisoimage(&["-R", "-V", "cidata"], folder.path());
    assert_eq!(file(&image, "link").unwrap_err(), "`link` is a symbolic link, not a file");
    let refusal = file(&image, "stack/latest/user_data").unwrap_err();
    assert_eq!(refusal, "`stack/latest/user_data` is a symbolic link, not a folder");
}

#[test]
fn a_name_that_continues_elsewhere_is_read() {
    let folder = source();
    let name = "a".repeat(240);
    fs::write(folder.path().join(&name), USER_DATA).unwrap();
    let image = genisoimage(&["-R", "-V", "cidata"], folder.path());
    assert_eq!(file(&image, &name), Ok(Some(USER_DATA.to_vec())));
}

#[test]
fn a_folder_with_too_many_entries_is_refused() {
    let folder = source();
    for index in 0..3000 {
        fs::write(folder.path().join(format!("a-rather-long-name-{index}")), "").unwrap();
    }
    let image = genisoimage(&["-R", "-V", "cidata"], folder.path());
    assert_eq!(file(&image, "user-data").unwrap_err(), "the folder `/` has too many entries");
}

#[test]
fn other_volumes_have_no_label_and_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ext4");
    fs::write(&path, vec![0; 4 << 20]).unwrap();
    tool("e2fsprogs", Command::new("mke2fs").args(["-q", "-t", "ext4", "-L", "cidata"]).arg(&path));
    let ext4 = fs::read(path).unwrap();
    let refusal = "volumes other than ISO 9660 and FAT are not supported";
    for image in [&ext4[..], &[0; 512], &[0xFF; 70_000]] {
        assert_eq!(label_of(image), None);
        assert_eq!(file(image, "user-data").unwrap_err(), refusal);
    }
    assert_eq!(
        file(b"", "user-data").unwrap_err(),
        "the volume ends within the header of the FAT volume"
    );
}

proptest! {
    #[test]
    fn any_change_of_a_header_is_read_or_refused(
        kind in 0..2usize,
        changes in prop::collection::vec((0..0x400usize, any::<u8>()), 1..24),
    ) {
        use std::sync::LazyLock;
        static IMAGES: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
            let folder = source();
            let iso = genisoimage(&["-J", "-r", "-V", "cidata"], folder.path());
            [iso, fat(&["-F", "12"], 1440, folder.path())]
        });
        let mut image = IMAGES[kind].clone();
        let start = if kind == 0 { 16 * BLOCK } else { 0 };
        for (at, byte) in changes {
            image[start + at] = byte;
        }
        let _ = label_of(&image);
        for path in ["user-data", NESTED] {
            if let Ok(Some(bytes)) = file(&image, path) {
                prop_assert!(bytes.len() <= MAX);
            }
        }
    }
}
