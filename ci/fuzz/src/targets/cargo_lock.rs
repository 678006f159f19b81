//! `Cargo.lock`, from which the builder reads the crates of the node's programs.

use std::collections::BTreeSet;

use osbuild::plan::CargoLock;

use crate::target::{Memory, Outcome, Target};

/// See the module.
pub const TARGET: Target =
    Target { name: "cargo_lock", seeds, run, memory: Memory::per_byte(1024) };

fn run(input: &[u8]) -> Outcome {
    let Ok(text) = str::from_utf8(input) else { return Outcome::Refused };
    let read = CargoLock::parse(text).and_then(|lock| lock.closure(&BTreeSet::from(["init"])));
    match &read {
        Ok(closure) => {
            assert!(closure.has("init"));
            assert!(closure.crates.is_sorted(), "crates are sorted");
            assert!(
                closure.crates.iter().all(|krate| closure.has_version(&krate.name, &krate.version))
            );
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    Outcome::of(&read)
}

fn seeds() -> Vec<Vec<u8>> {
    let member = "[[package]]\nname = \"init\"\nversion = \"0.1.0\"\n\
                  dependencies = [\"abi\", \"libc 0.2.1\", \"libc 0.1.0 (registry+x)\"]\n";
    let abi = "[[package]]\nname = \"abi\"\nversion = \"0.1.0\"\ndependencies = [\"init\"]\n";
    let libc = |version: &str, from: &str| {
        format!(
            "[[package]]\nname = \"libc\"\nversion = \"{version}\"\nsource = \"{from}\"\n\
             checksum = \"aa\"\n"
        )
    };
    let whole = |from: &str| {
        format!("version = 4\n{member}{abi}{}{}", libc("0.2.1", from), libc("0.1.0", from))
            .into_bytes()
    };
    vec![whole("registry+x"), whole("git+x")]
}
