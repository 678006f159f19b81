//! Checks the programs that run on the node outside pods.

use crate::engine::digest::Digest;
use crate::error::{Context, Error, Result};
use crate::plan::Architecture;
use object::Endianness;
use object::elf;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use osbuild_formats::pe;

/// Folders that only the sandbox or a build machine has. They are this specific because programs
/// legitimately contain paths with `/build/` and `/home/`, such as `/lib/modules/…/build/`.
const FOREIGN_PATHS: [&str; 11] = [
    "/.cargo/registry/",
    "/build/around/",
    "/build/cache/",
    "/build/cargo/",
    "/build/modules/",
    "/build/proxy/",
    "/build/sysroot/",
    "/build/vendor/",
    "/build/workspace/",
    "/toolchain/go/",
    "/toolchain/rust/",
];

/// The subsystem of a UEFI application in the header of a PE file.
const UEFI_APPLICATION: u16 = 10;

/// The digest of these rules, all of which are in this file. It is part of the key of a passed
/// check.
pub fn rules() -> Digest {
    Digest::of(include_bytes!("binary.rs"))
}

/// Checks that `bytes` is a static program for `architecture`, without paths of the build and
/// without a build ID.
///
/// # Errors
/// All faults, as causes of one error.
pub fn check(name: &str, bytes: &[u8], architecture: Architecture) -> Result<()> {
    let faults = if bytes.starts_with(b"#!") {
        vec!["it is a script".to_owned()]
    } else {
        faults(bytes, architecture)
    };
    if faults.is_empty() {
        return Ok(());
    }
    let error = Error::build(format!("`{name}` cannot be installed on the node"));
    Err(faults
        .into_iter()
        .fold(error, |error, fault| error.cause(fault))
        .hint("host binaries are static ELF programs of the board's architecture"))
}

/// Checks that `bytes` is a UEFI application for `architecture`, without paths of the build.
///
/// # Errors
/// All faults, as causes of one error.
pub fn check_uefi(name: &str, bytes: &[u8], architecture: Architecture) -> Result<()> {
    let image = pe::Image::parse(bytes)
        .or_build(|| format!("`{name}` cannot be started by the firmware"))?;
    let mut faults = Vec::new();
    if image.machine != pe_machine(architecture) {
        faults.push(format!(
            "it is for machine {:#x} of the PE specification, not for {architecture}",
            image.machine
        ));
    }
    if image.subsystem != UEFI_APPLICATION {
        faults.push(format!("it is for subsystem {}, not a UEFI application", image.subsystem));
    }
    faults.extend(foreign_paths(bytes));
    if faults.is_empty() {
        return Ok(());
    }
    let error = Error::build(format!("`{name}` cannot be installed on the node"));
    Err(faults.into_iter().fold(error, Error::cause))
}

fn faults(bytes: &[u8], architecture: Architecture) -> Vec<String> {
    let Ok(header) = elf::FileHeader64::<Endianness>::parse(bytes) else {
        return vec!["it is not a 64-bit ELF file".into()];
    };
    let (Ok(endian), wanted) = (header.endian(), machine(architecture)) else {
        return vec!["its byte order is unknown".into()];
    };
    let mut faults = Vec::new();
    if header.e_machine(endian) != wanted {
        faults.push(format!(
            "it is for machine {} of the ELF specification, not for {architecture}",
            header.e_machine(endian).0
        ));
    }
    match header.program_headers(endian, bytes) {
        Ok(segments) => {
            faults.extend(segments.iter().filter_map(|segment| fault(segment, endian, bytes)))
        }
        Err(_) => faults.push("its program headers are damaged".into()),
    }
    faults.extend(foreign_paths(bytes));
    faults
}

fn foreign_paths(bytes: &[u8]) -> impl Iterator<Item = String> {
    let found = FOREIGN_PATHS.into_iter().filter(|path| contains(bytes, path.as_bytes()));
    found.map(|path| format!("it holds a path below `{path}`"))
}

/// The machine's number in the header of a PE file (UEFI 2.10, 2.1.1).
fn pe_machine(architecture: Architecture) -> u16 {
    match architecture {
        Architecture::Amd64 => 0x8664,
        Architecture::Arm64 => 0xAA64,
    }
}

/// The machine's number in the header of an ELF file.
pub fn machine(architecture: Architecture) -> elf::Machine {
    match architecture {
        Architecture::Amd64 => elf::EM_X86_64,
        Architecture::Arm64 => elf::EM_AARCH64,
    }
}

fn fault(
    segment: &elf::ProgramHeader64<Endianness>,
    endian: Endianness,
    bytes: &[u8],
) -> Option<String> {
    match segment.p_type(endian) {
        elf::PT_INTERP => Some("it names an interpreter, so it is dynamically linked".into()),
        elf::PT_DYNAMIC => {
            let entries = segment.dynamic(endian, bytes).ok().flatten()?;
            entries
                .iter()
                .any(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED.0 as i32))
                .then(|| "it needs a shared library".into())
        }
        elf::PT_NOTE => {
            let mut notes = segment.notes(endian, bytes).ok().flatten()?;
            let mut found = false;
            while let Ok(Some(note)) = notes.next() {
                found |= note.name() == b"GNU" && note.n_type(endian) == elf::NT_GNU_BUILD_ID;
            }
            found.then(|| "it has a build id".into())
        }
        _ => None,
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program that runs this test: dynamically linked, as every program of the build machine.
    fn dynamic() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    #[test]
    fn a_dynamic_program_is_refused() {
        let error = check("kubelet", &dynamic(), Architecture::Amd64).unwrap_err();
        assert!(
            error.problems[0].causes.iter().any(|cause| cause.contains("dynamically linked")),
            "{error}"
        );
    }

    #[test]
    fn a_script_is_refused() {
        let error = check("mount", b"#!/bin/sh\n", Architecture::Amd64).unwrap_err();
        assert_eq!(error.problems[0].causes, ["it is a script"]);
    }

    #[test]
    fn another_architecture_is_refused() {
        let error = check("runc", &dynamic(), Architecture::Arm64).unwrap_err();
        assert!(error.problems[0].causes[0].contains("not for arm64"), "{error}");
    }

    /// A static program for the machine that runs this test, linked with `flags`.
    fn linked(flags: &[&str], text: &str) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("main.c"), folder.path().join("main"));
        let code =
            format!("const char text[] = \"{text}\"; int main(void) {{ return text[0] == 0; }}\n");
        std::fs::write(&source, code).unwrap();
        let status = std::process::Command::new("cc")
            .args(["-static", "-s"])
            .args(flags)
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .status();
        assert!(status.unwrap().success());
        std::fs::read(program).unwrap()
    }

    #[test]
    fn a_build_id_is_refused_and_without_one_the_same_program_passes() {
        let architecture =
            if cfg!(target_arch = "x86_64") { Architecture::Amd64 } else { Architecture::Arm64 };
        check("runc", &linked(&["-Wl,--build-id=none"], "nothing"), architecture).unwrap();
        let error =
            check("runc", &linked(&["-Wl,--build-id"], "nothing"), architecture).unwrap_err();
        assert_eq!(error.problems[0].causes, ["it has a build id"]);
    }

    #[test]
    fn a_path_of_the_build_is_refused() {
        let architecture =
            if cfg!(target_arch = "x86_64") { Architecture::Amd64 } else { Architecture::Arm64 };
        for path in FOREIGN_PATHS {
            let error = check(
                "runc",
                &linked(&["-Wl,--build-id=none"], &format!("{path}main.c")),
                architecture,
            )
            .unwrap_err();
            assert!(
                error.problems[0].causes.contains(&format!("it holds a path below `{path}`")),
                "{error}"
            );
        }
    }

    #[test]
    fn the_firmware_is_given_a_uefi_application_alone() {
        let kernel = std::fs::read("/usr/lib/systemd/boot/efi/linuxx64.efi.stub").unwrap();
        assert_eq!(check_uefi("slotboot.efi", &kernel, Architecture::Amd64), Ok(()));
        assert!(check_uefi("slotboot.efi", &kernel, Architecture::Arm64).is_err());
        assert!(check_uefi("slotboot.efi", &dynamic(), Architecture::Amd64).is_err());
        let subsystem =
            u32::from_le_bytes(kernel[0x3C..0x40].try_into().unwrap()) as usize + 24 + 68;
        let mut driver = kernel;
        driver[subsystem] = 11;
        assert!(check_uefi("slotboot.efi", &driver, Architecture::Amd64).is_err());
    }

    #[test]
    fn damaged_headers_are_refused_and_do_not_panic() {
        let whole = dynamic();
        for length in [0, 3, 16, 63, 64, 100] {
            assert!(
                check("init", &whole[..length], Architecture::Amd64).is_err(),
                "{length} bytes"
            );
        }
    }
}
