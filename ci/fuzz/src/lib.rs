//! Fuzz targets: each of our parsers of untrusted bytes, one file a target.
//!
//! `cargo ci fuzz` runs every target. The engine is libFuzzer from the crate `libfuzzer-sys`: it
//! compiles with g++, and its coverage needs only LLVM's own passes, which the pinned stable
//! compiler has. We decided against three alternatives: `cargo-fuzz` is one more program to install
//! and only sets the flags that the check sets; `afl.rs` compiles another LLVM plugin and changes
//! settings of the kernel; `bolero` wraps both for tests that already exist here as properties. No
//! sanitizer runs: the parsers are safe Rust, and AddressSanitizer needs an unstable flag and made
//! a trivial target ten times slower.
//!
//! libFuzzer limits the size of one allocation only with a sanitizer. [`Target::check`] is
//! stricter: it compares the peak of Rust's allocations with the input's length. Inputs are small:
//! a target builds larger objects (a disk, a volume, an archive with checksums) from them.
//!
//! Parsers of other projects have no target (`ureq` and `serde_json` for the metadata services of
//! clouds, `zip` for Go's modules), except `tough` and `sntpc`, whose input comes from any server.
//! Inputs that a client has verified before it parses them have none either.

pub mod documents;
pub mod patch;
pub mod target;
mod targets;

pub use target::Target;
pub use targets::TARGETS;

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Outcome;
    use std::fs;
    use std::panic::catch_unwind;
    use std::path::Path;

    /// The names of inputs that break a property.
    fn failures(
        inputs: impl IntoIterator<Item = (String, Vec<u8>)>,
        target: &'static Target,
    ) -> Vec<String> {
        let fails = |input: &[u8]| catch_unwind(|| target.check(input)).is_err();
        inputs
            .into_iter()
            .filter(|(_, input)| fails(input))
            .map(|(name, _)| format!("{} {name}", target.name))
            .collect()
    }

    #[test]
    fn every_seed_holds() {
        let seeds =
            |target: &Target| (0..).map(|number: usize| number.to_string()).zip((target.seeds)());
        assert_eq!(
            TARGETS.iter().flat_map(|target| failures(seeds(target), target)).collect::<Vec<_>>(),
            [""; 0]
        );
    }

    #[test]
    fn the_first_seed_of_each_target_is_accepted() {
        let refuses = |target: &&Target| (target.run)(&(target.seeds)()[0]) == Outcome::Refused;
        assert_eq!(
            TARGETS.iter().filter(refuses).map(|target| target.name).collect::<Vec<_>>(),
            [""; 0]
        );
    }

    #[test]
    fn every_regression_holds() {
        let files = |folder: &Path| {
            fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let folders = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions"));
        let failures = folders.iter().flat_map(|folder| {
            let target = find(&name(folder))
                .unwrap_or_else(|| panic!("{} is the folder of no target", folder.display()));
            failures(files(folder).iter().map(|file| (name(file), fs::read(file).unwrap())), target)
        });
        assert_eq!(failures.collect::<Vec<_>>(), [""; 0]);
    }
}
