//! `osbuild release`: publishes a build in a channel of a TUF repository, with its provenance, SBOM
//! and list of sources.

pub mod dsse;
mod keep;
mod parts;
pub mod provenance;
mod publish;
mod rollout;
pub mod sbom;
pub mod sources;

pub use parts::{Commit, Parts};
pub use publish::{Place, Published, current, promote, publish};
pub use rollout::RolloutChange;
