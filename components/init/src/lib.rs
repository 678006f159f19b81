//! The parsers for the texts and bytes that `init` reads from other programs: the lines of daemons,
//! names, the kernel's tables of mounts, routes, memory and swap, and its files about processes,
//! firmware variables, network configurations of pods, responses of the API server, and what people
//! type at a console. They are a library so that the fuzzer reaches them; the program is `main.rs`.

#![deny(unsafe_code)]

mod text;

pub use text::{
    api_response, cni, console_command, daemon_line, lines, meminfo, mountinfo, name, process,
    routes, swaps, variable,
};
