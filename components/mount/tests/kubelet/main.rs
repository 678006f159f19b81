//! Checks what the kubelet at the version in `calls.toml` does with `mount`, `umount` and `losetup`
//! against three oracles: its source, util-linux, and its own mount library and block volume code,
//! which call our programs.
//!
//! Needs: `go` with access to its module proxy (or a filled module cache), util-linux, e2fsprogs,
//! free loop devices, and uid 0. If one of them is missing, the tests fail; they never skip.

mod calls;
mod golang;
mod loops;
mod mounter;
mod namespace;
mod programs;
mod readme;
mod refusals;
mod table;
mod util_linux;
