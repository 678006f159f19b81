//! Closes what clients leave: the files that they send, and their connections.
//!
//! Closing a file may block: one on FUSE or NFS waits for its server, which the client may control,
//! and a socket may linger. A connection that is closed closes the files of messages that were not
//! received. The kernel closes a file that comes with a message in the thread that receives it
//! without taking the file. So PID 1 takes every file, keeps those in memory only, and threads
//! close all others and the connections.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

use rustix::fs::fcntl_get_seals;

/// How many threads may close files at a time. While each of them waits for a server, further files
/// stay open.
const MAX_THREADS: usize = 8;
/// How many files may stay open before no client is read any more. One more message may have
/// hundreds, and PID 1 may have 1024 files open.
const MAX_WAITING: usize = 64;

/// The threads, and the files that wait for them. A clone has the same ones.
#[derive(Clone, Default)]
pub struct Closer(Arc<Mutex<Closing>>);

#[derive(Default)]
struct Closing {
    /// The files that no thread has taken yet.
    files: Vec<OwnedFd>,
    threads: usize,
}

impl Closer {
    /// Closes files without blocking.
    pub fn close(&self, files: impl IntoIterator<Item = OwnedFd>) {
        let files: Vec<OwnedFd> = files.into_iter().collect();
        let mut closing = self.lock();
        closing.files.extend(files);
        self.start_thread(&mut closing);
    }

    /// Returns the first of the files if it is in memory (memfd_create(2), tmpfs), and closes all
    /// others without blocking.
    pub fn first_in_memory(&self, files: Vec<OwnedFd>) -> Option<OwnedFd> {
        let mut files = files.into_iter();
        let first = files.next()?;
        let is_in_memory = fcntl_get_seals(&first).is_ok();
        let (kept, closed) = if is_in_memory { (Some(first), None) } else { (None, Some(first)) };
        self.close(closed.into_iter().chain(files));
        kept
    }

    /// Whether too many files wait, so that no client may send another.
    pub fn is_full(&self) -> bool {
        let mut closing = self.lock();
        // The threads of before may all wait for a server.
        self.start_thread(&mut closing);
        closing.files.len() >= MAX_WAITING
    }

    fn start_thread(&self, closing: &mut Closing) {
        if !closing.files.is_empty() && closing.threads < MAX_THREADS {
            // Without a thread they stay open until there is one.
            let closer = self.clone();
            let thread = Builder::new().name("close".to_owned()).spawn(move || closer.close_all());
            closing.threads += usize::from(thread.is_ok());
        }
    }

    /// Closes files until there are no more.
    fn close_all(&self) {
        loop {
            let mut closing = self.lock();
            let Some(file) = closing.files.pop() else {
                closing.threads -= 1;
                return;
            };
            drop(closing);
            drop(file);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Closing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};
    use rustix::mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
        fsopen,
    };
    use rustix::net::sockopt::set_socket_linger;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
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

    /// How long a test may take whose thread closes nothing itself.
    pub const SOON: Duration = Duration::from_secs(5);

    /// A file whose last close takes longer than that, unless its peer, which comes with it, is
    /// closed.
    pub fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 1 << 16]).is_ok() {}
        set_socket_linger(&stream, Some(6 * SOON)).unwrap();
        (stream.into(), peer)
    }

    /// Has all threads wait for a peer, and as many files for them as may. The peers, which are
    /// returned, end that.
    pub fn fill(closer: &Closer) -> Vec<TcpStream> {
        let mut peers = Vec::new();
        for threads in 1..=MAX_THREADS {
            let (file, peer) = lingering();
            peers.push(peer);
            closer.close([file]);
            while !closer.lock().files.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(closer.lock().threads, threads);
        }
        assert!(!closer.is_full());
        closer.close((0..MAX_WAITING).map(|_| memory()));
        peers
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
        let closer = Closer::default();
        assert!(closer.first_in_memory(vec![memory(), file.into()]).is_some());
        assert!(started.elapsed() < SOON);
        let device = served.join().unwrap();
        assert!(closer.lock().threads > 0, "the close still waits");
        // Ends the connection, and with it the wait.
        drop(device);
    }

    #[test]
    fn the_first_file_is_kept_if_it_is_in_memory() {
        let closer = Closer::default();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        assert!(closer.first_in_memory(vec![memory(), writer]).is_some());
        // It ends when the last writer is closed.
        assert_eq!(File::from(reader).read(&mut [0]).unwrap(), 0);
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert!(closer.first_in_memory(vec![reader, memory()]).is_none());
        assert!(closer.first_in_memory(Vec::new()).is_none());
    }

    #[test]
    fn it_is_full_until_a_thread_goes_on() {
        let closer = Closer::default();
        let peers = fill(&closer);
        assert!(closer.is_full());
        drop(peers);
        let since = Instant::now();
        while closer.is_full() {
            assert!(since.elapsed() < SOON);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
