//! The store, the executor and the graph together: in a real sandbox, killed, in parallel, on a
//! full disk.

mod bench;
mod casd;
mod credentials;
mod efi_file;
mod execution;
mod executor;
mod faults;
mod proxy;
mod refusals;
mod remote;
