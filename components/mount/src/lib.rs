//! `mount`, `umount` and `losetup` for a node on which only the kubelet executes them.
//!
//! They support the calls of the kubelet and its volume code, and refuse all others with a message
//! that names what is not supported. `calls.toml` lists those calls with their source lines, and
//! the tests compare it with the kubelet's source. Messages and exit codes that the kubelet parses,
//! or that users see in a pod's events, are those of util-linux 2.38.
//!
//! A call passes through [`request`] (argv), [`plan`] (the system calls), [`perform`] (makes them)
//! and [`failure`] (explains an error). All are pure, except `perform` and what `failure` inspects
//! in the file system.
//!
//! `losetup` is a second name of the program `mount`: [`loop_request`] parses its arguments, and
//! [`loop_device`] makes its system calls.
//!
//! They refuse to run anywhere but on a node: see [`guard`].

pub mod failure;
pub mod guard;
pub mod loop_device;
pub mod loop_request;
pub mod option;
pub mod perform;
pub mod plan;
pub mod request;
