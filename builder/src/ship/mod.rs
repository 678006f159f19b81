//! What is done with an image once it is there: [`inspect`] looks into it, [`diff`] compares two,
//! [`summary`] reports on it, [`verify`] judges it, [`run`] boots it, [`mod@flash`] puts it onto a
//! disk, [`release`] publishes it in a [`tuf`] repository, [`aws`] as an AMI. And [`keys`], by
//! which machines know whose it is.

pub mod aws;
pub mod boot;
pub mod console;
pub mod diff;
pub mod flash;
pub mod inspect;
pub mod keys;
pub mod machine;
pub mod node;
pub mod release;
pub mod run;
pub mod summary;
pub mod tuf;
pub mod verify;
