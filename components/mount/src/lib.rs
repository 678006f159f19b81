//! `mount` and `umount` for a node on which only the kubelet executes them.
//!
//! They serve the argument lists that the kubelet and its volume code use, and refuse all others by
//! name: `calls.toml` beside this crate is the table of those calls with the source line that makes
//! each, and the tests hold it against the kubelet's source. Where the kubelet reads an answer
//! (exit codes, `not mounted`), and where a user reads one in a pod's events, the words and codes
//! are those of util-linux 2.38.
//!
//! One call goes [`request`] (argv) → [`plan`] (which system calls) → [`perform`] (makes them) →
//! [`failure`] (says what went wrong). All but `perform` and the looks at the file system in
//! `failure` are pure.
//!
//! They mount, so they refuse to run anywhere but on a node: see [`guard`].

pub mod failure;
pub mod guard;
pub mod option;
pub mod perform;
pub mod plan;
pub mod request;
