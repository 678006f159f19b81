//! A TUF repository: files that any web server can serve, of which a client believes what its root of trust says, and nothing that is
//! older than what it has seen.

mod metadata;
mod repository;
mod root;
mod wait;

pub use repository::{Client, Repository, TARGETS, Target, Times};
pub use root::{Root, sign_root};
