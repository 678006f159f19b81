//! A file that a client sends with its request.
//!
//! Closing a file may block: one on FUSE or NFS waits for its server, which the client may control.
//! So PID 1 keeps files in memory only, and a thread closes any other.

use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use rustix::fs::fcntl_get_seals;

/// How many threads may close files at a time. Further files stay open.
const MAX_THREADS: usize = 8;

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Returns a file in memory (memfd_create(2), tmpfs), and closes any other without blocking.
pub fn in_memory(file: OwnedFd) -> Option<OwnedFd> {
    if fcntl_get_seals(&file).is_ok() {
        return Some(file);
    }
    close_in_thread(file);
    None
}

fn close_in_thread(file: OwnedFd) {
    // Without a thread the file stays open.
    let file = ManuallyDrop::new(file);
    let has_room = |threads| (threads < MAX_THREADS).then_some(threads + 1);
    if THREADS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, has_room).is_err() {
        return;
    }
    let close = move || {
        drop(ManuallyDrop::into_inner(file));
        THREADS.fetch_sub(1, Ordering::Relaxed);
    };
    if Builder::new().name("close".to_owned()).spawn(close).is_err() {
        THREADS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};
    use rustix::mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
        fsopen,
    };
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, AsRawFd};
    use std::time::{Duration, Instant};

    /// Requests of FUSE (`include/uapi/linux/fuse.h`), and the sizes of their replies.
    const INIT: u32 = 26;
    const OPEN: u32 = 14;
    const FLUSH: u32 = 25;
    const INIT_SIZE: usize = 64;
    const OPEN_SIZE: usize = 16;

    /// Answers requests until the kernel sends FLUSH, which it sends when a process closes a file.
    fn serve_until_flush(device: &mut File) {
        let mut request = vec![0; 1 << 17];
        loop {
            let length = device.read(&mut request).unwrap();
            assert!(length >= 40);
            let field = |at: usize| u32::from_le_bytes(request[at..at + 4].try_into().unwrap());
            let size = match field(4) {
                INIT => INIT_SIZE,
                OPEN => OPEN_SIZE,
                FLUSH => return,
                other => panic!("request {other}"),
            };
            let mut reply = vec![0; 16 + size];
            reply[..4].copy_from_slice(&(16 + size as u32).to_le_bytes());
            reply[8..16].copy_from_slice(&request[8..16]);
            if field(4) == INIT {
                // The protocol's version, and the largest write.
                reply[16..20].copy_from_slice(&7_u32.to_le_bytes());
                reply[20..24].copy_from_slice(&31_u32.to_le_bytes());
                reply[36..40].copy_from_slice(&4096_u32.to_le_bytes());
            }
            device.write_all(&reply).unwrap();
        }
    }

    #[test]
    fn a_file_whose_server_hangs_is_closed_without_blocking() {
        let mut device = File::options().read(true).write(true).open("/dev/fuse").unwrap();
        // A file system that is a file, and that is mounted nowhere.
        let system = fsopen("fuse", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
        let number = device.as_raw_fd().to_string();
        for (key, value) in
            [("fd", number.as_str()), ("rootmode", "100644"), ("user_id", "0"), ("group_id", "0")]
        {
            fsconfig_set_string(system.as_fd(), key, value).unwrap();
        }
        fsconfig_create(system.as_fd()).unwrap();
        let none = MountAttrFlags::empty();
        let mount = fsmount(system.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, none).unwrap();
        let served = std::thread::spawn(move || {
            serve_until_flush(&mut device);
            device
        });
        let file = File::open(format!("/proc/self/fd/{}", mount.as_raw_fd())).unwrap();
        let started = Instant::now();
        assert!(in_memory(file.into()).is_none());
        assert!(started.elapsed() < Duration::from_secs(5));
        let device = served.join().unwrap();
        assert_eq!(THREADS.load(Ordering::Relaxed), 1, "the close still waits");
        // Ends the connection, and with it the wait.
        drop(device);
    }

    #[test]
    fn a_file_in_memory_is_kept() {
        let file = memfd_create("program", MemfdFlags::CLOEXEC).unwrap();
        assert!(in_memory(file).is_some());
    }
}
