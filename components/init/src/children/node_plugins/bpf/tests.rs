use super::*;
use crate::sys::bpf::test_program::{self, DEVICE, XDP as XDP_PROGRAM};
use crate::sys::own_mounts;
use rustix::mount::{MountFlags, mount};
use serde_json::Value;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::thread;

/// The program with this name.
fn of<'p>(programs: &'p BpfPrograms, name: &str) -> Option<&'p BpfProgram> {
    programs.programs.iter().find(|program| program.name == name)
}

/// The report of `bpftool` about the program with this name.
fn by_bpftool(name: &str) -> Value {
    let output = Command::new("bpftool").args(["prog", "list", "--json"]).output().unwrap();
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    all.into_iter().find(|program| program["name"] == name).unwrap()
}

#[test]
fn bpftool_reports_the_same_of_a_program() {
    let nowhere = Path::new("/nowhere");
    let program = test_program::load(XDP_PROGRAM, "osbuild_same").unwrap();
    let found = programs(nowhere).unwrap();
    let ours = of(&found, "osbuild_same").unwrap();
    let theirs = by_bpftool("osbuild_same");
    assert_eq!(ours.program_type, theirs["type"]);
    assert_eq!(format!("{:016x}", ours.tag), theirs["tag"]);
    let number = |key: &str| theirs[key].as_u64().unwrap();
    assert_eq!(u64::from(ours.id), number("id"));
    assert_eq!(u64::from(ours.uid), number("uid"));
    assert_eq!(u64::from(ours.translated_bytes), number("bytes_xlated"));
    assert_eq!(u64::from(ours.jited_bytes), theirs["bytes_jited"].as_u64().unwrap_or_default());
    // `bpftool` shows the time of day.
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let age = Duration::try_from(since_boot).unwrap() - ours.loaded;
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    assert!((now - age).as_secs().abs_diff(number("loaded_at")) <= 2);
    assert_eq!((ours.target_count, ours.maps.len(), ours.runs), (0, 0, 0));
    drop(program);
    // A program stays for as long as another process or test that lists programs has it open.
    let goes = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(50));
        of(&programs(nowhere).unwrap(), "osbuild_same").is_none()
    });
    assert!(goes, "a program that nothing holds is listed after 5 s");
}

#[test]
fn a_program_has_the_control_groups_and_network_links_that_it_is_attached_to() {
    own_mounts().expect("these tests require uid 0 and CAP_SYS_ADMIN");
    let root = tempfile::tempdir().unwrap();
    mount("none", root.path(), "cgroup2", MountFlags::empty(), None).unwrap();
    let parent = root.path().join(format!("osbuild-{}", std::process::id()));
    let group = parent.join("pod");
    fs::create_dir_all(&group).unwrap();
    let name = format!("cgroup /osbuild-{}", std::process::id());
    let filter = test_program::load(DEVICE, "osbuild_filter").unwrap();
    test_program::attach(filter.as_fd(), File::open(&group).unwrap()).unwrap();
    let opened = File::open(&parent).unwrap();
    let link = test_program::link(filter.as_fd(), opened.as_raw_fd(), DEVICE.1).unwrap();
    let xdp = test_program::load(XDP_PROGRAM, "osbuild_xdp").unwrap();
    let found = programs(root.path()).unwrap();
    let filter = of(&found, "osbuild_filter").unwrap();
    let expected = [name.clone(), format!("{name}/pod")];
    assert_eq!((filter.target_count, &filter.targets[..]), (2, &expected[..]));
    assert_eq!(filter.program_type, "cgroup_device");
    // Programs that act on packets come first.
    let places = ["osbuild_xdp", "osbuild_filter"]
        .map(|name| found.programs.iter().position(|program| program.name == name));
    assert!(places[0] < places[1]);
    drop((link, xdp));
    for folder in [group, parent] {
        fs::remove_dir(folder).unwrap();
    }
}

#[test]
fn a_link_of_xdp_has_the_name_of_its_network_link() {
    let groups = BTreeMap::new();
    assert_eq!(target(6, [1, 0, 0, 0], &groups), "xdp lo");
    assert_eq!(target(11, [1, 46, 0, 0], &groups), "tcx-ingress lo");
    assert_eq!(target(13, [u32::MAX, 55, 0, 0], &groups), "netkit-peer 4294967295");
    assert_eq!(target(3, [7, 1, 0, 0], &groups), "cgroup 4294967303");
    assert_eq!(target(99, [0; 4], &groups), "99");
}
