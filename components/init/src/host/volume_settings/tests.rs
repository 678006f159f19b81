//! Decisions about volumes, with real mounts in a mount namespace of each test. They need root, and
//! the tool `losetup`.

use super::*;

use std::fs::{self, File};
use std::process::Command;

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};

use crate::sys::own_mounts;

const NOW: Duration = Duration::from_secs(100);
const ALL: &str = "# any\nfolder\nserial=*\nwwid=*\n";

fn volume(line: &str) -> Volume {
    match Setting::parse(&format!("volume {line}")) {
        Ok(Setting::Volume(volume)) => volume,
        other => panic!("{line}: {other:?}"),
    }
}

fn name(text: &str) -> VolumeName {
    VolumeName::parse(text).unwrap()
}

fn apply(volumes: &mut VolumeSettings, line: &str) {
    volumes.apply(Source::Api, &volume(line), ALL, NOW).unwrap();
}

/// The state and the error of each volume.
fn observed(volumes: &VolumeSettings) -> Vec<(String, String)> {
    volumes.observe().map(|one| (one.current, one.error)).collect()
}

fn is(current: &str, error: &str) -> Vec<(String, String)> {
    vec![(current.to_owned(), error.to_owned())]
}

fn start(number: u8, arguments: &[&str]) -> Start {
    Start { number, arguments: arguments.iter().map(|word| (*word).to_owned()).collect() }
}

/// Runs a test on a thread where `/var/mnt` is as on a node.
fn on_a_node(work: impl FnOnce(&mut VolumeSettings) + Send) {
    let inside = || {
        own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        mount("node", "/var", "tmpfs", MountFlags::empty(), None).unwrap();
        fs::create_dir("/var/mnt").unwrap();
        work(&mut VolumeSettings::default());
    };
    let ended = std::thread::scope(|scope| scope.spawn(inside).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// A disk with an ext4, which goes with this value.
struct Disk {
    name: String,
    _folder: tempfile::TempDir,
}

impl Disk {
    fn new() -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk");
        File::create(&file).unwrap().set_len(8 << 20).unwrap();
        run("mke2fs", &["-q", "-t", "ext4", file.to_str().unwrap()]);
        let device = run("losetup", &["--find", "--show", file.to_str().unwrap()]);
        Disk { name: device.trim().trim_start_matches("/dev/").to_owned(), _folder: folder }
    }

    fn mount(&self) {
        let device = format!("/dev/{}", self.name);
        mount(device, "/var/mnt/db", "ext4", MountFlags::empty(), None).unwrap();
    }

    /// Mounts it, and reports it as the child does.
    fn report(&self, volumes: &mut VolumeSettings) {
        self.mount();
        volumes.on_report(0, &format!("mounted device={} bytes=8388608\n", self.name), NOW);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("losetup", &["--detach", &format!("/dev/{}", self.name)]);
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    let ran = Command::new(format!("/sbin/{program}")).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn a_volume_is_mounted_and_unmounted_by_its_child() {
    let disk = Disk::new();
    on_a_node(|volumes| {
        apply(volumes, "db serial=a%20b");
        assert_eq!(volumes.deadline(), Some(NOW));
        assert_eq!(volumes.hold(NOW), [""; 0]);
        assert_eq!(volumes.starts(NOW), [start(0, &["mount", "db", "serial=a%20b"])]);
        assert_eq!(observed(volumes), is("preparing", ""));
        assert_eq!((volumes.deadline(), volumes.starts(NOW)), (None, vec![]), "its child runs");
        disk.report(volumes);
        let lines = volumes.hold(NOW);
        assert_eq!(lines, [format!("volume `db`: `{}` is mounted at `/var/mnt/db`", disk.name)]);
        let state = format!("mounted device={} bytes=8388608", disk.name);
        assert_eq!(observed(volumes), is(&state, ""));
        assert_eq!((volumes.deadline(), volumes.starts(NOW)), (None, vec![]));
        volumes.withdraw(Source::Api, &name("db"), NOW);
        assert_eq!(volumes.starts(NOW), [start(0, &["unmount", "db"])]);
        let busy = "it is unmounted once nothing uses it: in use by the pod 1";
        volumes.on_report(0, &format!("leaving\nerror {busy}\n"), NOW);
        assert_eq!(observed(volumes), is(&state.replace("mounted", "leaving"), busy));
        volumes.hold(NOW);
        assert_eq!(volumes.deadline(), Some(NOW + INTERVAL));
        assert_eq!(volumes.starts(NOW + INTERVAL), [start(0, &["unmount", "db"])]);
        unmount("/var/mnt/db", UnmountFlags::empty()).unwrap();
        volumes.on_report(0, "waiting\n", NOW);
        assert_eq!(observed(volumes), vec![]);
        assert!(!fs::exists("/var/mnt/db").unwrap());
    });
}

#[test]
fn only_a_mounted_volume_has_a_folder_and_nobody_makes_one() {
    on_a_node(|volumes| {
        apply(volumes, "db serial=a");
        volumes.starts(NOW);
        let error = fs::create_dir("/var/mnt/other").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        let error = fs::write("/var/mnt/db/file", "").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        volumes.on_report(0, "refused device=vdb bytes=0\nerror the disk is not blank\n", NOW);
        assert_eq!(observed(volumes), is("refused device=vdb bytes=0", "the disk is not blank"));
        assert!(!fs::exists("/var/mnt/db").unwrap());
        volumes.withdraw(Source::Api, &name("db"), NOW);
        volumes.hold(NOW);
        assert_eq!((observed(volumes), volumes.deadline()), (vec![], None));
    });
}

#[test]
fn a_missing_disk_is_looked_for_when_disks_change_and_now_and_then() {
    on_a_node(|volumes| {
        apply(volumes, "db serial=a");
        volumes.look(&[], vec!["vda 1".to_owned()], NOW);
        assert_eq!(volumes.starts(NOW).len(), 1);
        volumes.on_report(0, "waiting\nerror no disk has the serial `a`\n", NOW);
        let line = "volume `db`: no disk has the serial `a`";
        assert_eq!(std::mem::take(&mut volumes.lines), [line]);
        volumes.look(&[], vec!["vda 1".to_owned()], NOW);
        assert_eq!((volumes.starts(NOW), volumes.deadline()), (vec![], Some(NOW + INTERVAL)));
        volumes.look(&[], vec!["vda 1".to_owned(), "vdb 2".to_owned()], NOW);
        assert_eq!(volumes.starts(NOW).len(), 1);
        volumes.on_report(0, "waiting\nerror no disk has the serial `a`\n", NOW);
        assert_eq!(volumes.lines, [""; 0], "the console has the error already");
    });
}

#[test]
fn what_another_program_unmounts_is_mounted_again() {
    let disk = Disk::new();
    on_a_node(|volumes| {
        apply(volumes, "db serial=a");
        volumes.hold(NOW);
        volumes.starts(NOW);
        disk.report(volumes);
        volumes.hold(NOW);
        unmount("/var/mnt/db", UnmountFlags::empty()).unwrap();
        assert_eq!(volumes.hold(NOW), ["another program unmounted `/var/mnt/db`"]);
        assert_eq!(volumes.starts(NOW), [start(0, &["mount", "db", "serial=a"])]);
    });
}

#[test]
fn a_child_that_was_killed_after_it_has_mounted_leaves_a_volume() {
    let disk = Disk::new();
    on_a_node(|volumes| {
        apply(volumes, "db serial=a");
        volumes.starts(NOW);
        disk.mount();
        volumes.on_late(0);
        volumes.on_report(0, "", NOW);
        let state = format!("mounted device={} bytes=0", disk.name);
        assert_eq!(observed(volumes), is(&state, "its child has ended without a report"));
        volumes.hold(NOW);
        assert_eq!(volumes.starts(NOW + INTERVAL), []);
    });
}

#[test]
fn another_disk_is_mounted_once_the_first_one_is_not() {
    let disk = Disk::new();
    on_a_node(|volumes| {
        let document = volume("db serial=document");
        volumes.apply(Source::Document, &document, ALL, NOW).unwrap();
        volumes.starts(NOW);
        disk.report(volumes);
        apply(volumes, "db serial=api");
        assert_eq!(volumes.starts(NOW), [start(0, &["unmount", "db"])]);
        unmount("/var/mnt/db", UnmountFlags::empty()).unwrap();
        volumes.on_report(0, "waiting\n", NOW);
        assert_eq!(volumes.starts(NOW), [start(0, &["mount", "db", "serial=api"])]);
        volumes.on_report(0, "", NOW);
        let error = "its child has ended without a report";
        assert_eq!(observed(volumes), is("failed", error));
        volumes.withdraw(Source::Api, &name("db"), NOW);
        assert_eq!(volumes.starts(NOW), [start(0, &["mount", "db", "serial=document"])]);
        volumes.on_late(0);
        assert_eq!(observed(volumes), is("failed", "its disk does not answer"));
        assert_eq!(volumes.starts(NOW + INTERVAL), [], "one child at a time");
    });
}

#[test]
fn a_volume_moves_between_a_folder_and_a_disk_once_it_is_unmounted() {
    on_a_node(|volumes| {
        apply(volumes, "db folder");
        assert_eq!(volumes.starts(NOW), [start(0, &["mount", "db", "folder"])]);
        fs::create_dir_all("/var/data/db").unwrap();
        mount_bind("/var/data/db", "/var/mnt/db").unwrap();
        volumes.on_report(0, "mounted bytes=4096\n", NOW);
        // A tmpfs has no device.
        assert_eq!(observed(volumes), is("mounted", ""));
        assert_eq!(
            volumes.hold(NOW),
            ["volume `db`: a folder of DATA is mounted at `/var/mnt/db`"]
        );
        assert_eq!(volumes.starts(NOW), []);
        apply(volumes, "db serial=a");
        assert_eq!(volumes.starts(NOW), [start(0, &["unmount", "db"])]);
        unmount("/var/mnt/db", UnmountFlags::empty()).unwrap();
        volumes.on_report(0, "waiting\n", NOW);
        assert_eq!(volumes.hold(NOW), ["volume `db`: a folder of DATA is unmounted"]);
        assert_eq!(volumes.starts(NOW), [start(0, &["mount", "db", "serial=a"])]);
    });
}

#[test]
fn volumes_are_few_and_each_has_a_disk_of_its_own() {
    on_a_node(|volumes| {
        let refused = |volumes: &mut VolumeSettings, line: &str, list: &str| {
            volumes.apply(Source::Api, &volume(line), list, NOW).unwrap_err().reason
        };
        for number in 0..MAX_VOLUMES {
            apply(volumes, &format!("v{number} serial={number}"));
        }
        assert_eq!(refused(volumes, "more serial=x", ALL), "there are 8 volumes already");
        apply(volumes, "v0 serial=x");
        let reason = refused(volumes, "v1 serial=x", ALL);
        assert_eq!(reason, "the volume `v0` has the disk with the serial `x`");
        for list in ["", "# serial=*", "serial=y*\nwwid=*", "serial=xx"] {
            let reason = refused(volumes, "v0 serial=x", list);
            assert_eq!(reason, "the image allows no volume on the disk with the serial `x`");
        }
        for list in ["serial=x", "serial=*", " wwid=a\nserial=x*"] {
            volumes.apply(Source::Api, &volume("v0 serial=x"), list, NOW).unwrap();
        }
        let reason = refused(volumes, "v1 folder", "# folder\nserial=*\nfolders\n");
        assert_eq!(reason, "the image allows no volume on a folder of DATA");
        for name in ["v1", "v2"] {
            apply(volumes, &format!("{name} folder"));
        }
        let numbers: Vec<u8> = volumes.starts(NOW).iter().map(|start| start.number).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7]);
        let shipped = include_str!("../../../volume-disks.conf");
        volumes.apply(Source::Api, &volume("v0 wwid=eui.1"), shipped, NOW).unwrap();
    });
}
