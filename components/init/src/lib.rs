//! What `init` reads that others have written, apart from what it does with that: the lines of
//! clients and daemons, names, the kernel's table of mounts, firmware variables. All of it is pure.
//! It is a library so that the fuzzer reaches it; the program is `main.rs`.

#![deny(unsafe_code)]

pub mod lines;
pub mod mountinfo;
pub mod name;
pub mod variable;
