//! `osbuild release`: what was built, with all that somebody needs to judge it, published in a
//! channel of a TUF repository.

pub mod dsse;
mod keep;
mod parts;
pub mod provenance;
mod publish;
mod purl;
pub mod sbom;
pub mod sources;

pub use parts::{Commit, Parts};
pub use publish::{Place, Published, promote, publish};
