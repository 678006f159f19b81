//! Real mounts, each test in a mount namespace of its own. They need root.

use super::*;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use rustix::fs::statvfs;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, mount_remount, unmount,
};

use crate::sys::own_mounts;

const NOW: Duration = Duration::from_secs(100);
const TARGET: &str = "/run/mnt/a";

/// Runs a test on a thread where `/run`, `/tmp` and `/srv` are as on a node.
fn on_a_node(work: impl FnOnce(&mut MountSettings) + Send) {
    let inside = || {
        own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        for path in ["/run", "/tmp", "/srv"] {
            mount("node", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None).unwrap();
        }
        work(&mut MountSettings::default());
    };
    let ended = std::thread::scope(|scope| scope.spawn(inside).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn lists() -> Lists {
    let allowed = "/run/mnt\n".to_owned();
    Lists { allowed, declared: "/srv 755 noexec data srv\n".to_owned() }
}

fn wanted(line: &str) -> Mount {
    match Setting::parse(&format!("mount {line}")) {
        Ok(Setting::Mount(mount)) => mount,
        other => panic!("{line}: {other:?}"),
    }
}

fn apply(mounts: &mut MountSettings, line: &str) {
    mounts.apply(Source::Api, &wanted(line), &lists(), NOW).unwrap();
}

fn withdraw(mounts: &mut MountSettings, target: &str) {
    mounts.withdraw(Source::Api, &MountPath::parse(target).unwrap(), NOW);
}

/// The value on the host and the error of each mount.
fn observed(mounts: &MountSettings) -> Vec<(String, String)> {
    mounts.observe().map(|one| (one.current, one.error)).collect()
}

fn is(current: &str, error: &str) -> Vec<(String, String)> {
    vec![(current.to_owned(), error.to_owned())]
}

/// The options in the kernel's table of what is on top there, without that of access times.
fn shown(path: &str) -> Option<String> {
    let options = top(&kernel::table().unwrap(), path)?.options.clone();
    Some(options.replace(",relatime", ""))
}

fn unmount_behind(path: &str) {
    unmount(path, UnmountFlags::empty()).unwrap();
}

#[test]
fn a_tmpfs_is_mounted_without_set_user_id_bits_devices_and_programs() {
    on_a_node(|mounts| {
        apply(mounts, "/run/mnt/a tmpfs scratch");
        assert_eq!(observed(mounts), is("tmpfs scratch", ""));
        assert_eq!(shown(TARGET).unwrap(), "rw,nosuid,nodev,noexec");
        let room = statvfs(TARGET).unwrap();
        assert_eq!(room.f_blocks * room.f_frsize, 64 << 20);
        withdraw(mounts, TARGET);
        assert_eq!((observed(mounts), shown(TARGET)), (vec![], None));
    });
}

#[test]
fn another_size_and_other_options_keep_the_files() {
    on_a_node(|mounts| {
        apply(mounts, "/run/mnt/a tmpfs scratch");
        fs::write("/run/mnt/a/file", "kept").unwrap();
        apply(mounts, "/run/mnt/a tmpfs scratch ro,exec,size=1m");
        assert_eq!(shown(TARGET).unwrap(), "ro,nosuid,nodev");
        let room = statvfs(TARGET).unwrap();
        assert_eq!(room.f_blocks * room.f_frsize, 1 << 20);
        assert_eq!(fs::read_to_string("/run/mnt/a/file").unwrap(), "kept");
        apply(mounts, "/run/mnt/a tmpfs scratch");
        assert_eq!(shown(TARGET).unwrap(), "rw,nosuid,nodev,noexec");
    });
}

#[test]
fn what_another_program_unmounts_or_changes_is_as_before_again() {
    on_a_node(|mounts| {
        apply(mounts, "/run/mnt/a tmpfs scratch");
        assert!(mounts.hold(NOW).is_empty());
        unmount_behind(TARGET);
        let line = "another program unmounted `/run/mnt/a`, it is mounted again";
        assert_eq!(mounts.hold(NOW), [line]);
        assert_eq!(shown(TARGET).unwrap(), "rw,nosuid,nodev,noexec");
        mount_remount(TARGET, MountFlags::BIND, "").unwrap();
        assert_eq!(shown(TARGET).unwrap(), "rw");
        let lines = mounts.hold(NOW);
        assert!(lines[0].starts_with("another program changed `/run/mnt/a` to `rw,relatime`"));
        assert_eq!(shown(TARGET).unwrap(), "rw,nosuid,nodev,noexec");
        assert_eq!(observed(mounts), is("tmpfs scratch", ""));
    });
}

#[test]
fn a_mount_in_use_is_unmounted_once_it_is_free() {
    on_a_node(|mounts| {
        apply(mounts, "/run/mnt/a tmpfs scratch");
        let file = fs::File::create("/run/mnt/a/file").unwrap();
        withdraw(mounts, TARGET);
        let [(current, error)] = &observed(mounts)[..] else { panic!("it is still mounted") };
        assert_eq!(current, "tmpfs scratch");
        assert!(error.starts_with("unmount `/run/mnt/a`: "), "{error}");
        assert_eq!(mounts.hold(NOW).len(), 1);
        assert!(mounts.hold(NOW).is_empty(), "the console has the error already");
        drop(file);
        assert_eq!(mounts.deadline(), Some(NOW + INTERVAL));
        mounts.hold(NOW + INTERVAL);
        assert_eq!((shown(TARGET), mounts.deadline()), (None, None));
    });
}

#[test]
fn a_mount_of_another_program_stays_and_is_reported() {
    on_a_node(|mounts| {
        fs::create_dir_all(TARGET).unwrap();
        let foreign = || mount("theirs", TARGET, "tmpfs", MountFlags::empty(), None).unwrap();
        foreign();
        apply(mounts, "/run/mnt/a tmpfs scratch");
        assert_eq!(observed(mounts), is("", "another program has mounted at `/run/mnt/a`"));
        unmount_behind(TARGET);
        mounts.hold(NOW);
        assert_eq!(observed(mounts), is("tmpfs scratch", ""));
        foreign();
        mounts.hold(NOW);
        withdraw(mounts, TARGET);
        let error = "another program has mounted over `/run/mnt/a`";
        assert_eq!(observed(mounts), is("tmpfs scratch", error));
        unmount_behind(TARGET);
        mounts.hold(NOW);
        assert_eq!(shown(TARGET), None);
    });
}

#[test]
fn no_symbolic_link_leads_a_mount_elsewhere() {
    on_a_node(|mounts| {
        fs::create_dir_all("/run/mnt").unwrap();
        fs::create_dir_all("/run/osbuild/a").unwrap();
        symlink("/run/osbuild", "/run/mnt/link").unwrap();
        symlink("/run/osbuild/a", "/run/mnt/b").unwrap();
        for target in ["/run/mnt/link/a", "/run/mnt/b"] {
            apply(mounts, &format!("{target} tmpfs scratch"));
            let [(current, error)] = &observed(mounts)[..] else { panic!("one mount") };
            assert_eq!(current, "");
            assert!(error.starts_with(&format!("mount at `{target}`: ")), "{error}");
            withdraw(mounts, target);
        }
        assert_eq!(shown("/run/osbuild/a"), None);
        // A link takes the place of a folder above a mount.
        apply(mounts, "/run/mnt/c/a tmpfs scratch");
        fs::rename("/run/mnt/c", "/run/mnt/d").unwrap();
        mount("theirs", "/run/osbuild/a", "tmpfs", MountFlags::empty(), None).unwrap();
        symlink("/run/osbuild", "/run/mnt/c").unwrap();
        withdraw(mounts, "/run/mnt/c/a");
        assert!(shown("/run/osbuild/a").is_some(), "the other mount stays");
    });
}

#[test]
fn a_folder_of_the_recipe_is_shown_elsewhere() {
    on_a_node(|mounts| {
        fs::write("/srv/file", "shown").unwrap();
        apply(mounts, "/run/mnt/a bind /srv ro");
        assert_eq!(observed(mounts), is("bind /srv ro", ""));
        assert_eq!(shown(TARGET).unwrap(), "ro,nosuid,nodev,noexec");
        assert_eq!(fs::read_to_string("/run/mnt/a/file").unwrap(), "shown");
        assert_eq!(shown("/srv").unwrap(), "rw,nosuid,nodev");
        apply(mounts, "/run/mnt/a tmpfs scratch");
        assert!(!fs::exists("/run/mnt/a/file").unwrap());
        withdraw(mounts, TARGET);
        assert_eq!(fs::metadata(TARGET).unwrap().mode() & 0o7777, 0o755);
    });
}

#[test]
fn the_images_own_mount_is_neither_made_nor_removed() {
    on_a_node(|mounts| {
        let count = || kernel::table().unwrap().len();
        let before = count();
        apply(mounts, "/tmp tmpfs tmpfs");
        assert_eq!(observed(mounts), is("tmpfs tmpfs", ""));
        withdraw(mounts, "/tmp");
        assert_eq!((observed(mounts), count()), (vec![], before));
    });
}

#[test]
fn a_request_outranks_the_document_which_is_back_when_it_goes() {
    on_a_node(|mounts| {
        let document = wanted("/run/mnt/a tmpfs document");
        mounts.apply(Source::Document, &document, &lists(), NOW).unwrap();
        apply(mounts, "/run/mnt/a tmpfs api ro");
        mounts.apply(Source::Document, &document, &lists(), NOW).unwrap();
        assert_eq!(observed(mounts), is("tmpfs api ro", ""));
        withdraw(mounts, TARGET);
        assert_eq!(observed(mounts), is("tmpfs document", ""));
        assert_eq!(mounts.of(Source::Api).count(), 0);
    });
}

#[test]
fn mounts_are_few_and_do_not_overlap() {
    on_a_node(|mounts| {
        for number in 1..=MAX_MOUNTS {
            apply(mounts, &format!("/run/mnt/{number} tmpfs scratch"));
        }
        let refused = |mounts: &mut MountSettings, target: &str| {
            let mount = wanted(&format!("{target} tmpfs scratch"));
            mounts.apply(Source::Api, &mount, &lists(), NOW).unwrap_err().reason
        };
        assert_eq!(refused(mounts, TARGET), "there are 16 mounts already");
        for target in ["/run/mnt/1/a", "/run/mnt"] {
            let expected = format!("`{target}` overlaps with the mount at `/run/mnt/1`");
            assert_eq!(refused(mounts, target), expected);
        }
        assert_eq!(mounts.held.len(), MAX_MOUNTS);
    });
}
