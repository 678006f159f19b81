//! A TUF repository: files that any web server can serve, of which a client believes what its root
//! of trust says, and nothing that is older than what it has seen.

mod lock;
mod metadata;
mod repository;
mod root;
mod wait;
mod writer;

pub use repository::{Client, Repository, TARGETS, Target, Times};
pub use root::{Root, sign_root};
pub use writer::{Change, Writer};
