//! What is done with an image once it is there: [`run`] boots it.

pub mod boot;
pub mod console;
pub mod machine;
pub mod node;
pub mod run;
