//! An initramfs, as `osbuild inspect` reads it: archives, each compressed or not.

use osbuild_formats::cpio::{self, Entry, Segment};

use crate::target::{Answer, Memory, Target};

/// See the module. A compressed segment may hold 256 times what it takes, twice while it is read.
pub const TARGET: Target = Target { name: "cpio", seeds, run, memory: Memory { base: 8 << 20, per_byte: 1024 } };

fn run(input: &[u8]) -> Answer {
    let read = cpio::read(input);
    for Segment { entries, size, .. } in read.iter().flatten() {
        assert!(*size <= input.len());
        // Somebody else's archive may have a path twice, or lack a folder: ours does not.
        let Ok(archive) = cpio::write(entries, Vec::new()) else { continue };
        let again = cpio::read(&archive).expect("what was written is read");
        let [Segment { entries: found, .. }] = again.as_slice() else { panic!("one archive is one segment") };
        assert_eq!(sorted(found), sorted(entries));
    }
    Answer::of(&read)
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
    let plain = cpio::write(&all, Vec::new()).expect("the entries are sound");
    let packed = cpio::compress(&plain, 3, 1, Vec::new()).expect("memory can be written");
    let row = cpio::join([&*plain, &*packed, &*plain], Vec::new()).expect("memory can be written");
    vec![plain, packed, row]
}
