//! Prepares the disk of a volume: one that is blank is formatted, and one that is this volume
//! already is repaired as DATA is. Any other is refused, so nothing is ever overwritten.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use osbuild_disks::{Contents, look_for_contents, size as in_words};
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_formats::ext4::{self, Format, MIN_SIZE, Step};
use osbuild_formats::gpt::{Write, guid_from_name};
use osbuild_protocol::{VolumeName, VolumePhase};
use rustix::fs::OFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

/// The bytes of one write of zeros.
const CHUNK: u64 = 1 << 20;

/// A disk that can be mounted.
#[derive(Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Its size in bytes.
    pub size: u64,
    /// Lines for the console.
    pub notes: Vec<String>,
}

/// The identifier of a volume's file system. It follows from the name alone, so a disk that moves
/// to another machine is the same volume there, and no other file system has it by chance.
pub fn identifier(name: &VolumeName) -> Uuid {
    guid_from_name(&format!("volume {name}"))
}

/// Prepares a disk. Nothing else uses it meanwhile: no mount, and no other device that is made of
/// it.
///
/// # Errors
/// The phase of the volume then, and the reason.
pub fn prepare(device: &Path, name: &VolumeName) -> Result<Prepared, (VolumePhase, Failure)> {
    let failed = |failure| (VolumePhase::Failed, failure);
    let flags = (OFlags::EXCL | OFlags::NOFOLLOW).bits() as i32;
    let opened = File::options().read(true).write(true).custom_flags(flags).open(device);
    let mut disk = match opened {
        Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
            let text = format!("{} or a part of it is in use", device.display());
            return Err((VolumePhase::Refused, Failure::new(text)));
        }
        opened => opened.explain(format_args!("open {}", device.display())).map_err(failed)?,
    };
    let what = format!("read {}", device.display());
    let size = disk.seek(SeekFrom::End(0)).explain(&what).map_err(failed)?;
    let found = Found::on(&mut disk, size, name).explain(&what).map_err(failed)?;
    let notes = match found {
        Found::Blank | Found::Unfinished if size < MIN_SIZE => {
            let (size, least) = (in_words(size), in_words(MIN_SIZE));
            let text = format!("the disk has {size}, and a volume needs {least} at least");
            return Err((VolumePhase::Refused, Failure::new(text)));
        }
        Found::Blank | Found::Unfinished => {
            format(&disk, name)
                .explain(format_args!("format {}", device.display()))
                .map_err(failed)?;
            vec![format!("{} was blank, and is formatted", device.display())]
        }
        Found::Ours => match mend(&mut disk).explain(format_args!("mend {}", device.display())) {
            Ok(true) => vec!["a power cut tore its superblock, which is mended".to_owned()],
            Ok(false) => Vec::new(),
            // Mounting it says whether the damage matters.
            Err(failure) => vec![failure.to_string()],
        },
        Found::Foreign(what) => {
            let text = format!("the disk is not blank: it has {what}");
            return Err((VolumePhase::Refused, Failure::new(text)));
        }
    };
    Ok(Prepared { size, notes })
}

/// The contents of a disk.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Blank,
    /// A part of this volume's file system, as formatting was interrupted.
    Unfinished,
    /// This volume's file system.
    Ours,
    /// Something else, in words.
    Foreign(String),
}

impl Found {
    fn on(disk: &mut File, size: u64, name: &VolumeName) -> std::io::Result<Found> {
        // A smaller disk is no volume, and cannot be read at the places of one.
        if size >= MIN_SIZE {
            let identifier = identifier(name);
            if Format::is_unfinished(disk, identifier)? {
                return Ok(Found::Unfinished);
            }
            match ext4::identity(disk)? {
                Some(found) if found.uuid == identifier => return Ok(Found::Ours),
                Some(found) => {
                    let text = format!(
                        "an ext4 `{}` file system with the UUID {}; that of this volume is \
                         {identifier}",
                        found.label, found.uuid
                    );
                    return Ok(Found::Foreign(text));
                }
                None => {}
            }
        }
        Ok(match look_for_contents(disk, size)? {
            Contents::Blank => Found::Blank,
            Contents::Some(what) => Found::Foreign(what),
        })
    }
}

fn format(disk: &File, name: &VolumeName) -> Outcome {
    let mut hash_seed = [0; 16];
    getrandom(&mut hash_seed, GetRandomFlags::empty()).explain("ask for random bytes")?;
    // The format of the field ends in 2106.
    let time = u32::try_from(clock_gettime(ClockId::Realtime).tv_sec).unwrap_or_default();
    let format = Format { uuid: identifier(name), label: name.to_string(), hash_seed, time };
    format.steps().iter().try_for_each(|step| make(disk, step)).explain("write")
}

fn make(disk: &File, step: &Step) -> std::io::Result<()> {
    match step {
        Step::Write(Write { offset, bytes }) => disk.write_all_at(bytes, *offset),
        Step::Zero { offset, length } => {
            let zeros = vec![0; CHUNK as usize];
            let end = offset + length;
            let mut starts = (*offset..end).step_by(CHUNK as usize);
            starts.try_for_each(|at| disk.write_all_at(&zeros[..CHUNK.min(end - at) as usize], at))
        }
        Step::Flush => disk.sync_all(),
    }
}

/// Repairs a superblock that a power cut has torn. Returns whether it was torn.
fn mend(disk: &mut File) -> std::io::Result<bool> {
    let Some(write) = ext4::mend(disk)? else { return Ok(false) };
    disk.write_all_at(&write.bytes, write.offset)?;
    disk.sync_all().map(|()| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const SIZE: u64 = 300 << 20;

    fn name(text: &str) -> VolumeName {
        VolumeName::parse(text).unwrap()
    }

    /// A blank disk of so many bytes.
    fn blank(path: &Path, size: u64) {
        let _ = std::fs::remove_file(path);
        File::create_new(path).unwrap().set_len(size).unwrap();
    }

    fn refused(path: &Path, volume: &str) -> String {
        let before = std::fs::read(path).unwrap();
        let (phase, failure) = prepare(path, &name(volume)).unwrap_err();
        assert_eq!(phase, VolumePhase::Refused);
        assert!(before == std::fs::read(path).unwrap(), "not a byte changes");
        failure.to_string()
    }

    fn run(program: &str, arguments: &[&str], path: &Path) -> String {
        let ran = Command::new(program).args(arguments).arg(path).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    #[test]
    fn a_blank_disk_is_formatted_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("disk");
        blank(path, SIZE);
        let first = prepare(path, &name("db")).unwrap();
        assert_eq!((first.size, first.notes.len()), (SIZE, 1));
        run("/sbin/e2fsck", &["-f", "-n"], path);
        let shown = run("/sbin/dumpe2fs", &["-h"], path);
        assert!(shown.contains("Filesystem volume name:   db\n"), "{shown}");
        let formatted = std::fs::read(path).unwrap();
        assert_eq!(prepare(path, &name("db")).unwrap().notes, [""; 0]);
        assert!(formatted == std::fs::read(path).unwrap(), "not a byte changes");
        let reason = refused(path, "logs");
        assert!(reason.contains("it has an ext4 `db` file system with the UUID"), "{reason}");
    }

    #[test]
    fn a_disk_that_has_anything_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("disk");
        for (program, arguments, expected) in [
            (
                "/sbin/mkfs.xfs",
                &["-q", "-f"][..],
                "the disk is not blank: it has an xfs file system",
            ),
            ("/sbin/sgdisk", &["-o"], "the disk is not blank: it has a partition table (GPT)"),
            ("/sbin/mkswap", &["-q"], "the disk is not blank: it has data of swap"),
        ] {
            blank(path, SIZE);
            run(program, arguments, path);
            assert_eq!(refused(path, "db"), expected);
        }
        blank(path, 1 << 20);
        let expected = "the disk has 1.0 MB, and a volume needs 268.4 MB at least";
        assert_eq!(refused(path, "db"), expected);
        for size in [0, 100] {
            blank(path, size);
            assert!(refused(path, "db").ends_with("at least"));
        }
    }

    #[test]
    fn formatting_that_was_cut_off_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("disk");
        let format = Format {
            uuid: identifier(&name("db")),
            label: "db".to_owned(),
            hash_seed: [1; 16],
            time: 1,
        };
        let steps = format.steps();
        for cut in [1, 3, 5, steps.len() - 4, steps.len() - 2] {
            blank(path, SIZE);
            let disk = File::options().write(true).open(path).unwrap();
            steps[..cut].iter().try_for_each(|step| make(&disk, step)).unwrap();
            assert!(refused(path, "logs").starts_with("the disk is not blank"), "{cut}");
            assert_eq!(prepare(path, &name("db")).unwrap().notes.len(), 1, "{cut}");
            run("/sbin/e2fsck", &["-f", "-n"], path);
        }
    }

    #[test]
    fn an_ext4_that_gets_the_identifier_of_the_volume_is_that_volume() {
        let folder = tempfile::tempdir().unwrap();
        let path = &folder.path().join("disk");
        blank(path, SIZE);
        run("/sbin/mke2fs", &["-q", "-t", "ext4"], path);
        assert!(refused(path, "db").contains("that of this volume is "));
        run("/sbin/tune2fs", &["-U", &identifier(&name("db")).to_string()], path);
        assert_eq!(prepare(path, &name("db")).unwrap().notes, [""; 0]);
    }
}
