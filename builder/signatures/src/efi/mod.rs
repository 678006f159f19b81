//! The variables by which UEFI firmware knows whom it trusts (UEFI 2.10, 32): lists of
//! certificates, their signed updates, and the file in which a virtual machine's firmware keeps
//! them.

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
    /// Who owns the machine: signs changes to `KEK`. As long as it is empty anybody may write all
    /// of them.
    Pk,
    /// Who may change `db` and `dbx`.
    Kek,
    /// Whose programs are started.
    Db,
    /// Which certificates and programs are not trusted in spite of `db`.
    Dbx,
}

/// The variable's attributes: kept, there before and after the system has started, and written by
/// signed updates alone.
const ATTRIBUTES: u32 = 0x27;

impl Variable {
    /// Those that hold our certificates, in the order in which a machine in setup mode has to be
    /// given them: the last one ends that mode.
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

    /// The name space that it stands in: `EFI_GLOBAL_VARIABLE` or
    /// `EFI_IMAGE_SECURITY_DATABASE_GUID`.
    pub fn vendor(self) -> Uuid {
        match self {
            Variable::Pk | Variable::Kek => uuid!("8be4df61-93ca-11d2-aa0d-00e098032b8c"),
            Variable::Db | Variable::Dbx => uuid!("d719b2cb-3d3a-4596-a3bc-dad00e67656f"),
        }
    }
}
