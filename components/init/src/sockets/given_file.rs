//! A file that a client sends with its request.
//!
//! Closing a file may block: one on FUSE or NFS waits for its server, which the client may control.
//! So PID 1 keeps files in memory only, and a thread closes any other.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use rustix::fs::fcntl_get_seals;

/// How many threads may close files at a time. While each of them waits for a server, further files
/// stay open.
const MAX_THREADS: usize = 8;

static CLOSING: Mutex<Closing> = Mutex::new(Closing { files: Vec::new(), threads: 0 });

struct Closing {
    /// The files that no thread has taken yet.
    files: Vec<OwnedFd>,
    threads: usize,
}

/// Returns the first of the files if it is in memory (memfd_create(2), tmpfs), and closes all
/// others without blocking.
pub fn first_in_memory(files: Vec<OwnedFd>) -> Option<OwnedFd> {
    let mut files = files.into_iter();
    let first = files.next()?;
    let is_in_memory = fcntl_get_seals(&first).is_ok();
    let (kept, closed) = if is_in_memory { (Some(first), None) } else { (None, Some(first)) };
    close_in_threads(closed.into_iter().chain(files));
    kept
}

fn close_in_threads(files: impl Iterator<Item = OwnedFd>) {
    let mut closing = closing();
    let before = closing.files.len();
    closing.files.extend(files);
    if closing.files.len() > before && closing.threads < MAX_THREADS {
        // Without a thread they stay open until there is one.
        let thread = Builder::new().name("close".to_owned()).spawn(close_all);
        closing.threads += usize::from(thread.is_ok());
    }
}

/// Closes files until there are no more.
fn close_all() {
    loop {
        let mut closing = closing();
        let Some(file) = closing.files.pop() else {
            closing.threads -= 1;
            return;
        };
        drop(closing);
        drop(file);
    }
}

fn closing() -> MutexGuard<'static, Closing> {
    CLOSING.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn memory() -> OwnedFd {
        memfd_create("program", MemfdFlags::CLOEXEC).unwrap()
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
        // Also behind one that is kept.
        assert!(first_in_memory(vec![memory(), file.into()]).is_some());
        assert!(started.elapsed() < Duration::from_secs(5));
        let device = served.join().unwrap();
        assert!(closing().threads > 0, "the close still waits");
        // Ends the connection, and with it the wait.
        drop(device);
    }

    #[test]
    fn the_first_file_is_kept_if_it_is_in_memory() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        assert!(first_in_memory(vec![memory(), writer]).is_some());
        // It ends when the last writer is closed.
        assert_eq!(File::from(reader).read(&mut [0]).unwrap(), 0);
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert!(first_in_memory(vec![reader, memory()]).is_none());
        assert!(first_in_memory(Vec::new()).is_none());
    }
}
