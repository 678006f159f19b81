//! The store, the executor and the graph together: in a real sandbox, killed, side by side, on a full disk.

mod bench;
mod executor;
mod faults;
