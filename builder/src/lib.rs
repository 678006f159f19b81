//! The library behind the `osbuild` program: a recipe becomes a plan, a plan a lock, a lock an
//! image, an image a running node.
//!
//! Dependencies run one way: [`plan`] is pure, [`engine`] runs actions, and neither knows the
//! other; [`produce`] turns a plan into files with both, and [`ship`] uses these files. [`error`],
//! [`report`] and [`printable`] are beneath all of them.

pub mod checkout;
pub mod cli;
pub mod engine;
pub mod error;
pub mod host;
pub mod pipeline;
pub mod plan;
pub mod printable;
pub mod produce;
pub mod report;
pub mod ship;
pub mod user_config;
pub mod verbs;
