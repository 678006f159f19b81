//! Fuzz targets: every parser of ours that reads bytes which somebody else could have made. One
//! file a target.
//!
//! `cargo ci fuzz` runs each for a while. The engine is libFuzzer, by the crate `libfuzzer-sys`: it
//! compiles with g++, and the coverage that guides it needs nothing but LLVM's own passes, which
//! the pinned stable compiler has. Passed over were `cargo-fuzz`, a program more to install that
//! would only set the flags which the check sets; `afl.rs`, whose program compiles another LLVM
//! plugin and changes settings of the kernel; and `bolero`, which wraps both for tests that we have
//! as properties already. There is no sanitizer: the parsers are safe Rust, and AddressSanitizer
//! would need an unstable flag and made a trivial target ten times slower.
//!
//! What is lost with it, libFuzzer's limit on one allocation, [`Target::check`] does better: it
//! measures what an input made Rust allocate at one time and holds that against the input's length.
//! Inputs are small: what parsers read of larger things (a disk, a volume, an archive with
//! checksums) a target makes of them.
//!
//! Left out are parsers that others keep (`sntpc` of the pod `time`, `zip` for Go's modules), but
//! for `tough`, whose input a web server makes; and what a client has checked by then.

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
    use crate::target::Answer;
    use std::fs;
    use std::panic::catch_unwind;
    use std::path::Path;

    /// What of some inputs does not hold, each by a name.
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
    fn the_first_seed_of_each_target_is_taken() {
        let refuses = |target: &&Target| (target.run)(&(target.seeds)()[0]) == Answer::Refused;
        assert_eq!(
            TARGETS.iter().filter(refuses).map(|target| target.name).collect::<Vec<_>>(),
            [""; 0]
        );
    }

    #[test]
    fn what_was_found_once_holds_for_ever() {
        let files = |folder: &Path| {
            fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let folders = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions"));
        let failures = folders.iter().flat_map(|folder| {
            let target = find(&name(folder))
                .unwrap_or_else(|| panic!("{} belongs to no target", folder.display()));
            failures(files(folder).iter().map(|file| (name(file), fs::read(file).unwrap())), target)
        });
        assert_eq!(failures.collect::<Vec<_>>(), [""; 0]);
    }
}
