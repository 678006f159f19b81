//! A node in a virtual machine: [`run`] boots an image, [`machine`] is QEMU and its firmware,
//! [`node`] is the running machine with its [`console`], and [`boot`] is what one boot reported.

pub mod boot;
pub mod console;
pub mod machine;
pub mod node;
pub mod run;
