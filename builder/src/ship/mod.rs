//! The uses of an image once it is built: [`audit`] reads it, [`vm`] boots it, [`mod@flash`]
//! writes it to a disk, [`release`] publishes it in a [`tuf`] repository, [`aws`] as an AMI.
//! [`results`] moves the results of its steps. [`keys`] manages the keys that machines trust.

pub mod audit;
pub mod aws;
pub mod cluster;
pub mod flash;
pub mod keys;
pub mod release;
pub mod results;
pub mod tuf;
pub mod vm;
