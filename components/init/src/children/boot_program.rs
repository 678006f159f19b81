//! `init boot-program DEVICE` reads slotboot from its standard input and replaces the one on the
//! system partition.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use osbuild_abi::disk::{BOOT_PROGRAM_AMD64, BOOT_PROGRAM_ARM64};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_formats::epoch;
use osbuild_formats::fat;
use osbuild_formats::gpt::Write;
use osbuild_formats::pe::Image;
use osbuild_protocol::MAX_BOOT_PROGRAM;

/// The path that firmware starts, and the machine number in a PE file (UEFI 2.10, 2.1.1).
const HERE: (&str, u16) = if cfg!(target_arch = "aarch64") {
    (BOOT_PROGRAM_ARM64, 0xAA64)
} else {
    (BOOT_PROGRAM_AMD64, 0x8664)
};
/// The subsystem of a UEFI application.
const APPLICATION: u16 = 10;

/// Replaces slotboot with `input`. At every instant the partition has the old program or the new
/// one.
pub fn replace(device: &Path, input: impl Read) -> Outcome {
    let mut program = Vec::new();
    input.take(MAX_BOOT_PROGRAM + 1).read_to_end(&mut program).explain("read the boot program")?;
    check(&program)?;
    let name = device.display();
    let disk =
        File::options().read(true).write(true).open(device).explain(format_args!("open {name}"))?;
    for write in writes(&disk, &program).explain(format_args!("read {name}"))? {
        // Each write has to be on the medium before the next one begins: that makes a power cut
        // harmless.
        disk.write_all_at(&write.bytes, write.offset)
            .and_then(|()| disk.sync_all())
            .explain(format_args!("write {name}"))?;
    }
    Ok(())
}

/// Refuses a program that this machine's firmware could not start. The firmware verifies its
/// signature.
fn check(program: &[u8]) -> Outcome {
    if program.len() as u64 > MAX_BOOT_PROGRAM {
        return Err(Failure::new(format!("a boot program has at most {MAX_BOOT_PROGRAM} bytes")));
    }
    let image = Image::parse(program).explain("read the boot program")?;
    if (image.machine, image.subsystem) != (HERE.1, APPLICATION) {
        return Err(Failure::new("the boot program is not a UEFI application for this machine"));
    }
    Ok(())
}

/// The writes that replace the program; none if it is there already.
fn writes(mut disk: &File, program: &[u8]) -> Outcome<Vec<Write>> {
    let mut volume = Vec::new();
    disk.read_to_end(&mut volume).explain("read the file system")?;
    let path = format!("/{}", HERE.0);
    let there = fat::find(&volume, &path).explain("look into the file system")?.unwrap_or_default();
    if there == program {
        return Ok(Vec::new());
    }
    // An older program may have a hole that its successor has closed, or ignore epochs.
    let (old, new) = (epoch_of(&there).unwrap_or(0), epoch_of(program)?);
    if new < old {
        return Err(Failure::new(format!(
            "the boot program has security epoch {new}, the installed one has epoch {old}"
        )));
    }
    fat::replace(&volume, &path, program).explain("replace the boot program")
}

fn epoch_of(program: &[u8]) -> Outcome<u32> {
    let image = Image::parse(program).explain("read the boot program")?;
    epoch::of(&image).explain("read the boot program")
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_formats::fat::{File as Held, Volume};
    use std::process::Command;

    /// The smallest PE file that can be read, with `content` to distinguish it from others.
    fn program(machine: u16, subsystem: u16, content: u8) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, b"MZ");
        put(0x3C, &0x40u32.to_le_bytes());
        put(0x40, b"PE\0\0");
        put(0x44, &machine.to_le_bytes());
        put(0x54, &240u16.to_le_bytes());
        put(0x58, &0x20Bu16.to_le_bytes());
        // SectionAlignment, FileAlignment and SizeOfHeaders.
        put(0x58 + 32, &4096u32.to_le_bytes());
        put(0x58 + 36, &512u32.to_le_bytes());
        put(0x58 + 60, &0x400u32.to_le_bytes());
        put(0x58 + 68, &subsystem.to_le_bytes());
        put(0x58 + 108, &16u32.to_le_bytes());
        bytes.extend([content; 3000]);
        bytes
    }

    fn system(program: Vec<u8>) -> tempfile::NamedTempFile {
        let volume = Volume { sector_size: 512, size: 40 << 20, label: "ESP", id: 1 };
        let file = tempfile::NamedTempFile::new().unwrap();
        let held = Held { path: format!("/{}", HERE.0), bytes: program };
        std::fs::write(file.path(), volume.write(&[held]).unwrap()).unwrap();
        file
    }

    fn copied(device: &Path) -> Vec<u8> {
        let mut mtype = Command::new("mtype");
        mtype.arg("-i").arg(device).arg(format!("::/{}", HERE.0));
        mtype.output().expect("mtools are installed").stdout
    }

    #[test]
    fn mtools_read_the_new_program_and_fsck_finds_no_error() {
        let (old, new) = (program(HERE.1, APPLICATION, 1), program(HERE.1, APPLICATION, 2));
        let device = system(old.clone());
        assert!(copied(device.path()) == old);
        replace(device.path(), &new[..]).unwrap();
        assert!(copied(device.path()) == new);
        let checked = Command::new("fsck.fat")
            .arg("-n")
            .arg(device.path())
            .output()
            .expect("dosfstools are installed");
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    }

    #[test]
    fn an_identical_program_is_not_written() {
        let device = system(program(HERE.1, APPLICATION, 1));
        let disk = File::open(device.path()).unwrap();
        assert_eq!(writes(&disk, &program(HERE.1, APPLICATION, 1)), Ok(vec![]));
    }

    #[test]
    fn a_program_of_an_older_security_epoch_is_refused() {
        let plain = |content| program(HERE.1, APPLICATION, content);
        let of = |number, content| epoch::stamp(&plain(content), number).unwrap();
        let device = system(of(2, 1));
        for (older, word) in [(of(1, 2), "epoch 1"), (plain(3), "epoch 0")] {
            assert!(replace(device.path(), &older[..]).unwrap_err().to_string().contains(word));
            assert!(copied(device.path()) == of(2, 1));
        }
        for new in [of(2, 4), of(3, 5)] {
            replace(device.path(), &new[..]).unwrap();
            assert!(copied(device.path()) == new);
        }
    }

    #[test]
    fn a_program_that_the_firmware_could_not_start_is_refused() {
        let good = program(HERE.1, APPLICATION, 1);
        let device = system(good.clone());
        let too_long = [good.clone(), vec![0; MAX_BOOT_PROGRAM as usize]].concat();
        for wrong in [
            vec![],
            b"MZ".to_vec(),
            program(0x14C, APPLICATION, 1),
            program(HERE.1, 11, 1),
            too_long,
        ] {
            assert!(replace(device.path(), &wrong[..]).is_err());
        }
        assert!(copied(device.path()) == good);
    }
}
