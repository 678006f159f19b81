//! From a locked plan to files: actions, the store that keeps their results, and the executor that
//! runs them.

pub mod action;
pub mod assemble;
pub mod aws;
pub mod compile;
pub mod copy;
pub mod deb;
pub mod digest;
pub mod disk;
pub mod executor;
pub mod exported;
pub mod fetch;
pub mod graph;
pub mod image;
pub mod inventory;
pub mod out;
pub mod podimage;
pub mod reapi;
pub mod root;
pub mod sandbox;
pub mod sign;
pub mod stages;
pub mod stop;
pub mod store;
pub mod toolchain;
