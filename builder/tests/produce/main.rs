//! The store, the executor and the graph together: in a real sandbox, killed, side by side, on a
//! full disk.

mod bench;
mod efi_file;
mod executor;
mod faults;
