//! The UEFI variables of Secure Boot (UEFI 2.10, 32): lists of trusted certificates, their signed
//! updates, and the file in which a virtual machine's firmware stores them.

mod error;
mod list;
mod nitro;
mod store;
mod update;

pub use error::Error;
pub use list::{Listed, read_known, read_list, write_list};
pub use nitro::uefi_data;
pub use store::Store;
pub use update::{Update, UpdateTime};

use uuid::{Uuid, uuid};

/// A variable of Secure Boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variable {
    /// The platform key of the machine's owner, which signs changes to `KEK`. While it is empty,
    /// anyone may write all of them.
    Pk,
    /// The keys that sign changes to `db` and `dbx`.
    Kek,
    /// The trusted certificates and images.
    Db,
    /// The revoked certificates and images, which take precedence over `db`.
    Dbx,
}

/// The attributes of these variables: non-volatile, accessible before and after boot, written only
/// with signed updates.
const ATTRIBUTES: u32 = 0x27;

impl Variable {
    /// The variables with our certificates, in the order in which a machine in setup mode must
    /// receive them: the last one ends that mode.
    pub const ENROLLED: [Variable; 3] = [Variable::Db, Variable::Kek, Variable::Pk];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Variable::Pk => "PK",
            Variable::Kek => "KEK",
            Variable::Db => "db",
            Variable::Dbx => "dbx",
        }
    }

    /// Its namespace: `EFI_GLOBAL_VARIABLE` or `EFI_IMAGE_SECURITY_DATABASE_GUID`.
    pub fn vendor(self) -> Uuid {
        match self {
            Variable::Pk | Variable::Kek => uuid!("8be4df61-93ca-11d2-aa0d-00e098032b8c"),
            Variable::Db | Variable::Dbx => uuid!("d719b2cb-3d3a-4596-a3bc-dad00e67656f"),
        }
    }
}
