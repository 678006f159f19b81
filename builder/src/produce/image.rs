//! The disk image: GPT, EFI system partition, two slots and DATA.

use super::compile::Sandbox;
use crate::engine::action::{Action, InputTree};
use crate::engine::fs_error::IoContext;
use crate::engine::store::Store;
use crate::error::{Context, Result};
use crate::plan::{Architecture, Board, Locked, Plan};
use osbuild_abi::disk;
use osbuild_abi::install::SETTINGS;
use osbuild_abi::slot::FIRST_TRIES;
use osbuild_formats::disk::{Content, Disk, Error, Partition};
use osbuild_formats::fat::{self, Volume};
use osbuild_formats::gpt::guid_from_name;
use osbuild_slots::State;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Serial number of the EFI system partition's volume.
const VOLUME_ID: u32 = 0x05B1_1D00;

/// The state of the only slot of a new disk.
const FIRST_SLOT: State = State { priority: 1, tries: FIRST_TRIES, successful: false };

/// The output of [`data`].
pub const DATA: &str = "data.ext4";

/// The action that makes DATA's file system.
pub fn data(store: &Store, sandbox: &Sandbox, board: &Board) -> Result<Action> {
    let env = BTreeMap::from([
        ("SIZE_MIB".into(), board.data_size_mib.to_string()),
        ("LABEL".into(), disk::DATA.into()),
        ("UUID".into(), guid_from_name("data file system").to_string()),
    ]);
    sandbox.script(
        store,
        "data".into(),
        include_str!("data.sh"),
        &[],
        env,
        InputTree::new(),
        &[DATA],
    )
}

/// Where firmware looks for the program of a removable medium (UEFI 2.10, 3.5.1.1).
pub fn removable_path(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Amd64 => disk::BOOT_PROGRAM_AMD64,
        Architecture::Arm64 => disk::BOOT_PROGRAM_ARM64,
    }
}

/// What an image holds.
pub struct Contents<'a> {
    /// What is built.
    pub plan: &'a Plan<Locked>,
    /// What an installer does: a file of the system partition, where any computer can edit it.
    pub settings: Option<&'a [u8]>,
    /// What the firmware starts.
    pub boot: &'a [u8],
    /// What the first slot begins with.
    pub header: &'a [u8],
    /// The UKI, which follows it: its length in bytes, and a file that gives them.
    pub uki: (u64, &'a File),
    /// DATA's file system.
    pub data: PathBuf,
}

impl Contents<'_> {
    /// Writes the image. Every identifier in it is made from a name, so the same contents give the
    /// same bytes.
    ///
    /// # Errors
    /// A part does not fit or cannot be read, or `out`, which people know as `path`, cannot be
    /// written.
    pub fn write(&self, out: &mut File, path: &Path) -> Result<()> {
        let board = &self.plan.board;
        let loader = format!("/{}", removable_path(self.plan.architecture));
        let settings = self.settings.map(|bytes| fat::File { path: SETTINGS.to_owned(), bytes });
        let files: Vec<_> =
            [fat::File { path: loader, bytes: self.boot }].into_iter().chain(settings).collect();
        let esp = system_volume(board.sector_size.into(), board.esp_size_mib << 20, &files)?;
        let data = File::open(&self.data).or_build(|| "cannot read DATA's file system".into())?;
        let data = Content::reader(board.data_size_mib << 20, data);
        let (length, uki) = self.uki;
        let first = Content::reader(self.header.len() as u64 + length, self.header.chain(uki));
        let slot_a = partition(disk::SLOT_A, disk::SLOT_TYPE, board.slot_size_mib, first);
        let disk = Disk {
            sector_size: board.sector_size.into(),
            guid: guid_from_name("disk"),
            partitions: vec![
                partition(disk::ESP, disk::ESP_TYPE, board.esp_size_mib, Content::bytes(&esp)),
                Partition { attributes: FIRST_SLOT.write(0), ..slot_a },
                partition(disk::SLOT_B, disk::SLOT_TYPE, board.slot_size_mib, Content::empty()),
                partition(disk::DATA, disk::DATA_TYPE, board.data_size_mib, data),
            ],
        };
        match disk.write(out) {
            Err(Error::Io(error)) => Err(error).at("write", path),
            other => other.map(drop).or_build(|| format!("cannot make `{}`", path.display())),
        }
    }
}

/// The file system of the EFI system partition. Both sizes are in bytes.
///
/// # Errors
/// The files do not fit.
pub fn system_volume<T: AsRef<[u8]>>(
    sector_size: u64,
    size: u64,
    files: &[fat::File<T>],
) -> Result<Vec<u8>> {
    let volume = Volume { sector_size, size, label: disk::ESP, id: VOLUME_ID };
    volume.write(files).or_build(|| "cannot make the ESP".into())
}

fn partition<'a>(name: &'a str, kind: &str, size_mib: u64, content: Content<'a>) -> Partition<'a> {
    let type_guid = kind.parse().expect("the types in abi are GUIDs");
    Partition {
        name,
        type_guid,
        guid: guid_from_name(name),
        attributes: 0,
        size: size_mib << 20,
        content,
    }
}
