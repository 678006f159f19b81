//! The system calls for which `rustix` has no safe function. All `unsafe` of this crate is here.

#![allow(unsafe_code)]

pub mod bpf;
pub mod peer;

use std::ffi::{CStr, c_int};
use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use uuid::Uuid;

/// The signals that PID 1 reads from a descriptor, so that they do not interrupt it.
const SIGNALS: [c_int; 3] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT];

/// A signal that PID 1 acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// At least one child has exited.
    Child,
    /// A process asks for power off.
    Terminate,
    /// A process asks for a reboot. The kernel sends this for Ctrl-Alt-Del.
    Interrupt,
}

/// Blocks [`SIGNALS`] and returns a descriptor that becomes readable when one of them is pending.
/// Children inherit the mask unless they are started with [`unblock_signals`].
pub fn signal_descriptor() -> io::Result<OwnedFd> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set before anything reads it, and all pointers are to
    // live locals.
    let descriptor = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in SIGNALS {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        checked(libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()))?;
        checked(libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?
    };
    // SAFETY: `signalfd` has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Unblocks every signal in a child, as programs expect. Otherwise it would inherit what
/// [`signal_descriptor`] has blocked and pass it on: a pod could not be asked to exit.
pub fn unblock_signals(command: &mut Command) -> &mut Command {
    let unblock = || {
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set before anything reads it.
        checked(unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
        })
        .map(drop)
    };
    // SAFETY: between fork and exec the closure calls only async-signal-safe functions
    // (signal-safety(7)).
    unsafe { command.pre_exec(unblock) }
}

/// Moves a child into the control group whose `cgroup.procs` is `procs`, before it executes the
/// program. The file is closed when the command is dropped.
pub fn enter_cgroup(command: &mut Command, procs: File) -> &mut Command {
    // 0 is the process that writes.
    let enter = move || rustix::io::write(&procs, b"0").map(drop).map_err(io::Error::from);
    // SAFETY: between fork and exec the closure calls only write(2), which is async-signal-safe
    // (signal-safety(7)).
    unsafe { command.pre_exec(enter) }
}

/// Takes one signal from the descriptor, if one is pending.
pub fn next_signal(descriptor: &OwnedFd) -> Option<Signal> {
    let mut bytes = [0u8; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::read(descriptor, &mut bytes).ok()?;
    // `ssi_signo` is the first field of the record (signalfd(2)).
    let number = u32::from_ne_bytes(bytes[..read].first_chunk().copied()?);
    match c_int::try_from(number).ok()? {
        libc::SIGCHLD => Some(Signal::Child),
        libc::SIGTERM => Some(Signal::Terminate),
        libc::SIGINT => Some(Signal::Interrupt),
        _ => None,
    }
}

/// Sets a network link up. `name` has at most 15 bytes.
pub fn link_up(name: &str) -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    // SAFETY: an all-zero `ifreq` is a valid value of that plain C structure.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the request is a live `ifreq`, and both calls use its `ifru_flags` member, which the
    // first one fills in.
    unsafe {
        checked(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        checked(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request))?;
    }
    Ok(())
}

/// Makes each mount of a detached tree read-only, and has it follow what the original unmounts
/// (`mount_setattr(2)`).
pub fn make_read_only(tree: impl AsFd) -> io::Result<()> {
    let wanted = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: libc::MS_SLAVE,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the kernel reads an empty path, which ends with its null byte, and as many bytes of
    // `wanted` as the last argument says; both live until the call returns.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const wanted,
            size_of::<libc::mount_attr>(),
        )
    };
    checked(done as c_int)?;
    Ok(())
}

/// Has the kernel use a device as swap (swapon(2)). Its first page is the header of an area.
pub fn swap_on(device: &CStr) -> io::Result<()> {
    // SAFETY: the kernel reads a path, which ends with its null byte and lives until the call
    // returns.
    checked(unsafe { libc::swapon(device.as_ptr(), 0) }).map(drop)
}

/// Has the kernel move all that is on a device back into memory, and use it no longer (swapoff(2)).
/// It may take minutes.
pub fn swap_off(device: &CStr) -> io::Result<()> {
    // SAFETY: as for `swapon`.
    checked(unsafe { libc::swapoff(device.as_ptr()) }).map(drop)
}

/// Grows a mounted ext4 to this many of its own blocks (`EXT4_IOC_RESIZE_FS` of `linux/ext4.h`).
pub fn ext4_resize(mounted: impl AsFd, blocks: u64) -> io::Result<()> {
    let request = libc::_IOW::<u64>(u32::from(b'f'), 16);
    // SAFETY: the kernel reads one `u64` behind the pointer, which lives until the call returns.
    checked(unsafe { libc::ioctl(mounted.as_fd().as_raw_fd(), request as _, &blocks) })?;
    Ok(())
}

/// `struct fsuuid` of `linux/ext4.h`, followed by the identifier.
#[repr(C)]
struct Ext4Uuid {
    length: u32,
    flags: u32,
    uuid: [u8; 16],
}

/// The structure without the identifier: the request numbers are made from its size.
type Ext4UuidHead = [u32; 2];

/// The identifier of a mounted ext4 (`EXT4_IOC_GETFSUUID`).
pub fn ext4_uuid(mounted: impl AsFd) -> io::Result<Uuid> {
    let mut about = Ext4Uuid { length: 16, flags: 0, uuid: [0; 16] };
    let request = libc::_IOR::<Ext4UuidHead>(u32::from(b'f'), 44);
    // SAFETY: the kernel writes at most the 16 bytes that `length` announces, and the structure
    // outlives the call.
    checked(unsafe { libc::ioctl(mounted.as_fd().as_raw_fd(), request as _, &raw mut about) })?;
    Ok(Uuid::from_bytes(about.uuid))
}

/// Changes the identifier (`EXT4_IOC_SETFSUUID`). The file system needs the feature
/// `metadata_csum_seed`: without it all checksums depend on the identifier.
pub fn set_ext4_uuid(mounted: impl AsFd, uuid: Uuid) -> io::Result<()> {
    let about = Ext4Uuid { length: 16, flags: 0, uuid: uuid.into_bytes() };
    let request = libc::_IOW::<Ext4UuidHead>(u32::from(b'f'), 44);
    // SAFETY: the kernel reads the structure, which outlives the call.
    checked(unsafe { libc::ioctl(mounted.as_fd().as_raw_fd(), request as _, &raw const about) })?;
    Ok(())
}

/// Sets after how many seconds an open watchdog resets the machine (`WDIOC_SETTIMEOUT` of
/// `linux/watchdog.h`). Returns the time that the driver has chosen for that.
pub fn set_watchdog(timer: impl AsFd, seconds: u32) -> io::Result<u32> {
    let seconds =
        c_int::try_from(seconds).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    ask_watchdog(timer, libc::_IOWR::<c_int>(u32::from(b'W'), 6), seconds)
}

/// After how many seconds an open watchdog resets the machine (`WDIOC_GETTIMEOUT`).
pub fn watchdog(timer: impl AsFd) -> io::Result<u32> {
    ask_watchdog(timer, libc::_IOR::<c_int>(u32::from(b'W'), 7), 0)
}

fn ask_watchdog(timer: impl AsFd, request: libc::Ioctl, mut seconds: c_int) -> io::Result<u32> {
    // SAFETY: the kernel reads and writes one `int` behind the pointer, which lives until the call
    // returns.
    checked(unsafe { libc::ioctl(timer.as_fd().as_raw_fd(), request, &raw mut seconds) })?;
    u32::try_from(seconds).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Whether an input device has a key (`EVIOCGBIT` of `linux/input.h`, for `EV_KEY`).
pub fn has_key(device: impl AsFd, code: u16) -> io::Result<bool> {
    const EV_KEY: u32 = 1;
    let mut bits: KeyBits = [0; _];
    let request = libc::_IOR::<KeyBits>(u32::from(b'E'), 0x20 + EV_KEY);
    // SAFETY: the request number contains the length of the array, the kernel writes no more than
    // that, and the array outlives the call.
    checked(unsafe { libc::ioctl(device.as_fd().as_raw_fd(), request as _, bits.as_mut_ptr()) })?;
    Ok(bits.get(usize::from(code / 8)).is_some_and(|byte| byte >> (code % 8) & 1 == 1))
}

/// One bit for each of `KEY_CNT` keys.
type KeyBits = [u8; 0x300 / 8];

/// Sends a signal to every process except `init`. It does nothing unless this is PID 1: on a build
/// host it would end the whole session.
pub fn signal_everybody(signal: rustix::process::Signal) {
    if std::process::id() == 1 {
        // SAFETY: the call takes two numbers. It fails only when no process is left to signal.
        unsafe { libc::kill(-1, signal.as_raw()) };
    }
}

/// Gives this thread, which is to end with the test, a table of mounts of its own.
#[cfg(test)]
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: only the mount namespace is unshared, which no memory of this process depends on.
    Ok(unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }?)
}

fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
