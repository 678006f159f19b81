//! Checks what the kubelet at the version in `calls.toml` does with `mount` and `umount` against
//! three oracles: its source, util-linux, and its own mount library, which calls our programs.
//!
//! Needs: `go` with access to its module proxy (or a filled module cache), util-linux, e2fsprogs, a
//! free loop device, and uid 0. If one of them is missing, the tests fail; they never skip.

mod calls;
mod golang;
mod mounter;
mod namespace;
mod programs;
mod readme;
mod refusals;
mod table;
mod util_linux;
