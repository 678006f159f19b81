//! Wakes PID 1 when another program changes what [`settings`](super::settings) has set, or the
//! kernel finds a disk: files below `/run` and `/dev` through inotify(7), and the host name, the
//! mounts and the swap through files below `/proc`, on which the kernel reports each change with
//! `POLLPRI`.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use osbuild_abi::paths::{
    CONTROL_PLANE, JOIN_CA, KUBELET_CONFIGURATIONS, NTP_SERVERS, PROXY_ENVIRONMENT, REGISTRIES,
    RESOLV_CONF, SECCOMP_PROFILES, STATIC_PODS, TRUSTED_ROOTS,
};
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::MAX_REGISTRIES;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::run_files;
use super::swap_settings::SWAPS;

/// The file of the host name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// The table of mounts.
const MOUNTS: &str = "/proc/self/mountinfo";
/// The files below `/run`.
const FILES: [&str; 2] = [RESOLV_CONF, NTP_SERVERS];
/// The folder in which the kernel makes a file for each new disk.
const DEVICES: &str = "/dev";

/// The changes in a folder.
const CHANGES: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::DELETE);
/// The same, and new entries.
const NEW_AND_CHANGES: WatchFlags = CHANGES.union(WatchFlags::CREATE);
/// How often reports are read in a turn. Those of a program that never pauses stay for the next
/// one.
const MAX_READS: usize = 16;
/// The maximum number of folders of registries: those that `init` has made, and as many of others.
const MAX_WATCHED: usize = 2 * MAX_REGISTRIES;

/// The descriptors on which the kernel reports the changes.
pub struct Watch {
    files: OwnedFd,
    host_name: OwnedFd,
    mounts: OwnedFd,
    /// A kernel without swap does not have it.
    swaps: Option<OwnedFd>,
}

impl Watch {
    /// Begins to watch. The folders of the files have to exist.
    pub fn start() -> Outcome<Watch> {
        let files = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .explain("watch files for changes")?;
        // The folders, as files are replaced.
        for folder in FILES.iter().filter_map(|file| Path::new(file).parent()) {
            inotify::add_watch(&files, folder, CHANGES)
                .explain(format_args!("watch {}", folder.display()))?;
        }
        inotify::add_watch(&files, DEVICES, WatchFlags::CREATE | WatchFlags::DELETE)
            .explain(format_args!("watch {DEVICES}"))?;
        for folder in folders() {
            run_files::folder(folder).explain(format_args!("create {folder}"))?;
            inotify::add_watch(&files, folder, NEW_AND_CHANGES)
                .explain(format_args!("watch {folder}"))?;
        }
        let open = |path| File::open(path).explain(format_args!("open {path}"));
        let (host_name, mounts) = (open(HOST_NAME)?.into(), open(MOUNTS)?.into());
        Ok(Watch { files, host_name, mounts, swaps: File::open(SWAPS).ok().map(OwnedFd::from) })
    }

    /// The descriptors to poll, each with its event.
    pub fn polled(&self) -> Vec<PollFd<'_>> {
        let of_proc = [&self.host_name, &self.mounts].into_iter().chain(&self.swaps);
        let of_proc = of_proc.map(|file| PollFd::new(file, PollFlags::PRI));
        std::iter::once(PollFd::new(&self.files, PollFlags::IN)).chain(of_proc).collect()
    }

    /// Takes the reports, so that the next wait is for later changes, or for the rest of very many.
    pub fn clear(&self) {
        take_reports(&self.files);
        self.watch_registries();
    }

    /// Watches the folders that another program may have replaced, and `init` has made again. A
    /// second watch of a folder changes nothing.
    pub fn watch_again(&self) {
        for folder in folders() {
            // One that is missing could not be made: that is on the console.
            let _ = inotify::add_watch(&self.files, folder, NEW_AND_CHANGES);
        }
    }

    /// Watches the folder of each registry, which an event has reported before. A second watch of a
    /// folder changes nothing.
    fn watch_registries(&self) {
        let folders = std::fs::read_dir(REGISTRIES).into_iter().flatten().flatten();
        let flags = CHANGES | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW;
        for folder in folders.take(MAX_WATCHED) {
            // One that is gone has been reported, too.
            let _ = inotify::add_watch(&self.files, folder.path(), flags);
        }
    }
}

/// The folders below `/run` whose files `init` writes.
fn folders() -> impl Iterator<Item = &'static str> {
    let parents = [JOIN_CA, PROXY_ENVIRONMENT, TRUSTED_ROOTS].map(Path::new).map(Path::parent);
    let parents = parents.into_iter().flatten().filter_map(Path::to_str);
    let own = [CONTROL_PLANE, KUBELET_CONFIGURATIONS, REGISTRIES, SECCOMP_PROFILES, STATIC_PODS];
    own.into_iter().chain(parents)
}

fn take_reports(files: &OwnedFd) {
    let mut events = [0; 4096];
    for _ in 0..MAX_READS {
        let Ok(1..) = rustix::io::read(files, &mut events) else { break };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_changes_files_without_end_does_not_hold_up_the_loop() {
        let folder = tempfile::tempdir().unwrap();
        let files = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&files, folder.path(), WatchFlags::CREATE).unwrap();
        // Each report has 32 bytes.
        for number in 0..MAX_READS * 4096 / 32 + 1 {
            File::create(folder.path().join(number.to_string())).unwrap();
        }
        let is_readable = || {
            let mut polled = [PollFd::new(&files, PollFlags::IN)];
            rustix::event::poll(&mut polled, Some(&Default::default())).unwrap() > 0
        };
        take_reports(&files);
        assert!(is_readable());
        take_reports(&files);
        assert!(!is_readable());
    }
}
