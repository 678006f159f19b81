//! The messages before a panic of the kernel, which the firmware has kept over the restart (pstore
//! of Linux). The next boot moves them to `/var/log/panic.log`, which makes room for those of
//! another panic.
//!
//! The messages of one panic are a few files, of which part 1 has the newest lines. The first line
//! of each names the panic and the part: `Panic#1 Part2`.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use osbuild_abi::console::PANIC;
use osbuild_abi::paths::{FIRMWARE_MESSAGES, LOGS};
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;
use x509_cert::der::DateTime;

use crate::data;

/// The log, and its name after another panic.
const LOG: &str = "panic.log";
const EARLIER: &str = "panic.log.1";
/// The permission bits of the log.
const MODE: u32 = 0o644;
/// How the names of files with kernel messages begin.
const PREFIX: &str = "dmesg-";
/// At most so many files are moved at a boot, and so many bytes of each. The kernel writes some
/// ten files of 1 KiB for a panic.
const MAX_FILES: usize = 256;
const MAX_BYTES: u64 = 64 << 10;
/// How many panics the console names.
const MAX_NAMED: usize = 4;
/// The text that the kernel prints before the reason of a panic.
const REASON: &str = "Kernel panic - not syncing: ";

/// Moves the messages to the log. Returns a line for each panic.
///
/// # Errors
/// They cannot be read, or the log cannot be written: then the firmware keeps them.
pub fn move_to_log() -> Outcome<Vec<String>> {
    let logs = || data::folder::behind(&data::folder::open()?, LOGS);
    move_from(Path::new(FIRMWARE_MESSAGES), logs)
}

fn move_from(store: &Path, logs: impl FnOnce() -> Outcome<Folder>) -> Outcome<Vec<String>> {
    let parts = read(store)?;
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let panics = Panic::group(&parts);
    let (logs, text) = (logs()?, panics.iter().map(Panic::to_string).collect::<String>());
    // The first panic has no log before it.
    let _ = logs.rename(LOG, EARLIER);
    logs.replace(LOG, text.as_bytes(), MODE).explain(format_args!("write {LOGS}/{LOG}"))?;
    for part in &parts {
        fs::remove_file(&part.path).explain(format_args!("remove {}", part.path.display()))?;
    }
    let newest = panics.len().saturating_sub(MAX_NAMED);
    Ok(panics[newest..].iter().map(Panic::line).collect())
}

/// One file of the store.
struct Part {
    path: PathBuf,
    /// When it was written, by the clock of that boot.
    time: SystemTime,
    /// The name of the panic, from the first line of the file: `Panic#1`.
    name: String,
    /// Its number, counted from the end of the messages.
    number: u32,
    text: String,
}

/// Reads the files of the store. On a machine without one the folder is empty, and a kernel without
/// pstore has no such folder.
fn read(store: &Path) -> Outcome<Vec<Part>> {
    let mut parts = Vec::new();
    let entries = match fs::read_dir(store) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(parts),
        entries => entries.explain(format_args!("list {}", store.display()))?,
    };
    for entry in entries.take(MAX_FILES) {
        let path = entry.explain(format_args!("list {}", store.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(PREFIX) {
            parts.push(Part::read(&path).explain(format_args!("read {}", path.display()))?);
        }
    }
    Ok(parts)
}

impl Part {
    fn read(path: &Path) -> std::io::Result<Part> {
        let file = fs::File::open(path)?;
        let time = file.metadata()?.modified()?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let (name, number) = first.split_once(" Part").unwrap_or((first, "1"));
        Ok(Part {
            path: path.to_owned(),
            time,
            name: name.to_owned(),
            number: number.trim().parse().unwrap_or(1),
            text: rest.trim_end_matches('\n').to_owned(),
        })
    }
}

/// The messages of one panic, oldest first.
struct Panic<'p> {
    time: SystemTime,
    name: &'p str,
    parts: Vec<&'p Part>,
}

impl<'p> Panic<'p> {
    /// The panics of these files, in order of time. The kernel writes part 1 first, and the others
    /// may be seconds later. It counts from 1 again after each restart.
    fn group(parts: &'p [Part]) -> Vec<Panic<'p>> {
        let mut ordered: Vec<&Part> = parts.iter().collect();
        ordered.sort_by_key(|part| (part.time, &part.name, part.number));
        let is_same = |one: &&Part, next: &&Part| one.name == next.name && one.number < next.number;
        let panic = |parts: &[&'p Part]| Panic {
            time: parts[0].time,
            name: &parts[0].name,
            parts: parts.iter().rev().copied().collect(),
        };
        ordered.chunk_by(is_same).map(panic).collect()
    }

    /// The line for the console.
    fn line(&self) -> String {
        let lines = self.parts.iter().rev().flat_map(|part| part.text.lines().rev());
        let reason = lines.clone().find_map(|line| Some(line.split_once(REASON)?.1));
        let reason = reason.unwrap_or(self.name);
        format!("{PANIC}{}: {reason} (see {LOGS}/{LOG})", utc(self.time))
    }
}

impl std::fmt::Display for Panic<'_> {
    /// As it is in the log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} at {}", self.name, utc(self.time))?;
        self.parts.iter().try_for_each(|part| writeln!(f, "{}", part.text))
    }
}

/// A time as `2026-11-25T02:03:04Z`.
fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = Duration::from_secs(since.as_secs());
    let at = DateTime::from_unix_duration(seconds);
    at.map_or_else(|_| "an unknown time".into(), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A store with these files, each with its time in seconds since 1970, and a folder for logs.
    fn places(files: &[(&str, u64, &[u8])]) -> (tempfile::TempDir, PathBuf, Folder) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap();
        let (store, logs) = (path.join("store"), path.join("logs"));
        fs::create_dir(&store).unwrap();
        fs::create_dir(&logs).unwrap();
        for (name, seconds, bytes) in files {
            fs::write(store.join(name), bytes).unwrap();
            let file = fs::File::options().write(true).open(store.join(name)).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_secs(*seconds)).unwrap();
        }
        (place, store, Folder::open(&logs, ".aside").unwrap())
    }

    fn moved(store: &Path, logs: &Folder) -> Outcome<Vec<String>> {
        let path = logs.path().to_owned();
        move_from(store, || Folder::open(&path, ".aside").explain("open the logs"))
    }

    fn log(logs: &Folder, name: &str) -> String {
        fs::read_to_string(logs.path().join(name)).unwrap()
    }

    const TWO_PARTS: [(&str, u64, &[u8]); 2] = [
        (
            "dmesg-efi_pstore-1",
            1_790_000_000,
            b"Panic#1 Part1\n<0>[    9.2] Kernel panic - not syncing: no init\n<4>[    9.3] end\n",
        ),
        // The firmware took a second to write part 1.
        ("dmesg-efi_pstore-2", 1_790_000_001, b"Panic#1 Part2\n<6>[    9.1] earlier\n"),
    ];

    #[test]
    fn the_parts_of_a_panic_become_one_log_in_order_and_leave_the_store() {
        let (_place, store, logs) = places(&TWO_PARTS);
        assert_eq!(
            moved(&store, &logs).unwrap(),
            [format!("{PANIC}2026-09-21T14:13:20Z: no init (see /var/log/panic.log)")]
        );
        assert_eq!(
            log(&logs, LOG),
            "Panic#1 at 2026-09-21T14:13:20Z\n<6>[    9.1] earlier\n\
             <0>[    9.2] Kernel panic - not syncing: no init\n<4>[    9.3] end\n"
        );
        assert_eq!(fs::read_dir(&store).unwrap().count(), 0);
        // The next boot finds nothing, and leaves the log as it is.
        assert_eq!(moved(&store, &logs).unwrap(), [""; 0]);
        assert!(log(&logs, LOG).contains("no init"));
    }

    #[test]
    fn each_boot_has_a_panic_of_its_own() {
        let (_place, store, logs) = places(&TWO_PARTS);
        let text = "Panic#1 Part1\n<0>[ 3.0] Kernel panic - not syncing: again\n";
        fs::write(store.join("dmesg-efi_pstore-0"), text).unwrap();
        let lines = moved(&store, &logs).unwrap();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains(": no init") && lines[1].contains(": again"), "{lines:?}");
    }

    #[test]
    fn the_log_of_the_panic_before_is_kept() {
        let (_place, store, logs) = places(&TWO_PARTS);
        moved(&store, &logs).unwrap();
        fs::write(store.join("dmesg-efi_pstore-3"), "Oops#1 Part1\n<1>[ 5.0] BUG: bad\n").unwrap();
        let lines = moved(&store, &logs).unwrap();
        assert!(lines[0].contains(": Oops#1 (see"), "{lines:?}");
        assert!(log(&logs, LOG).contains("BUG: bad") && log(&logs, EARLIER).contains("no init"));
    }

    #[test]
    fn the_firmware_keeps_messages_that_cannot_be_written() {
        let (_place, store, _logs) = places(&TWO_PARTS);
        assert!(move_from(&store, || Err(osbuild_failure::Failure::new("full"))).is_err());
        assert_eq!(fs::read_dir(&store).unwrap().count(), 2);
    }

    #[test]
    fn a_store_without_kernel_messages_makes_no_log() {
        let (_place, store, logs) = places(&[("pmsg-ramoops-0", 0, b"of a program")]);
        assert_eq!(moved(&store, &logs).unwrap(), [""; 0]);
        assert_eq!(fs::read_dir(&store).unwrap().count(), 1);
        assert!(!logs.path().join(LOG).exists());
    }

    #[test]
    fn a_kernel_without_a_store_has_no_messages() {
        let (_place, store, logs) = places(&[]);
        fs::remove_dir(&store).unwrap();
        assert_eq!(moved(&store, &logs).unwrap(), [""; 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_moved(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let (_place, store, logs) = places(&[("dmesg-erst-1", 0, &bytes)]);
            prop_assert_eq!(moved(&store, &logs).unwrap().len(), 1);
            prop_assert_eq!(fs::read_dir(&store).unwrap().count(), 0);
        }
    }
}
