//! Reading what was built, without changing it: [`inspect`] describes one file, [`diff`] compares
//! two, [`summary`] reports on a build, [`verify`] checks signatures and contents.

pub mod diff;
pub mod inspect;
pub mod summary;
pub mod verify;
