//! What the kubelet at the version in `calls.toml` does with `mount` and `umount`, held against
//! three oracles: its own source, util-linux, and its own mount library driving our programs.
//!
//! Needs: `go` with access to its module proxy (or a filled module cache), util-linux, e2fsprogs, a
//! free loop device, and uid 0. Without one of them the tests fail; they never skip.

mod calls;
mod golang;
mod mounter;
mod namespace;
mod programs;
mod readme;
mod refusals;
mod table;
mod util_linux;
