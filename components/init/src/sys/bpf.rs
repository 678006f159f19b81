//! BPF programs, their links and the control groups that they act on (bpf(2), `linux/bpf.h`). Every
//! function needs `CAP_SYS_ADMIN`; none of them waits.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::checked;

/// The commands of bpf(2).
#[derive(Clone, Copy)]
enum Command {
    ProgramNext = 11,
    ProgramOpen = 13,
    Info = 15,
    Query = 16,
    LinkOpen = 30,
    LinkNext = 31,
}

/// The maximum number of maps that a program uses (`MAX_USED_MAPS`).
const MAX_MAPS: usize = 64;

/// The programs of a control group that are asked for: the kernel allows as many of a type.
const MAX_ATTACHED: usize = 64;

/// `BPF_CGROUP_DEVICE` of `enum bpf_attach_type`.
const CGROUP_DEVICE: u32 = 6;

/// The objects of the kernel that have identifiers.
#[derive(Clone, Copy, Debug)]
pub enum Object {
    /// Programs.
    Program,
    /// Links, each of which attaches a program to its target.
    Link,
}

/// `union bpf_attr` of the commands that find and open an object by its identifier.
#[repr(C)]
struct ById {
    id: u32,
    next: u32,
    flags: u32,
}

/// `union bpf_attr` of the command that describes an object.
#[repr(C)]
struct InfoRequest {
    descriptor: u32,
    length: u32,
    info: u64,
}

/// `union bpf_attr` of the command that lists what is attached.
#[repr(C)]
struct QueryRequest {
    target: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    programs: u64,
    count: u32,
    padding: u32,
}

/// The start of `struct bpf_prog_info`, up to the counters of Linux 5.1. The kernel copies as much
/// as it is asked for.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramInfo {
    /// Its type, of `enum bpf_prog_type`.
    pub program_type: u32,
    /// Its identifier.
    pub id: u32,
    /// The digest of its instructions.
    pub tag: [u8; 8],
    /// The bytes of its machine code.
    pub jited_length: u32,
    /// The bytes of its instructions, as the kernel has translated them.
    pub translated_length: u32,
    jited: u64,
    translated: u64,
    /// When it was loaded, in nanoseconds since boot.
    pub load_time: u64,
    /// The user who has loaded it.
    pub uid: u32,
    map_count: u32,
    maps: u64,
    /// Its name, with null bytes at the end.
    pub name: [u8; 16],
    /// The link that its code was made for, device numbers, and tables for debuggers.
    unused: [u64; 14],
    /// For how long it has run, in nanoseconds, as far as the kernel has counted.
    pub run_time: u64,
    /// How often it has run, as far as the kernel has counted.
    pub runs: u64,
}

/// The start of `struct bpf_link_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkInfo {
    /// Its type, of `enum bpf_link_type`.
    pub link_type: u32,
    /// Its identifier.
    pub id: u32,
    /// The program that it attaches.
    pub program: u32,
    padding: u32,
    /// The first fields of the target, whose meaning depends on the type.
    pub target: [u32; 4],
}

/// The identifier of the object after the one with this identifier; none after the last.
pub fn next(object: Object, after: u32) -> io::Result<Option<u32>> {
    let mut attributes = ById { id: after, next: 0, flags: 0 };
    let command = match object {
        Object::Program => Command::ProgramNext,
        Object::Link => Command::LinkNext,
    };
    // SAFETY: the attributes have no pointer.
    match unsafe { bpf(command, &mut attributes) } {
        Ok(_) => Ok(Some(attributes.next)),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens an object, which does not go while it is open.
pub fn open(object: Object, id: u32) -> io::Result<OwnedFd> {
    let mut attributes = ById { id, next: 0, flags: 0 };
    let command = match object {
        Object::Program => Command::ProgramOpen,
        Object::Link => Command::LinkOpen,
    };
    // SAFETY: the attributes have no pointer, and the command returns a descriptor that nothing
    // else owns.
    unsafe { bpf(command, &mut attributes).map(|descriptor| OwnedFd::from_raw_fd(descriptor)) }
}

/// Describes a program, with the identifiers of its maps.
pub fn program(opened: impl AsFd) -> io::Result<(ProgramInfo, Vec<u32>)> {
    let mut maps = [0u32; MAX_MAPS];
    let mut info = ProgramInfo {
        map_count: MAX_MAPS as u32,
        maps: maps.as_mut_ptr() as u64,
        ..ProgramInfo::default()
    };
    // SAFETY: `maps` outlives the call, and the kernel writes no more identifiers than `map_count`.
    // It has no other pointer to write to, as the lengths of the others are zero.
    unsafe { describe(opened, &mut info)? };
    let count = (info.map_count as usize).min(MAX_MAPS);
    Ok((info, maps[..count].to_vec()))
}

/// Describes a link. Texts of its target are not read.
pub fn link(opened: impl AsFd) -> io::Result<LinkInfo> {
    let mut info = LinkInfo::default();
    // SAFETY: the structure has no pointer: those of targets are null.
    unsafe { describe(opened, &mut info)? };
    Ok(info)
}

/// The device filters that are attached to a control group itself, with or without a link.
pub fn device_filters(group: impl AsFd) -> io::Result<Vec<u32>> {
    let mut programs = [0u32; MAX_ATTACHED];
    let mut attributes = QueryRequest {
        target: group.as_fd().as_raw_fd().cast_unsigned(),
        attach_type: CGROUP_DEVICE,
        query_flags: 0,
        attach_flags: 0,
        programs: programs.as_mut_ptr() as u64,
        count: MAX_ATTACHED as u32,
        padding: 0,
    };
    // SAFETY: `programs` outlives the call, and the kernel writes no more of it than `count`.
    unsafe { bpf(Command::Query, &mut attributes)? };
    let count = (attributes.count as usize).min(MAX_ATTACHED);
    Ok(programs[..count].to_vec())
}

/// Has the kernel fill a structure.
///
/// # Safety
/// The structure is one of integers, which the command knows, and its pointers are valid.
unsafe fn describe<T>(opened: impl AsFd, info: &mut T) -> io::Result<()> {
    let mut attributes = InfoRequest {
        descriptor: opened.as_fd().as_raw_fd().cast_unsigned(),
        length: size_of::<T>() as u32,
        info: std::ptr::from_mut(info) as u64,
    };
    // SAFETY: the kernel writes at most `length` bytes to `info`, and the caller answers for what
    // is in it.
    unsafe { bpf(Command::Info, &mut attributes).map(drop) }
}

/// Calls bpf(2).
///
/// # Safety
/// The attributes are those of the command, and their pointers are valid.
unsafe fn bpf<T>(command: Command, attributes: &mut T) -> io::Result<c_int> {
    let attributes = std::ptr::from_mut(attributes);
    // SAFETY: the kernel reads and writes `size_of` bytes of the attributes, which outlive the
    // call, and the caller answers for what is in them.
    let done =
        unsafe { libc::syscall(libc::SYS_bpf, command as c_int, attributes, size_of::<T>()) };
    checked(done as c_int)
}

/// Programs for tests.
#[cfg(test)]
pub mod test_program {
    use super::*;
    use std::os::fd::BorrowedFd;

    /// `BPF_PROG_LOAD`, `BPF_PROG_ATTACH` and `BPF_LINK_CREATE`.
    const LOAD: c_int = 5;
    const ATTACH: c_int = 8;
    const LINK: c_int = 28;

    /// `BPF_PROG_TYPE_XDP` and `BPF_PROG_TYPE_CGROUP_DEVICE`, with the places that they are for.
    pub const XDP: (u32, u32) = (6, 37);
    pub const DEVICE: (u32, u32) = (15, CGROUP_DEVICE);

    /// `BPF_F_ALLOW_MULTI`.
    const ALLOW_MULTI: u32 = 2;

    /// Instructions, each of eight bytes: `r0 = 1; exit`. A device filter with them lets all pass.
    const PASS: [u64; 2] = [0x01_0000_00b7, 0x95];

    #[repr(C)]
    struct LoadRequest {
        program_type: u32,
        instruction_count: u32,
        instructions: u64,
        license: u64,
        log: [u64; 3],
        name: [u8; 16],
        link: u32,
        attach_type: u32,
    }

    /// Loads a program that ends with the returned descriptor, unless it is attached.
    pub fn load((program_type, attach_type): (u32, u32), name: &str) -> io::Result<OwnedFd> {
        let mut request = LoadRequest {
            program_type,
            instruction_count: 2,
            instructions: PASS.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            log: [0; 3],
            name: [0; 16],
            link: 0,
            attach_type,
        };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        // SAFETY: the kernel reads the instructions and the text, which are constants.
        unsafe { call(LOAD, &mut request).map(|program| OwnedFd::from_raw_fd(program)) }
    }

    /// Attaches a device filter to a control group, as `runc` does.
    pub fn attach(program: BorrowedFd<'_>, group: impl AsFd) -> io::Result<()> {
        let group = group.as_fd().as_raw_fd();
        let mut request =
            [group, program.as_raw_fd(), CGROUP_DEVICE as c_int, ALLOW_MULTI as c_int];
        // SAFETY: the attributes have no pointer.
        unsafe { call(ATTACH, &mut request).map(drop) }
    }

    /// Attaches a program to a descriptor or to the number of a network link. It ends with the
    /// returned one.
    pub fn link(program: BorrowedFd<'_>, target: c_int, attach_type: u32) -> io::Result<OwnedFd> {
        let mut request = [program.as_raw_fd(), target, attach_type as c_int, 0];
        // SAFETY: the attributes have no pointer, and nothing else owns the descriptor.
        unsafe { call(LINK, &mut request).map(|link| OwnedFd::from_raw_fd(link)) }
    }

    /// Calls bpf(2).
    ///
    /// # Safety
    /// As for [`super::bpf`].
    unsafe fn call<T>(command: c_int, attributes: &mut T) -> io::Result<c_int> {
        let attributes = std::ptr::from_mut(attributes);
        // SAFETY: the attributes outlive the call, and the caller answers for what is in them.
        let done = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
        checked(done as c_int)
    }
}
