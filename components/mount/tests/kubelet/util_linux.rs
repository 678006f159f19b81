//! Runs the same command lines with util-linux and with our programs, in two equal namespaces. Exit
//! codes, messages and the resulting mounts must be the same.

use crate::loops::{self, Attached};
use crate::namespace::{Programs, private};
use crate::table;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// More lines than the kubelet's own: options that users may set in `mountOptions`, and every
/// message that they may see.
const SCENES: &[&[&str]] = &[
    // One command where the kubelet runs two: util-linux makes the second system call itself.
    &["mount -o bind,ro,nosuid W/dir W/target"],
    &["mount -t tmpfs tmpfs W/dir/below", "mount -o bind W/dir W/target"],
    &[
        "mount -t tmpfs tmpfs W/dir/below",
        "mount -o rbind,ro W/dir W/target",
        "umount W/target",
        "umount W/target/below",
    ],
    &["mount -o bind,rshared W/dir W/target", "mount -o bind,slave W/target W/other"],
    &["mount -t tmpfs -o private,size=4k,mode=0700,dirsync,sync,noatime,nodiratime,noexec \
         tmpfs W/target"],
    &["mount -t tmpfs -o ro,rw,noexec,exec,strictatime,lazytime,nosymfollow tmpfs W/target"],
    &[
        "mount -t tmpfs tmpfs W/target",
        "mount -o remount,ro,size=8k tmpfs W/target",
        "mount -o remount,rw tmpfs W/target",
    ],
    &[
        "mount -t tmpfs tmpfs W/target",
        "mount -o bind,remount,ro,nodev,noexec tmpfs W/target",
        "umount W/target",
    ],
    &["mount -t tmpfs -o _netdev,defaults,nofail,noauto,x-note,comment=c tmpfs W/target"],
    &[
        "mount -t tmpfs tmpfs W/target",
        "mount -t tmpfs other W/target",
        "umount W/target",
        "umount W/target",
        "umount W/target",
    ],
    &["mount -o bind W/dir/file W/file", "umount W/file"],
    // A device, by name and by symbolic link, with and without its type.
    &["mount -t ext4 -o ro,noatime DEVICE W/target", "umount W/target"],
    &[
        "mount -t ext4 -o ro DEVICE W/target",
        "mount -o bind,ro W/target W/other",
        "umount W/target",
        "umount W/other",
    ],
    &["mount -o ro DEVICE W/target"],
    &["mount -t auto -o ro DEVICE W/target"],
    &["mount -o ro LINK W/target"],
    &["mount -t ext4 -o ro LINK W/target"],
    // A write-protected device.
    &[
        "mount -t ext4 PROTECTED W/target",
        "mount -o remount,rw PROTECTED W/target",
        "mount -o bind,remount,rw PROTECTED W/target",
    ],
    &["mount -t ext4 -o rw PROTECTED W/target"],
    &["mount -t ext4 -o ro PROTECTED W/target"],
    &["mount PROTECTED W/target"],
    // Refused by the kernel.
    &["mount -t ext4 -o no-such-option DEVICE W/target"],
    &["mount -t squashfs DEVICE W/target"],
    &["mount -t ext4 W/dir/file W/nowhere"],
    &["mount -t ext4 W/nowhere W/target"],
    &["mount -t ext4 W/dir/file/x W/target"],
    &["mount -t unheard-of none W/target"],
    &["mount -t nfs4 -o vers=4 server:/x W/target"],
    &["mount -t cifs //server/x W/target"],
    &["mount -t tmpfs -o no-such-option tmpfs W/target"],
    &["mount -t tmpfs tmpfs W/nowhere"],
    &["mount -t tmpfs tmpfs W/dangling"],
    &["mount -t tmpfs tmpfs W/file"],
    &["mount -o bind W/nowhere W/target"],
    &["mount -o bind W/dir W/nowhere"],
    &["mount -o bind W/dir W/file"],
    &["mount -o bind W/file W/dir"],
    &["mount -o bind W/dir/file/x W/target"],
    &["mount -o bind,remount,ro W/dir W/target"],
    &["mount -o remount,ro W/dir W/target"],
    &["mount W/dir W/target"],
    // Unmounting.
    &["umount W/target"],
    &["umount W/file"],
    &["umount W/nowhere"],
    &["umount W/dir/file/x"],
    &["umount -f W/target"],
    &[
        "mount -t tmpfs tmpfs W/target",
        "mount -t tmpfs tmpfs W/link",
        "umount W/link",
        "umount W/target",
    ],
    &["mount -o bind W/dir W/target", "mount -t tmpfs tmpfs W/target/below", "umount W/target"],
    // Loop devices: of a device, by name and by symbolic link, of a write-protected one, of a file.
    &["losetup -f DEVICE", "losetup -d LOOP"],
    &["losetup -f LINK", "losetup -d LOOP", "losetup -d LOOP"],
    &["mount -o bind PROTECTED W/file", "losetup -f W/file", "losetup -d LOOP"],
    &["losetup -f W/image", "losetup -f W/image"],
    &["losetup -f W/nowhere"],
    &["losetup -f W/dir"],
    &["losetup -f W/file/x"],
    &["losetup -f W/fifo"],
    &["losetup -f /dev/null"],
    &["losetup -d /dev/loop1048575"],
];

/// A symbolic link to the device. It is below `/dev`, as are those that udev makes.
const LINK: &str = "/dev/shm/link";

/// The observable results of a scene.
#[derive(Debug, PartialEq, Eq)]
struct Observed {
    /// Exit code and message of each line.
    outputs: Vec<(Option<i32>, String)>,
    /// The mounts below the folder, as in `/proc/self/mountinfo` without its numbers.
    mounts: Vec<String>,
    /// The loop devices that are attached after each line.
    loops: Vec<Vec<String>>,
}

#[test]
fn util_linux_agrees_on_every_call_of_the_kubelet() {
    let scenes: Vec<Vec<String>> = table::calls().call.into_iter().map(|call| call.lines).collect();
    agree(&scenes);
}

#[test]
fn util_linux_agrees_on_users_options_and_on_every_failure() {
    let scenes: Vec<Vec<String>> =
        SCENES.iter().map(|scene| scene.iter().map(|line| line.to_string()).collect()).collect();
    agree(&scenes);
}

fn agree(scenes: &[Vec<String>]) {
    let devices = [Device::new(&[]), Device::new(&["--read-only"])];
    let mut differences = String::new();
    for lines in scenes {
        let folder = tempfile::tempdir().unwrap();
        let [ours, theirs] = [Programs::Ours, Programs::UtilLinux].map(|programs| {
            private(folder.path(), || play(lines, folder.path(), &devices, programs))
        });
        if ours != theirs {
            differences += &format!("{lines:#?}\nours: {ours:#?}\nutil-linux: {theirs:#?}\n");
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

fn play(lines: &[String], folder: &Path, devices: &[Device; 2], programs: Programs) -> Observed {
    let [device, protected] = devices;
    let held = furnish(folder, device);
    let attached = || loops::attached(folder, &[&device.path, &protected.path]);
    let (mut latest, mut listed) = (String::new(), Vec::new());
    let outputs = lines.iter().map(|line| {
        let line =
            line.replace("FD", &format!("/proc/{}/fd/{}", std::process::id(), held.as_raw_fd()));
        let line = line
            .replace("DEVICE", &device.path)
            .replace("LINK", LINK)
            .replace("LOOP", &latest)
            .replace("PROTECTED", &protected.path);
        let output = programs.run(&line.replace("W/", &format!("{}/", folder.display())));
        assert!(output.stdout.is_empty());
        let now = attached();
        if let Some(newest) = now.last() {
            latest.clone_from(&newest.name);
        }
        listed.push(now.iter().map(Attached::describe).collect());
        (output.status.code(), message(&output.stderr))
    });
    let outputs = outputs.collect();
    let observed = Observed { outputs, mounts: mounts(folder), loops: listed };
    attached().iter().for_each(Attached::detach);
    clear(folder);
    observed
}

/// The message, without util-linux's second line about dmesg(1), which the node does not have.
fn message(stderr: &[u8]) -> String {
    let text = String::from_utf8(stderr.to_vec()).unwrap();
    text.lines().filter(|line| !line.contains("dmesg(1)")).collect()
}

/// Mount point, root, flags, propagation, type, source and file system options of each mount below
/// `folder`.
fn mounts(folder: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    let below = format!("{}/", folder.display());
    let mut shared = Vec::new();
    table
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|fields| fields[4].starts_with(&below))
        .map(|fields| {
            let mut fields = fields[3..].join(" ");
            for group in groups(&fields) {
                // The numbers of peer groups differ between runs.
                let place = shared.iter().position(|known| *known == group).unwrap_or_else(|| {
                    shared.push(group.clone());
                    shared.len() - 1
                });
                fields = fields.replace(&format!(":{group} "), &format!(":#{place} "));
            }
            fields
        })
        .collect()
}

fn groups(fields: &str) -> Vec<String> {
    let numbers = fields
        .split(' ')
        .filter_map(|field| field.strip_prefix("shared:").or(field.strip_prefix("master:")));
    numbers.map(str::to_owned).collect()
}

/// Unmounts everything now. The end of the namespace would do so too, but too late for the next run
/// to use the device.
fn clear(folder: &Path) {
    let below = format!("{}/", folder.display());
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    for target in table
        .lines()
        .rev()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|path| path.starts_with(&below))
    {
        unmount(target, UnmountFlags::empty()).unwrap();
    }
}

/// A loop device with an ext4 file system.
pub struct Device {
    /// Its path.
    pub path: String,
    _image: tempfile::NamedTempFile,
}

impl Device {
    /// Attaches a new image with these flags of `losetup`.
    pub fn new(flags: &[&str]) -> Device {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(8 << 20).unwrap();
        run(Command::new("/sbin/mke2fs").args(["-q", "-t", "ext4"]).arg(image.path()));
        let path = run(Command::new("/sbin/losetup")
            .args(["--find", "--show"])
            .args(flags)
            .arg(image.path()));
        Device { path: path.trim().to_owned(), _image: image }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        run(Command::new("/sbin/losetup").args(["--detach", &self.path]));
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Creates the folder's contents, and returns `W/dir`, open.
fn furnish(folder: &Path, device: &Device) -> File {
    for name in ["dir", "dir/below", "target", "other"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    for name in ["file", "dir/file"] {
        File::create(folder.join(name)).unwrap();
    }
    File::create(folder.join("image")).unwrap().set_len(1 << 20).unwrap();
    run(Command::new("mkfifo").arg(folder.join("fifo")));
    symlink("nowhere", folder.join("dangling")).unwrap();
    symlink("target", folder.join("link")).unwrap();
    mount::<_, _, _, Option<&CStr>>(
        "links",
        Path::new(LINK).parent().unwrap(),
        "tmpfs",
        MountFlags::empty(),
        None,
    )
    .unwrap();
    symlink(&device.path, LINK).unwrap();
    File::open(folder.join("dir")).unwrap()
}
