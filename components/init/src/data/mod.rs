//! DATA, the one partition that persists: it is found on the disk that the node was booted from,
//! grown to that disk, and mounted.

pub mod containerd_reset;
pub mod disks;
pub mod folder;
pub mod grow;
pub mod identity;
pub mod log;
pub mod log_files;
pub mod machine_id;
pub mod mount;
pub mod name_file;
pub mod obstacles;
pub mod old_images;
pub mod panics;
#[cfg(test)]
mod release_3366aed;
pub mod reserve;
pub mod reset;
pub mod room;
pub mod secret;
pub mod tidy;
pub mod volumes;
pub mod writable;
pub mod writer;
