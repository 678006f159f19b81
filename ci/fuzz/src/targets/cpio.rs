//! An initramfs, as `osbuild inspect` reads it.

use osbuild_formats::cpio::{self, Entry};

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target =
    Target { name: "cpio", seeds, run, memory: Memory { base: 8 << 20, per_byte: 16 } };

fn run(input: &[u8]) -> Outcome {
    let read = cpio::read(input);
    // Other archives may repeat a path or lack a folder; our writer refuses both.
    if let Some((entries, archive)) =
        read.iter().find_map(|entries| Some((entries, cpio::write(entries, Vec::new()).ok()?)))
    {
        let again = cpio::read(&archive).expect("our own archive can be read");
        assert_eq!(sorted(&again), sorted(entries));
    }
    Outcome::of(&read)
}

fn sorted<'a, 'b>(entries: &'b [Entry<'a>]) -> Vec<&'b Entry<'a>> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by_key(|entry| &*entry.path);
    sorted
}

fn seeds() -> Vec<Vec<u8>> {
    let all = [
        Entry::directory("/dev", 0o755),
        Entry::char_device("/dev/console", 0o600, 5, 1),
        Entry::file("/init", 0o755, &b"\x7fELF"[..]),
        Entry::symlink("/dev/fd", "/proc/self/fd"),
    ];
    vec![cpio::write(&all, Vec::new()).expect("the entries are valid")]
}
