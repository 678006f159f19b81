//! `osbuild diff` on small nodes with real layers from mkfs.erofs.

use crate::scratch::Ran;
use crate::workshop;
use osbuild_abi::disk::{DATA, DATA_TYPE, ESP, ESP_TYPE, SLOT_A, SLOT_TYPE};
use osbuild_formats::cpio::{self, Entry};
use osbuild_formats::disk_image::{Content, DiskImage, Partition};
use osbuild_formats::fat::{self, Volume};
use osbuild_formats::gpt::guid_from_name;
use osbuild_formats::uki::{self, Parts};
use osbuild_slots::{Header, State};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Cursor;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;

/// The contents of a small node.
pub struct NodeContents {
    version: &'static str,
    init: &'static str,
    command_line: &'static str,
    pods: &'static str,
    /// Path in the root, permissions and content.
    files: &'static [(&'static str, u32, &'static str)],
}

pub const OLD: NodeContents = NodeContents {
    version: "0.1.0",
    init: "old init",
    command_line: "quiet panic=10",
    pods: r#"{"dhcp": ["localhost/dhcp:1"]}"#,
    files: &[
        ("etc/hosts", 0o644, "127.0.0.1"),
        ("etc/gone", 0o600, "gone"),
        ("etc/mode", 0o644, ""),
        ("etc/same", 0o644, ""),
    ],
};

pub const NEW: NodeContents = NodeContents {
    version: "0.2.0",
    init: "the new init",
    command_line: "quiet panic=11 ro",
    pods: r#"{"dhcp": ["localhost/dhcp:2"]}"#,
    files: &[
        ("etc/hosts", 0o644, "127.0.0.2"),
        ("etc/come", 0o600, "come"),
        ("etc/mode", 0o755, ""),
        ("etc/same", 0o644, ""),
    ],
};

/// The initramfs of a node.
fn initramfs(node: &NodeContents) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let init = ("bin/init", 0o755, node.init);
    let pod = ("usr/share/osbuild/pods/dhcp.yaml", 0o444, "kind: Pod");
    for (path, mode, content) in node.files.iter().chain([&init, &pod]) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
    }
    let layer = folder.path().join("layer");
    let mut mkfs = Command::new("mkfs.erofs");
    mkfs.args(["--quiet", "--all-root", "-T0", "-U00000000-0000-0000-0000-000000000000"])
        .args([&layer, &root]);
    assert!(mkfs.status().expect("Debian's package erofs-utils is installed").success());
    let sha256 =
        Sha256::digest(node.init).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (version, size, pods) = (node.version, node.init.len(), node.pods);
    let inventory = format!(
        r#"{{
            "recipe": "node", "architecture": "arm64", "lock": "ab", "epoch": 1,
            "kernel": "6.12.1", "prebuilt": {{}}, "pods": {pods},
            "binaries": [{{ "name": "init", "component": "init", "version": "{version}",
                "size": {size}, "sha256": "{sha256}" }}]
        }}"#
    );
    let entries = [
        Entry::file("/init", 0o755, node.init.as_bytes()),
        Entry::directory("/layers", 0o755),
        Entry::file("/layers/00-base.erofs", 0o444, fs::read(layer).unwrap()),
        Entry::file("/osbuild.json", 0o444, inventory.into_bytes()),
    ];
    cpio::write(&entries, Vec::new()).unwrap()
}

/// The UKI of a node.
pub fn uki(node: &NodeContents) -> Vec<u8> {
    let (initramfs, program) = (initramfs(node), workshop::image());
    let parts = Parts {
        os_release: "ID=osbuild\n",
        command_line: node.command_line,
        uname: "6.12.1",
        initramfs: &initramfs,
        security_epoch: 1,
        kernel: &program,
    };
    uki::build(&program, &parts).unwrap()
}

/// A disk with the node in its first slot.
pub fn disk(node: &NodeContents, state: State) -> Vec<u8> {
    let uki = uki(node);
    let header = Header {
        length: uki.len() as u64,
        sha256: Sha256::digest(&uki).into(),
        version: node.version.to_owned(),
    };
    let slot = [header.encode().unwrap(), uki].concat();
    let volume = Volume { sector_size: 512, size: 34 * MIB, label: ESP, id: 1 };
    let esp = volume
        .write(&[fat::File { path: "/EFI/BOOT/BOOTAA64.EFI".to_owned(), bytes: workshop::image() }])
        .unwrap();
    let partition = |name, kind: &str, size, attributes, content| Partition {
        name,
        type_guid: kind.parse().unwrap(),
        guid: guid_from_name(name),
        attributes,
        size: size * MIB,
        content,
    };
    let partitions = vec![
        partition(ESP, ESP_TYPE, 34, 0, Content::bytes(&esp)),
        partition(SLOT_A, SLOT_TYPE, 2, state.write(0), Content::bytes(&slot)),
        partition(DATA, DATA_TYPE, 1, 0, Content::empty()),
    ];
    let mut image = Cursor::new(Vec::new());
    DiskImage { sector_size: 512, guid: guid_from_name("disk"), partitions }
        .write(&mut image)
        .unwrap();
    image.into_inner()
}

/// Writes files into a folder, and runs `osbuild diff` on them there.
struct Folder(TempDir);

impl Folder {
    fn with(files: [(&str, Vec<u8>); 2]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        files.iter().for_each(|(name, bytes)| fs::write(folder.path().join(name), bytes).unwrap());
        Folder(folder)
    }

    fn diff(&self, words: &[&str]) -> Ran {
        Ran::of(
            Command::new(env!("CARGO_BIN_EXE_osbuild"))
                .arg("diff")
                .args(words)
                .current_dir(self.0.path()),
        )
    }
}

pub fn expected(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/expected").join(name)
}

#[test]
fn two_ukis_differ_only_in_their_changes() {
    let folder = Folder::with([("old.efi", uki(&OLD)), ("new.efi", uki(&NEW))]);
    let ran = folder.diff(&["old.efi", "new.efi"]);
    assert_eq!(
        (ran.stdout, ran.stderr.as_str(), ran.code),
        (fs::read_to_string(expected("diff.txt")).unwrap(), "", Some(1))
    );
}

#[test]
fn diff_prints_the_same_as_json() {
    let folder = Folder::with([("old.efi", uki(&OLD)), ("new.efi", uki(&NEW))]);
    let ran = folder.diff(&["old.efi", "new.efi", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let change = serde_json::json!([{ "name": "init", "a": "0.1.0", "b": "0.2.0" }]);
    assert_eq!(
        (&json["versions"], &json["a"]["kind"], ran.code),
        (&change, &"uki".into(), Some(1))
    );
    let names: Vec<_> = json["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["/bin/init", "/etc/come", "/etc/gone", "/etc/hosts", "/etc/mode"]);
}

#[test]
fn an_image_a_uki_and_an_initramfs_of_one_node_do_not_differ() {
    let state = State { priority: 1, tries: 1, successful: false };
    let others = [
        ("node.efi", uki(&OLD)),
        ("initramfs.cpio", initramfs(&OLD)),
        ("image.raw", disk(&OLD, state)),
    ];
    for (name, bytes) in others {
        let folder = Folder::with([("image", disk(&OLD, state)), (name, bytes)]);
        let ran = folder.diff(&["image", name]);
        assert_eq!(
            (ran.stdout.as_str(), ran.stderr.as_str(), ran.code),
            ("no difference\n", "", Some(0)),
            "{name}"
        );
    }
}

#[test]
fn an_initramfs_with_another_init_is_refused_and_one_with_other_modes_differs() {
    // The name and the content of an entry follow the fields of its header, 110 bytes in digits.
    const MODE: usize = 110 - 14;
    let whole = initramfs(&OLD);
    let init = memchr::memmem::find(&whole, b"init\0").unwrap();
    let mut modes = whole.clone();
    assert_eq!(modes[init - MODE..][..8], *b"000081ed");
    modes[init - MODE..][..8].copy_from_slice(b"000081ff");
    let mut other = whole;
    let content = memchr::memmem::find(&other, OLD.init.as_bytes()).unwrap();
    other[content] ^= 1;
    let folder = Folder::with([("node.efi", uki(&OLD)), ("modes.cpio", modes)]);
    let ran = folder.diff(&["modes.cpio", "node.efi"]);
    let expected = "\n\nparts\n  ~ initramfs  ";
    assert!(ran.stdout.contains(expected) && ran.code == Some(1), "{}{}", ran.stdout, ran.stderr);
    fs::write(folder.0.path().join("other.cpio"), other).unwrap();
    let ran = folder.diff(&["other.cpio", "node.efi"]);
    assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(4)), "{}", ran.stderr);
    assert!(ran.stderr.contains("`/init` of the initramfs is sha256:"), "{}", ran.stderr);
}

#[test]
fn a_tried_slot_differs_from_an_untried_one() {
    let states = [2, 1].map(|tries| State { priority: 1, tries, successful: false });
    let folder = Folder::with([("a", disk(&OLD, states[0])), ("b", disk(&OLD, states[1]))]);
    let ran = folder.diff(&["a", "b"]);
    assert!(ran.stdout.contains("\n\nslots\n  ~ SLOT-A  priority 1, tries 2, "), "{}", ran.stdout);
    assert!(!ran.stdout.contains("\nfiles\n") && ran.code == Some(1), "{}", ran.stdout);
}

/// A release: its version, its node, and names and versions in its SBOM.
type Release<'a> = (&'a str, &'a NodeContents, &'a [(&'a str, &'a str)]);

/// Makes the folder of a TUF repository with these releases in version `number` of `targets.json`.
fn publish(folder: &Path, number: u32, releases: &[Release]) {
    let [metadata, targets] = ["metadata", "targets"].map(|name| folder.join(name));
    [&metadata, &targets].iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    let mut listed = serde_json::Map::new();
    for (version, node, packages) in releases {
        let package = |(name, version): &(&str, &str)| {
            let url = format!("pkg:cargo/{name}@{version}");
            let reference = serde_json::json!({ "referenceLocator": url });
            serde_json::json!({ "name": name, "versionInfo": version, "externalRefs": [reference] })
        };
        let sbom =
            serde_json::json!({ "packages": packages.iter().map(package).collect::<Vec<_>>() });
        for (name, bytes) in [
            ("node.efi", uki(node)),
            ("boot.efi", workshop::image()),
            ("sbom.spdx.json", sbom.to_string().into_bytes()),
        ] {
            let name = format!("qemu-amd64_{version}_{name}");
            let sha256 =
                Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            fs::write(targets.join(format!("{sha256}.{name}")), bytes).unwrap();
            listed.insert(name, serde_json::json!({ "length": 1, "hashes": { "sha256": sha256 } }));
        }
    }
    let text = serde_json::json!({ "signed": { "targets": listed } }).to_string();
    fs::write(metadata.join(format!("{number}.targets.json")), text).unwrap();
}

#[test]
fn releases_also_differ_in_their_sboms() {
    let folder = Folder::with([("node.efi", uki(&OLD)), ("other.efi", uki(&NEW))]);
    let releases: [Release; 2] = [
        ("1.0", &OLD, &[("serde", "1.0"), ("syn", "1"), ("syn", "2")]),
        ("2.0", &NEW, &[("serde", "1.1"), ("syn", "2")]),
    ];
    publish(&folder.0.path().join("old"), 1, &releases[..1]);
    // Version 10 is newer than 9, although its name sorts before.
    publish(&folder.0.path().join("both"), 9, &releases[..1]);
    publish(&folder.0.path().join("both"), 10, &releases);
    let ran = folder.diff(&["old", "both@2.0"]);
    let packages =
        "\n\npackages\n  ~ pkg:cargo/serde  1.0 -> 1.1\n  ~ pkg:cargo/syn    1, 2 -> 2\n\nfiles\n";
    assert!(ran.stdout.contains(packages) && ran.code == Some(1), "{}{}", ran.stdout, ran.stderr);
    for same in [["old", "both@1.0"], ["old", "node.efi"], ["both@qemu-amd64_2.0", "other.efi"]] {
        let ran = folder.diff(&same);
        assert_eq!(
            (ran.stdout.as_str(), ran.code),
            ("no difference\n", Some(0)),
            "{same:?} {}",
            ran.stderr
        );
    }
    let ran = folder.diff(&["old", "both"]);
    assert!(
        ran.code == Some(2) && ran.stderr.contains("hint: name one of them: `both@qemu-amd64_2.0`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn releases_differ_in_slotboot() {
    let folder = Folder::with([
        ("node.efi", uki(&OLD)),
        ("image", disk(&OLD, State { priority: 1, tries: 1, successful: false })),
    ]);
    for name in ["one", "other"] {
        publish(&folder.0.path().join(name), 1, &[("1.0", &OLD, &[])]);
    }
    let same = folder.diff(&["one", "other"]);
    assert_eq!((same.stdout.as_str(), same.code), ("no difference\n", Some(0)), "{}", same.stderr);
    let targets = fs::read_dir(folder.0.path().join("other/targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let boot =
        targets.into_iter().find(|path| path.to_str().unwrap().ends_with("_boot.efi")).unwrap();
    fs::write(boot, "changed").unwrap();
    let ran = folder.diff(&["one", "other"]);
    assert!(
        ran.stdout.contains("\n\nparts\n  ~ /EFI/BOOT/BOOT") && ran.code == Some(1),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn images_differ_in_bytes_outside_any_file() {
    let image = disk(&OLD, State { priority: 1, tries: 1, successful: false });
    // The backup of the partition table is at the end of the disk, and DATA is the MiB before.
    for (at, differs) in [(image.len() - 100, true), (image.len() - (MIB as usize) * 3 / 2, false)]
    {
        let mut other = image.clone();
        other[at] ^= 1;
        let ran = Folder::with([("a", image.clone()), ("b", other)]).diff(&["a", "b"]);
        assert_eq!(
            (ran.stdout.contains("all bytes but those of DATA"), ran.code),
            (differs, Some(differs.into())),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
    }
}

#[test]
fn an_unreadable_file_never_exits_1() {
    let mut damaged = uki(&OLD);
    let middle = damaged.len() / 2;
    damaged.truncate(middle);
    let folder = Folder::with([("old.efi", uki(&OLD)), ("damaged.efi", damaged)]);
    for other in ["damaged.efi", "missing.efi"] {
        let ran = folder.diff(&["old.efi", other]);
        assert_eq!((ran.stdout.as_str(), ran.code), ("", Some(2)), "{}", ran.stderr);
        assert!(ran.stderr.contains(other), "{}", ran.stderr);
    }
}

#[test]
fn output_that_cannot_be_written_is_no_difference() {
    let folder = Folder::with([("a.efi", uki(&OLD)), ("b.efi", uki(&OLD))]);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_osbuild"));
    command.args(["diff", "a.efi", "b.efi"]).current_dir(folder.0.path()).stdout(full);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cannot write to stdout"), "{error}");
    assert_eq!(output.status.code(), Some(2), "{error}");
}
