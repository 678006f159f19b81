//! Wakes PID 1 when another program changes what [`settings`](super::settings) has set: files below
//! `/run` through inotify(7), and the host name and the mounts through files below `/proc`, on
//! which the kernel reports each change with `POLLPRI`.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use osbuild_abi::paths::{NTP_SERVERS, RESOLV_CONF};
use osbuild_failure::{Explain, Outcome};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// The file of the host name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// The table of mounts.
const MOUNTS: &str = "/proc/self/mountinfo";
/// The files below `/run`.
const FILES: [&str; 2] = [RESOLV_CONF, NTP_SERVERS];

/// What reports the changes.
pub struct Watch {
    files: OwnedFd,
    host_name: OwnedFd,
    mounts: OwnedFd,
}

impl Watch {
    /// Begins to watch. The folders of the files have to exist.
    pub fn start() -> Outcome<Watch> {
        let files = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .explain("watch files for changes")?;
        // The folders, as files are replaced.
        let changes =
            WatchFlags::MODIFY | WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM | WatchFlags::DELETE;
        for folder in FILES.iter().filter_map(|file| Path::new(file).parent()) {
            inotify::add_watch(&files, folder, changes)
                .explain(format_args!("watch {}", folder.display()))?;
        }
        let open = |path| File::open(path).explain(format_args!("open {path}"));
        Ok(Watch { files, host_name: open(HOST_NAME)?.into(), mounts: open(MOUNTS)?.into() })
    }

    /// What to wait for.
    pub fn polled(&self) -> [PollFd<'_>; 3] {
        [
            PollFd::new(&self.files, PollFlags::IN),
            PollFd::new(&self.host_name, PollFlags::PRI),
            PollFd::new(&self.mounts, PollFlags::PRI),
        ]
    }

    /// Takes the reports, so that the next wait is for later changes.
    pub fn clear(&self) {
        let mut events = [0; 4096];
        while rustix::io::read(&self.files, &mut events).is_ok_and(|length| length > 0) {}
    }
}
