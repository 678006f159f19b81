//! What `init` reads that other programs have written: the lines of daemons, names, the kernel's
//! table of mounts, firmware variables. It is a library so that the fuzzer reaches it; the program
//! is `main.rs`.

#![deny(unsafe_code)]

mod text;

pub use text::{lines, mountinfo, name, variable};
