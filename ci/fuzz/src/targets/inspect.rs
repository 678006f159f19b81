//! Files for `osbuild inspect`: an initramfs, or a UKI with one. `gpt` and `fat` cover disks.

use std::fs;

use osbuild::ship::audit::inspect::inspect;
use osbuild_formats::cpio::{self, Entry};

use super::{erofs, pe};
use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target =
    Target { name: "inspect", seeds, run, memory: Memory { base: 8 << 20, per_byte: 2048 } };

const INVENTORY: &str = r#"{ "recipe": "node", "architecture": "amd64", "lock": "ab", "epoch": 1,
    "kernel": "6.12.1", "prebuilt": {"a": "1"}, "pods": {},
    "binaries": [{ "name": "init", "component": "init", "version": "0.1.0", "size": 4,
        "sha256": "3bdbb4fe8397cd2b842430b39ccff01a8663c751945ef5e9a09e267fb8b1d359" }] }"#;

fn run(input: &[u8]) -> Outcome {
    let file = tempfile::NamedTempFile::new().expect("a temporary folder can be made");
    fs::write(file.path(), input).expect("a file can be written");
    let found = inspect(file.path());
    if let Ok(found) = &found {
        assert_eq!(found.size, input.len() as u64);
        assert!(!found.to_string().is_empty());
    }
    Outcome::of(&found)
}

fn seeds() -> Vec<Vec<u8>> {
    let layer = erofs::image(&[]);
    let entries = [
        Entry::file("/init", 0o755, &b"\x7fELF"[..]),
        Entry::file("/osbuild.json", 0o444, INVENTORY.as_bytes()),
        Entry::directory("/layers", 0o755),
        Entry::file("/layers/00-base.erofs", 0o444, layer.as_slice()),
    ];
    let initramfs = cpio::write(&entries, Vec::new()).expect("the entries are valid");
    vec![initramfs.clone(), pe::uki_with(&initramfs)]
}
