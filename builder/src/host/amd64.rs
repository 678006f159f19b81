//! Checks that programs for amd64 run in a sandbox. All steps of a build are such programs,
//! whatever the architecture of this machine: so a lock pins one set of compilers, and every
//! machine has the same results. Decision 75 explains why.
//!
//! On another processor, the kernel starts an emulator for them (binfmt_misc). The sandbox does not
//! show the emulator's file, so the kernel must have opened it when it was registered (flag `F`).
//! Some steps call programs that look at the name by which they were called, so the kernel must
//! pass that on (flag `P`).

use super::lack::Lack;
use super::sandbox;
use crate::engine::rules::ISOLATION;
use crate::plan::Architecture;
use object::elf::{
    ELFCLASS64, ELFDATA2LSB, ELFMAG, ELFOSABI_NONE, EM_X86_64, ET_EXEC, EV_CURRENT, FileHeader64,
    Ident, Machine, PF_R, PF_X, PT_LOAD, ProgramHeader64,
};
use object::pod::bytes_of;
use object::{LittleEndian as LE, U16, U32, U64};
use std::io::{self, Write};
use std::process::{Command, ExitStatus, Stdio};

/// How to get an emulator.
pub(super) const REMEDY: &str = "install an emulator for amd64: see builder/docs/hosts.md";

/// The name by which the test program is called.
const NAME: &str = "program";

/// Why programs for amd64 do not run here. `None` if they do, or if no sandbox can be made, which
/// has its own check.
pub(super) fn lack() -> Option<Lack> {
    let is_this_machine = Architecture::Amd64.machine() == std::env::consts::ARCH;
    if is_this_machine || sandbox::lack().is_some() {
        return None;
    }
    let problem = problem(&program(EM_X86_64))?;
    Some(Lack {
        problem: format!("this machine's processor is {}, and {problem}", std::env::consts::ARCH),
        cause: None,
        remedy: REMEDY.to_owned(),
    })
}

/// Why the program with these bytes does not run in a sandbox as it does on a processor for amd64.
/// Bubblewrap's error would mislead: execvp(3) takes a foreign program for a script, and reports
/// that the shell is missing.
fn problem(program: &[u8]) -> Option<&'static str> {
    match run(program)
        .ok()
        .and_then(|status| status.code())
        .and_then(|code| u8::try_from(code).ok())
    {
        Some(first) if first == NAME.as_bytes()[0] => None,
        Some(b'/') => Some(
            "its emulator for amd64 is registered without the flag `P`: programs of a build do not \
             get the name by which they are called",
        ),
        _ => Some("nothing runs the compilers of a build, which are programs for amd64"),
    }
}

/// Runs a program alone in a sandbox, which gets its bytes as standard input. It is found in
/// `PATH`, so its file has another name than [`NAME`].
fn run(program: &[u8]) -> io::Result<ExitStatus> {
    let mut child = Command::new("bwrap")
        .args(ISOLATION)
        .args(["--perms", "0555", "--ro-bind-data", "0", &format!("/{NAME}")])
        .args(["--setenv", "PATH", "/", "--", NAME])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // If bubblewrap has ended, its status says so.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(program));
    child.wait()
}

/// A static program in the format of elf(5) for the processor `machine`. Its code is for amd64: its
/// exit status is the first byte of its own name, `argv[0]`.
fn program(machine: Machine) -> Vec<u8> {
    const ADDRESS: u64 = 0x40_0000;
    const EXIT: u8 = 60;
    const CODE: [u8; 15] = [
        0x48, 0x8b, 0x44, 0x24, 0x08, // mov rax, [rsp + 8]
        0x0f, 0xb6, 0x38, // movzx edi, byte [rax]
        0xb8, EXIT, 0, 0, 0, // mov eax, EXIT
        0x0f, 0x05, // syscall
    ];
    let (header_size, segment_size) =
        (size_of::<FileHeader64<LE>>(), size_of::<ProgramHeader64<LE>>());
    let start = (header_size + segment_size) as u64;
    let size = start + CODE.len() as u64;
    let half = |value: usize| U16::new(LE, value as u16);
    let long = |value: u64| U64::new(LE, value);
    let header = FileHeader64 {
        e_ident: Ident {
            magic: ELFMAG,
            class: ELFCLASS64,
            data: ELFDATA2LSB,
            version: EV_CURRENT,
            os_abi: ELFOSABI_NONE,
            abi_version: 0,
            padding: [0; 7],
        },
        e_type: U16::new(LE, ET_EXEC),
        e_machine: U16::new(LE, machine),
        e_version: U32::new(LE, EV_CURRENT.0.into()),
        e_entry: long(ADDRESS + start),
        e_phoff: long(header_size as u64),
        e_shoff: long(0),
        e_flags: U32::default(),
        e_ehsize: half(header_size),
        e_phentsize: half(segment_size),
        e_phnum: half(1),
        e_shentsize: half(0),
        e_shnum: half(0),
        e_shstrndx: U16::default(),
    };
    let segment = ProgramHeader64 {
        p_type: U32::new(LE, PT_LOAD),
        p_flags: U32::new(LE, PF_R | PF_X),
        p_offset: long(0),
        p_vaddr: long(ADDRESS),
        p_paddr: long(ADDRESS),
        p_filesz: long(size),
        p_memsz: long(size),
        p_align: long(0x1000),
    };
    [bytes_of(&header), bytes_of(&segment), &CODE].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;

    /// Linux does not support this processor any more, and neither does QEMU.
    const UNKNOWN: Machine = object::elf::EM_BLACKFIN;

    #[test]
    fn a_program_runs_if_the_processor_or_an_emulator_can_do_it() {
        assert_eq!(lack(), None);
        assert_eq!(problem(&program(EM_X86_64)), None);
        let nothing = Some("nothing runs the compilers of a build, which are programs for amd64");
        assert_eq!(problem(&program(UNKNOWN)), nothing);
        assert_eq!(problem(b"no program"), nothing);
    }

    /// An emulator that was registered without the flag `P` gives a program the path of its file.
    #[test]
    fn a_program_finds_out_whether_it_gets_the_name_by_which_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        std::fs::write(&path, program(EM_X86_64)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let first = |name: &OsStr| Command::new(&path).arg0(name).status().unwrap().code().unwrap();
        assert_eq!(first(OsStr::new(NAME)), i32::from(b'p'));
        assert_eq!(first(path.as_os_str()), i32::from(b'/'));
    }
}
