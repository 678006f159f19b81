//! What is done with an image once it is there: [`inspect`] looks into it, [`run`] boots it.

pub mod boot;
pub mod console;
pub mod inspect;
pub mod machine;
pub mod node;
pub mod run;
