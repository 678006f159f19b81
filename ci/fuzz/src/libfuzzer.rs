//! libFuzzer's program for every target. `FUZZ_TARGET` names the target to run; the arguments are
//! libFuzzer's own.

#![no_main]

use std::sync::LazyLock;

use fuzz::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    fuzz::find(&name).unwrap_or_else(|| panic!("`FUZZ_TARGET` names no target: `{name}`"))
});

fuzz_target!(|input: &[u8]| {
    TARGET.check(input);
});
