//! Real disks and real mounts, each test in a mount namespace of its own. They need root, and the
//! tool `losetup`.

use super::*;

use std::fs::{self, File};
use std::process::Command;
use std::time::{Duration, Instant};

use osbuild_folder::Folder;
use rustix::fs::statvfs;
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_bind, mount_change};

use crate::sys::own_mounts;

const SIZE: u64 = 400 << 20;

/// How long another program may claim a device, or keep a mount in use.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Mounts or unmounts. A child that another test starts has the files of this one until it executes
/// its program.
fn when_free(act: impl Fn() -> rustix::io::Result<()>) {
    let began = Instant::now();
    loop {
        match act() {
            Err(Errno::BUSY) if began.elapsed() < TIMEOUT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            ended => return ended.unwrap(),
        }
    }
}

fn unmounted(point: &str) {
    when_free(|| unmount(point, UnmountFlags::empty()));
}

/// Mounts a volume. While other tests look for a free loop device, Linux claims this one for a
/// moment (`loop_configure` in `drivers/block/loop.c`).
fn mounted(
    device: &Path,
    name: &VolumeName,
    point: &str,
) -> Result<Report, (VolumePhase, Failure)> {
    let began = Instant::now();
    loop {
        match super::mounted(device, name, point) {
            Err((VolumePhase::Failed, failure))
                if is_busy(&failure) && began.elapsed() < TIMEOUT =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            outcome => return outcome,
        }
    }
}

fn is_busy(failure: &Failure) -> bool {
    failure.to_string().contains("resource busy")
}

/// A loop device, which goes with this value.
struct Disk {
    device: String,
    _folder: tempfile::TempDir,
}

impl Disk {
    fn new(size: u64) -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk");
        File::create(&file).unwrap().set_len(size).unwrap();
        let device = losetup(&["--find", "--show", file.to_str().unwrap()]);
        Disk { device: device.trim().to_owned(), _folder: folder }
    }

    fn path(&self) -> &Path {
        Path::new(&self.device)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        losetup(&["--detach", &self.device]);
    }
}

fn losetup(arguments: &[&str]) -> String {
    let ran = Command::new("/sbin/losetup").args(arguments).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// Runs a test on a thread with mounts of its own, and a folder to mount at.
fn alone(work: impl FnOnce(&Path) + Send) {
    let inside = || {
        own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        let folder = tempfile::tempdir().unwrap();
        work(folder.path());
    };
    let ended = std::thread::scope(|scope| scope.spawn(inside).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn db() -> VolumeName {
    VolumeName::parse("db").unwrap()
}

fn point(folder: &Path, name: &str) -> String {
    let point = folder.join(name);
    fs::create_dir_all(&point).unwrap();
    point.to_str().unwrap().to_owned()
}

fn bytes(point: &str) -> u64 {
    let found = statvfs(point).unwrap();
    found.f_blocks * found.f_frsize
}

/// The error of a volume that grows. Linux asks for a capability that some containers do not have;
/// then the volume is mounted as small as it was.
fn growth() -> (bool, &'static str) {
    const SYS_RESOURCE: u32 = 24;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    match u64::from_str_radix(set.trim(), 16).unwrap() >> SYS_RESOURCE & 1 {
        1 => (true, ""),
        _ => (false, "grow the file system: Operation not permitted (os error 1)"),
    }
}

#[test]
fn linux_mounts_a_new_file_system_grows_it_and_finds_it_again() {
    let disk = Disk::new(SIZE);
    alone(|folder| {
        let point = &point(folder, "db");
        let first = mounted(disk.path(), &db(), point).unwrap();
        let (grows, error) = growth();
        assert_eq!((first.state.phase, first.error.as_str()), (VolumePhase::Mounted, error));
        assert_eq!(first.state.bytes, SIZE);
        assert!(first.notes[0].ends_with("was blank, and is formatted"), "{:?}", first.notes);
        let least = if grows { 300 << 20 } else { 50 << 20 };
        assert!(bytes(point) > least, "{}", bytes(point));
        let (phase, failure) = mounted(disk.path(), &db(), point).unwrap_err();
        assert_eq!(phase, VolumePhase::Refused, "{failure}");
        fs::write(format!("{point}/file"), "kept").unwrap();
        unmounted(point);
        let again = mounted(disk.path(), &db(), point).unwrap();
        assert_eq!(again.notes, [""; 0]);
        has_its_file_and_is_sound(&disk, point);
    });
}

/// The mounted volume has its file, and e2fsck finds no mistake once it is unmounted.
fn has_its_file_and_is_sound(disk: &Disk, point: &str) {
    assert_eq!(fs::read_to_string(format!("{point}/file")).unwrap(), "kept");
    unmounted(point);
    let checked = Command::new("/sbin/e2fsck").args(["-f", "-n", &disk.device]).output();
    let checked = checked.unwrap();
    assert!(checked.status.success(), "{checked:?}");
}

#[test]
fn a_volume_whose_disk_has_grown_grows() {
    let disk = Disk::new(SIZE);
    alone(|folder| {
        let point = &point(folder, "db");
        mounted(disk.path(), &db(), point).unwrap();
        fs::write(format!("{point}/file"), "kept").unwrap();
        unmounted(point);
        let file = disk._folder.path().join("disk");
        // More than one block of descriptors describes.
        File::options().write(true).open(file).unwrap().set_len(20 << 30).unwrap();
        losetup(&["--set-capacity", &disk.device]);
        let grown = mounted(disk.path(), &db(), point).unwrap();
        let (grows, error) = growth();
        assert_eq!((grown.state.bytes, grown.error.as_str()), (20 << 30, error));
        assert_eq!(grown.notes.iter().any(|note| note.starts_with("grown from ")), grows);
        assert_eq!(bytes(point) > 19 << 30, grows);
        has_its_file_and_is_sound(&disk, point);
    });
}

#[test]
fn a_disk_of_another_format_and_one_in_use_are_not_mounted() {
    let disk = Disk::new(SIZE);
    alone(|folder| {
        let point = &point(folder, "db");
        let made = Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4", &disk.device]).status();
        assert!(made.unwrap().success());
        let (phase, failure) = mounted(disk.path(), &db(), point).unwrap_err();
        assert_eq!(phase, VolumePhase::Refused);
        assert!(failure.to_string().contains("it has an ext4 `` file system"), "{failure}");
        when_free(|| mount(disk.path(), point.as_str(), "ext4", MountFlags::empty(), None));
        let (phase, failure) = mounted(disk.path(), &db(), point).unwrap_err();
        let expected = format!("{} or a part of it is in use", disk.device);
        assert_eq!((phase, failure.to_string()), (VolumePhase::Refused, expected));
    });
}

#[test]
fn a_damaged_volume_is_an_error() {
    let disk = Disk::new(SIZE);
    alone(|folder| {
        let point = &point(folder, "db");
        mounted(disk.path(), &db(), point).unwrap();
        unmounted(point);
        let file = File::options().write(true).open(&disk.device).unwrap();
        // The descriptors of groups.
        std::os::unix::fs::FileExt::write_all_at(&file, &[0xFF; 4096], 4096).unwrap();
        file.sync_all().unwrap();
        let (phase, failure) = mounted(disk.path(), &db(), point).unwrap_err();
        assert_eq!(phase, VolumePhase::Failed);
        assert!(failure.to_string().starts_with("mount /dev/loop"), "{failure}");
    });
}

#[test]
fn a_folder_of_data_is_mounted_and_its_users_are_not_those_of_data() {
    alone(|folder| {
        mount("data", folder, "tmpfs", MountFlags::empty(), None).unwrap();
        let data = Folder::open(&folder.canonicalize().unwrap(), "aside").unwrap();
        let places = tempfile::tempdir().unwrap();
        mount("volumes", places.path(), "tmpfs", MountFlags::empty(), None).unwrap();
        let [at, other] = ["db", "dbx"].map(|name| point(places.path(), name));
        let report = super::folder::mount(&data, &db(), &at).unwrap();
        assert_eq!(report.state.phase, VolumePhase::Mounted);
        assert_eq!(report.state.bytes, bytes(&at));
        super::folder::mount(&data, &VolumeName::parse("dbx").unwrap(), &other).unwrap();
        fs::write(format!("{at}/file"), "kept").unwrap();
        let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        let line = table.lines().find(|line| line.contains(&at)).unwrap().to_owned();
        assert!(line.contains(" /volumes/db ") && line.contains("nosuid,nodev,noexec"), "{line}");
        // The folder of another pod on DATA uses neither, and the one of a container uses its own.
        let pods = tempfile::tempdir().unwrap();
        let [pod, container] = ["pod", "container"].map(|name| point(pods.path(), name));
        data.folder("pods", 0o755).unwrap();
        mount_bind(folder.join("pods"), pod.as_str()).unwrap();
        mount_bind(other.as_str(), container.as_str()).unwrap();
        assert_eq!(users::of(&at).unwrap().len(), 0);
        assert_eq!(users::of(&other).unwrap().into_iter().collect::<Vec<_>>(), [container]);
        unmounted(&at);
        super::folder::mount(&data, &db(), &at).unwrap();
        assert_eq!(fs::read_to_string(format!("{at}/file")).unwrap(), "kept");
    });
}

#[test]
fn users_are_other_mounts_of_the_disk_and_containers() {
    let disk = Disk::new(SIZE);
    alone(|folder| {
        mount("volumes", folder, "tmpfs", MountFlags::empty(), None).unwrap();
        let at = &point(folder, "db");
        mounted(disk.path(), &db(), at).unwrap();
        assert_eq!(users::of(at).unwrap().len(), 0);
        let uid = "0d2f6e8a-8a3c-4b3c-9d57-2f4f3f0c9c11";
        let kubelet = tempfile::tempdir().unwrap();
        let bind = point(kubelet.path(), &format!("pods/{uid}/volumes/local"));
        mount_bind(at.as_str(), bind.as_str()).unwrap();
        let users = users::of(at).unwrap();
        assert_eq!(users.iter().collect::<Vec<_>>(), [&format!("the pod {uid}")]);
        let expected = format!("it is unmounted once nothing uses it: in use by the pod {uid}");
        assert_eq!(users::in_words(&users), expected);
        unmounted(&bind);
        // A container with the volume, and one that only sees its folder.
        let other = tempfile::tempdir().unwrap();
        let script = format!("mount --bind {at} {} && echo ready && cat", other.path().display());
        for (script, count) in [(script.as_str(), 1), ("echo ready && cat", 0)] {
            let mut container = Command::new("/usr/bin/unshare")
                .args(["--mount", "--propagation", "private", "sh", "-c", script])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut ready = [0; 6];
            std::io::Read::read_exact(container.stdout.as_mut().unwrap(), &mut ready).unwrap();
            assert_eq!(users::of(at).unwrap().len(), count, "{script}");
            drop(container.stdin.take());
            assert!(container.wait().unwrap().success());
        }
        assert!(users::of("/nowhere").is_err());
    });
}
