//! Attaches and detaches loop devices (`linux/loop.h`). All `unsafe` of this crate is here.

#![allow(unsafe_code)]

use crate::failure::LoopFailure;
use crate::loop_request::LoopNumber;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl, opcode};
use std::ffi::{OsStr, c_void};
use std::fs::{self, File};
use std::io::Error;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

const CONTROL: &str = "/dev/loop-control";

const LOOP_CLR_FD: Opcode = opcode::none(b'L', 0x01);
const LOOP_CONFIGURE: Opcode = opcode::none(b'L', 0x0a);
const LOOP_CTL_GET_FREE: Opcode = opcode::none(b'L', 0x82);

const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_NAME_SIZE: usize = 64;

/// How often another program may take the free device before this one does.
const MAX_ATTEMPTS: usize = 100;

/// `struct loop_config`.
#[derive(Default)]
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    sizelimit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; LO_NAME_SIZE],
    crypt_name: [u8; LO_NAME_SIZE],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl Default for LoopInfo {
    fn default() -> Self {
        LoopInfo {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            sizelimit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: 0,
            file_name: [0; LO_NAME_SIZE],
            crypt_name: [0; LO_NAME_SIZE],
            encrypt_key: [0; 32],
            init: [0; 2],
        }
    }
}

/// Attaches a block device or a file to a free loop device, read-only if it is write-protected. The
/// kubelet finds the device by the path of its backing file in sysfs.
pub fn attach(path: &OsStr) -> Result<LoopNumber, LoopFailure> {
    let failed = |errno| LoopFailure::Attach(path.to_owned(), errno);
    for _ in 0..MAX_ATTEMPTS {
        let number = free().map_err(|_| LoopFailure::NoneFree)?;
        let backing = Backing::open(path).map_err(|error| failed(errno(&error)))?;
        let device = File::options().read(true).write(backing.is_writable).open(number.to_string());
        let device = device.map_err(|error| failed(errno(&error)))?;
        match configure(&device, &backing) {
            Err(Errno::BUSY) => {}
            configured => return configured.map(|()| number).map_err(failed),
        }
    }
    Err(failed(Errno::BUSY))
}

/// Detaches a loop device. A device that another program has open is detached when it closes it.
pub fn detach(number: LoopNumber) -> Result<(), LoopFailure> {
    let device = File::open(number.to_string()).map_err(|_| LoopFailure::NotThere(number))?;
    // SAFETY: this request takes no argument.
    let detached = unsafe { ioctl(&device, NoArg::<LOOP_CLR_FD>::new()) };
    detached.map_err(|errno| LoopFailure::Detach(number, errno))
}

/// The block device or file behind a loop device.
struct Backing {
    file: File,
    is_writable: bool,
    /// Its path without symbolic links.
    path: PathBuf,
}

impl Backing {
    fn open(path: &OsStr) -> Result<Backing, Error> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| Path::new(path).to_owned());
        let kind = fs::metadata(&path)?.file_type();
        // Opening one of these may wait for another program, and the kernel accepts neither.
        if kind.is_fifo() || kind.is_char_device() {
            return Err(Errno::INVAL.into());
        }
        let (file, is_writable) = match File::options().read(true).write(true).open(&path) {
            Err(error) if matches!(errno(&error), Errno::ROFS | Errno::ACCESS) => {
                (File::open(&path)?, false)
            }
            opened => (opened?, true),
        };
        Ok(Backing { file, is_writable, path })
    }

    fn config(&self) -> LoopConfig {
        let flags = if self.is_writable { 0 } else { LO_FLAGS_READ_ONLY };
        let mut info = LoopInfo { flags, ..LoopInfo::default() };
        // The name ends with a NUL. A longer path is cut; sysfs has the whole one.
        let name = self.path.as_os_str().as_bytes().iter().take(LO_NAME_SIZE - 1);
        info.file_name.iter_mut().zip(name).for_each(|(byte, other)| *byte = *other);
        LoopConfig { fd: self.file.as_raw_fd() as u32, info, ..LoopConfig::default() }
    }
}

/// `LOOP_CTL_GET_FREE`, which returns a number.
struct GetFree;

// SAFETY: the request takes no argument, and its result is the number that the call returns.
unsafe impl Ioctl for GetFree {
    type Output = u32;

    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(number: IoctlOutput, _: *mut c_void) -> Result<u32, Errno> {
        u32::try_from(number).map_err(|_| Errno::NODEV)
    }
}

/// Requests a device that nothing is attached to; the kernel makes one if there is none.
fn free() -> Result<LoopNumber, Error> {
    let control = File::options().read(true).write(true).open(CONTROL)?;
    // SAFETY: this request takes no argument.
    let number = unsafe { ioctl(&control, GetFree) }?;
    Ok(LoopNumber::new(number))
}

fn configure(device: &File, backing: &Backing) -> Result<(), Errno> {
    // SAFETY: the structure has the layout of `linux/loop.h`, the kernel only reads it, and its
    // descriptor stays open during the call.
    unsafe { ioctl(device, Setter::<LOOP_CONFIGURE, LoopConfig>::new(backing.config())) }
}

fn errno(error: &Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_kernels_sizes() {
        assert_eq!((size_of::<LoopInfo>(), size_of::<LoopConfig>()), (232, 304));
    }

    #[test]
    fn a_long_path_is_cut_before_its_final_nul() {
        let file = tempfile::tempfile().unwrap();
        let path = PathBuf::from(format!("/{}", "a".repeat(100)));
        let config = Backing { file, is_writable: false, path }.config();
        assert_eq!(config.info.file_name[..3], *b"/aa");
        assert_eq!(config.info.file_name[62..], *b"a\0");
        assert_eq!(config.info.flags, LO_FLAGS_READ_ONLY);
    }
}
