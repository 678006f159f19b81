//! The store, the executor and the graph together: in a real sandbox, killed, in parallel, on a
//! full disk.

mod apache;
mod bazel_remote;
mod bench;
mod buildgrid;
mod casd;
mod certificates;
mod credentials;
mod efi_file;
mod execution;
mod executor;
mod faults;
mod folder_worker;
mod launcher;
mod layers;
mod plain_cache;
mod proxy;
mod refusals;
mod remote;
