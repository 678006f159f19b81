//! The library behind the `osbuild` program: a recipe becomes a plan, a plan a lock, a lock an
//! image, an image a running node.
//!
//! Dependencies run one way: [`plan`] is pure and knows nothing of the others, [`produce`] turns a
//! plan into files, [`ship`] uses what was produced. [`error`] and [`report`] are beneath all
//! three.

pub mod checkout;
pub mod cli;
pub mod error;
pub mod host;
pub mod pipeline;
pub mod plan;
pub mod produce;
pub mod report;
pub mod ship;
pub mod verbs;
