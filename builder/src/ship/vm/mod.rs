//! A node in a virtual machine: [`run`] boots an image, [`machine`] is QEMU and its firmware,
//! [`running_node`] is the running machine with its [`console`], and [`boot`] is the report of one
//! boot. [`files`] are the files that a user gives to a node, and [`network`] is its network.

pub mod boot;
pub mod console;
pub mod files;
pub mod machine;
pub mod network;
pub mod run;
pub mod running_node;
