//! The store, the executor and the graph together: in a real sandbox, killed, in parallel, on a
//! full disk.

mod bench;
mod efi_file;
mod executor;
mod faults;
