//! From a locked plan to files: actions, the store that keeps their results, and the executor that runs them.

pub mod action;
mod deb;
pub mod digest;
pub mod disk;
pub mod executor;
pub mod graph;
pub mod reapi;
pub mod sandbox;
pub mod stop;
pub mod store;
