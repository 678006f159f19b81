//! The accelerator of a machine: KVM if it works, or else software emulation. `/dev/kvm` can exist
//! and be broken if the host is itself a virtual machine. So the probe runs a payload of a few
//! instructions, and only the payload's own exit counts as success.

use super::arguments::escaped;
use super::kvm::{self, Access, DEVICE};
use super::{Scratch, package, program, text};
use crate::error::{Context, Result};
use crate::plan::Architecture;
use crate::report::Report;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An accelerator of QEMU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The host's processor.
    Kvm,
    /// QEMU's translator, one thread a virtual processor.
    Tcg,
}

/// Whether this process has reported why it does not use KVM.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// The timeout of the payload, which takes a quarter of a second even in software.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The exit code of the payload for amd64: QEMU's `isa-debug-exit` turns the value written to its
/// port into `value * 2 + 1`.
const AMD64_EXIT: i32 = 42 * 2 + 1;

/// Firmware with Secure Boot protects its variables with System Management Mode (`arguments.rs`).
/// If an outer hypervisor lacks it, KVM cannot be used.
const AMD64_MACHINE: &str = "q35,smm=on";

/// The text in the cache file after a successful probe. Older releases probed without System
/// Management Mode and wrote `kvm`, which does not count.
const KVM_WORKED: &str = "kvm with smm";

/// A boot sector for address 0x7c00 that enters long mode, asks the processor for its name and
/// writes 42 to port 0xf4:
///
/// ```asm
///         cli                             # fa
///         xorw    %ax, %ax                # 31 c0
///         movw    %ax, %ds                # 8e d8
///         movw    %ax, %es                # 8e c0
///         movw    %ax, %ss                # 8e d0
///         movw    $0x7c00, %sp            # bc 00 7c
///         cld                             # fc
///         movw    $0x1000, %di            # bf 00 10    page tables at 0x1000, 0x2000, 0x3000:
///         movw    $0x1800, %cx            # b9 00 18
///         rep stosw                       # f3 ab
///         movw    $0x2003, 0x1000         # c7 06 00 10 03 20
///         movw    $0x3003, 0x2000         # c7 06 00 20 03 30
///         movw    $0x0083, 0x3000         # c7 06 00 30 83 00 one page of 2 MiB at address 0
///         movl    $0x1000, %eax           # 66 b8 00 10 00 00
///         movl    %eax, %cr3              # 0f 22 d8
///         movl    $0x20, %eax             # 66 b8 20 00 00 00 CR4.PAE
///         movl    %eax, %cr4              # 0f 22 e0
///         movl    $0xc0000080, %ecx       # 66 b9 80 00 00 c0 EFER.LME
///         rdmsr                           # 0f 32
///         orw     $0x100, %ax             # 0d 00 01
///         wrmsr                           # 0f 30
///         lgdtl   gdtr                    # 66 0f 01 16 80 7c
///         movl    $0x80000011, %eax       # 66 b8 11 00 00 80 CR0.PG and CR0.PE
///         movl    %eax, %cr0              # 0f 22 c0
///         ljmpw   $8, $long               # ea 5a 7c 08 00
///         .code64
/// long:   xorl    %eax, %eax              # 31 c0
///         cpuid                           # 0f a2
///         testl   %eax, %eax              # 85 c0
///         jz      stop                    # 74 04
///         movb    $42, %al                # b0 2a
///         outb    %al, $0xf4              # e6 f4
/// stop:   hlt                             # f4
///         jmp     stop                    # eb fd
///         .balign 8                       # 0f 1f 80 00 00 00 00
/// gdt:    .quad   0, 0x00209a0000000000
/// gdtr:   .word   15                      # 0f 00
///         .long   gdt                     # 70 7c 00 00
/// ```
const AMD64: [u8; 0x86] = [
    0xfa, 0x31, 0xc0, 0x8e, 0xd8, 0x8e, 0xc0, 0x8e, 0xd0, 0xbc, 0x00, 0x7c, 0xfc, 0xbf, 0x00, 0x10,
    0xb9, 0x00, 0x18, 0xf3, 0xab, 0xc7, 0x06, 0x00, 0x10, 0x03, 0x20, 0xc7, 0x06, 0x00, 0x20, 0x03,
    0x30, 0xc7, 0x06, 0x00, 0x30, 0x83, 0x00, 0x66, 0xb8, 0x00, 0x10, 0x00, 0x00, 0x0f, 0x22, 0xd8,
    0x66, 0xb8, 0x20, 0x00, 0x00, 0x00, 0x0f, 0x22, 0xe0, 0x66, 0xb9, 0x80, 0x00, 0x00, 0xc0, 0x0f,
    0x32, 0x0d, 0x00, 0x01, 0x0f, 0x30, 0x66, 0x0f, 0x01, 0x16, 0x80, 0x7c, 0x66, 0xb8, 0x11, 0x00,
    0x00, 0x80, 0x0f, 0x22, 0xc0, 0xea, 0x5a, 0x7c, 0x08, 0x00, 0x31, 0xc0, 0x0f, 0xa2, 0x85, 0xc0,
    0x74, 0x04, 0xb0, 0x2a, 0xe6, 0xf4, 0xf4, 0xeb, 0xfd, 0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9a, 0x20, 0x00,
    0x0f, 0x00, 0x70, 0x7c, 0x00, 0x00,
];

/// Firmware for QEMU's machine `virt` that asks PSCI (Arm DEN 0022, 5.1.9) to power off, upon which
/// QEMU exits with 0:
///
/// ```asm
///         movz    w0, #0x8400, lsl #16    // SYSTEM_OFF is 0x84000008
///         movk    w0, #0x0008
///         hvc     #0
///         b       .
/// ```
const ARM64: [u32; 4] = [0x52b0_8000, 0x7280_0100, 0xd400_0002, 0x1400_0000];

impl Accelerator {
    /// Probes the accelerator for machines of this architecture. A success is cached in `folder`
    /// until the host reboots. A failure is not cached on disk, as joining a group or loading a
    /// module may fix it.
    pub fn probe(architecture: Architecture, folder: &Path, report: &Report) -> Result<Self> {
        if std::env::consts::ARCH != architecture.machine() {
            return Ok(Accelerator::Tcg);
        }
        let hint = match kvm::access(Path::new(DEVICE)) {
            Access::Absent => return Ok(Accelerator::Tcg),
            Access::Refused { reason, hint } => {
                hint.map_or(reason.clone(), |hint| format!("{reason}: {hint}"))
            }
            Access::Open => match works(architecture, folder)? {
                None => return Ok(Accelerator::Kvm),
                Some(reason) => reason,
            },
        };
        if !REPORTED.swap(true, Ordering::Relaxed) {
            report.note(format!(
                "the node's processor is emulated, which is slow: `{DEVICE}` is there, but {hint}"
            ));
        }
        Ok(Accelerator::Tcg)
    }

    /// The value of QEMU's `-accel`.
    pub(super) fn argument(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg,thread=multi",
        }
    }
}

/// Probes KVM, and returns the reason if it does not work.
fn works(architecture: Architecture, folder: &Path) -> Result<Option<String>> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .or_build(|| "cannot read this boot's ID".to_owned())?;
    let kept = folder.join("accelerator");
    if std::fs::read_to_string(&kept).is_ok_and(|text| worked(&text, &boot)) {
        return Ok(None);
    }
    // Parallel machines in this process probe once. A failure is cached only here.
    static FAILED: Mutex<Option<String>> = Mutex::new(None);
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.is_none() {
        *failed = payload_fails("kvm", architecture, folder)?;
    }
    if failed.is_none() {
        std::fs::write(&kept, format!("{boot}{KVM_WORKED}\n"))
            .or_build(|| format!("cannot write `{}`", kept.display()))?;
    }
    Ok(failed.as_ref().map(|reason| format!("it does not work on this machine ({reason})")))
}

/// Whether the cache file reports a success in this boot. Its lines are the boot's ID and
/// [`KVM_WORKED`].
fn worked(text: &str, boot: &str) -> bool {
    text.strip_prefix(boot).is_some_and(|found| found.trim_end() == KVM_WORKED)
}

/// Runs the payload with this value of `-accel`, and returns QEMU's error if it fails.
fn payload_fails(
    accelerator: &str,
    architecture: Architecture,
    folder: &Path,
) -> Result<Option<String>> {
    let scratch = Scratch::near(folder)?;
    let path = scratch.path().join("payload");
    write_payload(architecture, &path).or_build(|| format!("cannot write `{}`", path.display()))?;
    let file = text(&path)?;
    let cannot = || "cannot capture QEMU's output".to_owned();
    let output = tempfile::NamedTempFile::new_in(scratch.path()).or_build(cannot)?;
    let arguments = match architecture {
        Architecture::Amd64 => vec![
            "-machine".to_owned(),
            AMD64_MACHINE.to_owned(),
            "-drive".to_owned(),
            format!("if=none,id=disk,format=raw,readonly=on,file={}", escaped(&file)),
            "-device".to_owned(),
            "virtio-blk-pci,drive=disk".to_owned(),
            "-device".to_owned(),
            "isa-debug-exit,iobase=0xf4,iosize=1".to_owned(),
        ],
        Architecture::Arm64 => {
            vec!["-machine".to_owned(), "virt".to_owned(), "-bios".to_owned(), file]
        }
    };
    let cpu = if accelerator == "kvm" { "host" } else { "max" };
    let mut child = Command::new(program(architecture))
        .args([
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-m",
            "32",
            "-accel",
            accelerator,
            "-cpu",
            cpu,
        ])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::from(output.reopen().or_build(cannot)?))
        .spawn()
        .map_err(|error| {
            super::not_started(program(architecture), package(architecture), &error)
        })?;
    let expected = if architecture == Architecture::Amd64 { AMD64_EXIT } else { 0 };
    match wait(&mut child)? {
        Some(status) if status.code() == Some(expected) => Ok(None),
        ended => Ok(Some(reason(ended, &std::fs::read(output.path()).or_build(cannot)?))),
    }
}

/// The first line of QEMU's output, as a register dump may follow, or else its exit status.
fn reason(ended: Option<ExitStatus>, output: &[u8]) -> String {
    let output = String::from_utf8_lossy(output);
    match output.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => format!("QEMU: {line}"),
        None => ended.map_or_else(
            || "QEMU timed out".to_owned(),
            |status| {
                format!(
                    "QEMU ended with \
            {status}"
                )
            },
        ),
    }
}

fn write_payload(architecture: Architecture, path: &Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    match architecture {
        Architecture::Amd64 => {
            let mut sector = [0; 512];
            sector[..AMD64.len()].copy_from_slice(&AMD64);
            sector[510..].copy_from_slice(&[0x55, 0xaa]);
            file.write_all(&sector)?;
            // The BIOS does not boot a disk of a single sector.
            file.set_len(1 << 20)
        }
        Architecture::Arm64 => file.write_all(ARM64.map(u32::to_le_bytes).as_flattened()),
    }
}

/// Waits for a child. After [`TIMEOUT`] it is killed, and the result is `None`.
fn wait(child: &mut std::process::Child) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + TIMEOUT;
    let cannot = || "cannot wait for QEMU".to_owned();
    while Instant::now() < end {
        if let Some(status) = child.try_wait().or_build(cannot)? {
            return Ok(Some(status));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().or_build(cannot)?;
    child.wait().or_build(cannot)?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_exits_on_a_working_accelerator() {
        let dir = tempfile::Builder::new().prefix("a, b").tempdir().unwrap();
        assert_eq!(payload_fails("tcg", Architecture::Amd64, dir.path()).unwrap(), None);
    }

    #[test]
    fn the_payload_for_arm64_matches_its_comment() {
        // The fields of the encodings are from the Arm ARM, C6.2.
        let movz_w0 = |half: u32, value: u32| 0x5280_0000 | half << 21 | value << 5;
        let movk_w0 = |half: u32, value: u32| 0x7280_0000 | half << 21 | value << 5;
        assert_eq!(ARM64[..2], [movz_w0(1, 0x8400), movk_w0(0, 8)]);
    }

    #[test]
    fn a_broken_accelerator_is_refused_with_qemus_error() {
        let dir = tempfile::tempdir().unwrap();
        let reason = payload_fails("no-such", Architecture::Amd64, dir.path()).unwrap().unwrap();
        assert!(reason.starts_with("QEMU: ") && reason.contains("no-such"), "{reason}");
    }

    #[test]
    fn only_a_success_of_this_boot_is_remembered() {
        assert!(worked("this-boot\nkvm with smm\n", "this-boot\n"));
        assert!(!worked("this-boot\nkvm\n", "this-boot\n"));
        assert!(!worked("this-boot\ntcg,thread=multi\n", "this-boot\n"));
        assert!(!worked("last-boot\nkvm with smm\n", "this-boot\n"));
    }

    #[test]
    fn a_probe_caches_only_a_success() {
        let dir = tempfile::tempdir().unwrap();
        let report = Report::new(crate::report::Verbosity::Quiet, crate::report::Color::Never);
        let found = Accelerator::probe(Architecture::Amd64, dir.path(), &report).unwrap();
        assert_eq!(dir.path().join("accelerator").exists(), found == Accelerator::Kvm);
    }
}
