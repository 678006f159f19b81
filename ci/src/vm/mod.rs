//! What is claimed of a running machine. One after another, with the code of `osbuild run`.

pub mod again;
pub mod boards;
pub mod boots;
pub mod cluster;
mod data;
pub mod ends;
pub mod inside;
pub mod installer;
pub mod interrupted;
pub mod joins;
mod kept;
mod kinds;
mod machine;
pub mod node;
pub mod ordinary;
pub mod own;
pub mod planted;
pub mod power;
mod qmp;
pub mod refusals;
pub mod sectors;
pub mod secure;
pub mod slots;
mod teller;
pub mod time;
pub mod update;
