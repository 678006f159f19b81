//! A TUF repository: files that any web server can serve. A client accepts only what its root of
//! trust has authorized, and nothing older than what it has seen.

mod lock;
mod memory;
mod metadata;
mod repository;
mod root;
mod wait;
mod writer;

pub use repository::{Client, ROOT, Repository, TARGETS, Target, Times};
pub use root::{Root, sign_root};
pub use writer::{Change, Writer};
