//! The disk image: GPT, EFI system partition, two slots and DATA.

use super::action::{Action, InputTree};
use super::compile::Sandbox;
use super::store::Store;
use crate::error::Result;
use crate::plan::{Architecture, Board};
use osbuild_abi::disk;
use osbuild_formats::gpt::guid_from_name;
use std::collections::BTreeMap;

/// The output of [`data`].
pub const DATA: &str = "data.ext4";

/// The action that makes DATA's file system.
pub fn data(store: &Store, sandbox: &Sandbox, board: &Board) -> Result<Action> {
    let env = BTreeMap::from([
        ("SIZE_MIB".into(), board.data_size_mib.to_string()),
        ("LABEL".into(), disk::DATA.into()),
        ("UUID".into(), guid_from_name("data file system").to_string()),
    ]);
    sandbox.script(store, "data".into(), include_str!("data.sh"), &[], env, InputTree::new(), &[DATA])
}

/// Where firmware looks for the program of a removable medium (UEFI 2.10, 3.5.1.1).
pub fn removable_path(architecture: Architecture) -> String {
    format!("EFI/BOOT/BOOT{}.EFI", architecture.efi().to_uppercase())
}
