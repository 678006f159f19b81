//! Texts that the kernel, the firmware or the builder write and the node reads: the table of
//! mounts, with names from pods, files about a process, the command line, the list of pods, states
//! of static pods and of volumes, swap areas, a firmware variable, lines of daemons; and what a
//! person types at a console.

use std::os::unix::ffi::OsStrExt;

use init::console_command::Command;
use init::{daemon_line, mountinfo, process, swaps, variable};
use osbuild_abi::{cmdline, pods};
use osbuild_protocol::{PodState, Setting, SwapState, SystemImageState, VolumeState};

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target = Target { name: "node_text", seeds, run, memory: Memory::per_byte(64) };

fn run(input: &[u8]) -> Outcome {
    mount_points(input);
    swaps::used(input, "/dev/zram0");
    process::start(input);
    assert_eq!(variable::is_one(input), matches!(input, [_, _, _, _, 1]));
    let Ok(text) = str::from_utf8(input) else { return Outcome::Refused };
    swaps::memory(text);
    assert!(daemon_line::source(text).len() <= text.len() + 1);
    let groups = process::control_group(text).unwrap_or(text);
    assert!(process::pod(groups).is_none_or(|uid| uid.len() >= 32 && groups.contains(uid)));
    for key in [cmdline::EPOCH, cmdline::MIN_RAM_MIB] {
        let found = cmdline::value(text, key);
        let last = text.split_ascii_whitespace().rfind(|word| word.starts_with(&format!("{key}=")));
        assert_eq!(found.map(|value| format!("{key}={value}")).as_deref(), last);
    }
    for pod in pods::parse(text) {
        assert!(!pod.name.is_empty() && !pod.name.contains([' ', '\n']), "{:?}", pod.name);
        assert!(pod.containers().all(|name| !name.is_empty()));
    }
    if let Some(state) = PodState::decode(text) {
        assert_eq!(PodState::decode(&state.encode()), Some(state));
    }
    if let Some(state) = VolumeState::parse(text) {
        assert_eq!(
            VolumeState::parse(&state.to_string()).map(|again| again.phase),
            Some(state.phase)
        );
    }
    if let Some(state) = SystemImageState::parse(text) {
        assert_eq!(SystemImageState::parse(&state.to_string()), Some(state));
    }
    if let Some(state) = SwapState::parse(text) {
        assert_eq!(SwapState::parse(&state.to_string()), Some(state));
    }
    if let Ok(Command::Address(settings)) = Command::parse(text) {
        assert!(settings.iter().all(|one| Setting::parse(&one.line()).as_ref() == Ok(one)));
    }
    Outcome::Accepted
}

/// Any table can be read, and a mount point of any name is found.
fn mount_points(input: &[u8]) {
    mountinfo::above_root(input);
    mountinfo::entries(input);
    let name: Vec<u8> = input.iter().copied().filter(|byte| *byte != 0).collect();
    let path = [b"/data/x", name.as_slice()].concat();
    let table = [b"1 0 0:1 / ", escaped(&path).as_slice(), b" rw - tmpfs tmpfs rw\n"].concat();
    let found = mountinfo::above_root(&table);
    assert!(matches!(found.as_slice(), [only] if only.as_os_str().as_bytes() == path), "{found:?}");
}

/// A path as the kernel writes it (`mangle_path` with the characters of `show_mountinfo`).
fn escaped(path: &[u8]) -> Vec<u8> {
    path.iter()
        .flat_map(|byte| {
            if b" \t\n\\".contains(byte) {
                format!("\\{byte:03o}").into_bytes()
            } else {
                vec![*byte]
            }
        })
        .collect()
}

fn seeds() -> Vec<Vec<u8>> {
    vec![
        b"console=ttyS0 osbuild.epoch=1790000000 osbuild.min-ram-mib=2048 gpt quiet\n".to_vec(),
        b"mounted device=nvme1n1 bytes=1073741824".to_vec(),
        b"/dev/zram0 partition 524284 1280 -2\n".to_vec(),
        b"address eth0 2001:db8::7/64 fe80::1\n".to_vec(),
        b"bytes=536870912 used=1048576 memory=4096".to_vec(),
        b"web running=0 restarts=3 reason=ErrImagePull message=not%20found".to_vec(),
        b"dhcp dhcp\ntime time\nweb nginx side\n".to_vec(),
        b"7 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20\n".to_vec(),
        b"0::/kubepods/pod0f3bd76e-8c3f-4d5e-9a51-7b0f5f8f2a11/1\n".to_vec(),
        b"4 1 8:1 / /data rw - ext4 /dev/sda4 rw\n\
          6 5 0:9 / /var/lib/a\\040b rw shared:1 - tmpfs tmpfs rw\n"
            .to_vec(),
        vec![6, 0, 0, 0, 1],
    ]
}
