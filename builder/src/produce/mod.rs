//! From a locked plan to files: the stages of a build, each of which describes its work to the
//! [`engine`](crate::engine) and returns what the next stage takes.

pub mod assemble;
pub mod aws;
pub mod compile;
pub mod copy;
pub mod exported;
pub mod fetch;
pub mod image;
pub mod inventory;
pub mod out;
pub mod podimage;
pub mod root;
pub mod sign;
pub mod stages;
