//! The disk image: GPT, EFI system partition, two slots and DATA.

use super::boot_chain::BootChain;
use super::build::Build;
use super::draft::Draft;
use super::out::{IMAGE, Out};
use super::parts::Parts;
use super::sandbox::{Compiler, Script};
use super::sign::EfiFile;
use super::uki;
use crate::engine::action::InputTree;
use crate::engine::digest::Digest;
use crate::engine::fs_error::IoContext;
use crate::engine::key::Key;
use crate::error::{Context, Result};
use crate::plan::{Architecture, Locked, Plan};
use osbuild_abi::disk;
use osbuild_abi::install::SETTINGS;
use osbuild_abi::slot::FIRST_TRIES;
use osbuild_formats::disk_image::{Content, DiskImage, Error, Partition};
use osbuild_formats::fat::{self, Volume};
use osbuild_formats::gpt::guid_from_name;
use osbuild_slots::{Header, State};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Serial number of the EFI system partition's volume.
const VOLUME_ID: u32 = 0x05B1_1D00;

/// The state of the only slot of a new disk.
const FIRST_SLOT: State = State { priority: 1, tries: FIRST_TRIES, successful: false };

/// The output of the script that makes DATA.
const DATA: &str = "data.ext4";

/// Makes DATA's file system.
pub fn data(build: &Build<'_>) -> Result<Digest> {
    let board = &build.plan.board;
    let made = build.run(Script {
        name: "data".into(),
        text: include_str!("data.sh"),
        args: Vec::new(),
        env: BTreeMap::from([
            ("SIZE_MIB".into(), board.data_size_mib.to_string()),
            ("LABEL".into(), disk::DATA.into()),
            ("UUID".into(), guid_from_name("data file system").to_string()),
        ]),
        input: InputTree::new(),
        outputs: vec![DATA.into()],
        compiler: Compiler::Root,
    })?;
    made.output(DATA)
}

/// The path of the boot program on removable media (UEFI 2.10, 3.5.1.1).
pub fn removable_path(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Amd64 => disk::BOOT_PROGRAM_AMD64,
        Architecture::Arm64 => disk::BOOT_PROGRAM_ARM64,
    }
}

/// The key of the image: everything that determines its bytes, including this program. If a value
/// were missing here, a change of it would leave an outdated image in place.
///
/// # Errors
/// This program cannot be read.
pub fn key(build: &Build<'_>, parts: &Parts) -> Result<Key> {
    let (plan, board) = (build.plan, &build.plan.board);
    let certificate = build.options.signer.map(|signer| signer.certificate().fingerprint());
    Ok(Key::new("image")
        .field("program", Digest::of_file(Path::new("/proc/self/exe"))?)
        .field("architecture", plan.architecture.name())
        .field("stub", parts.stub)
        .field("os-release", uki::os_release(plan))
        .field("command-line", uki::command_line(plan))
        .field("uname", &parts.kernel.release)
        .field("security-epoch", plan.security_epoch)
        .field("kernel", parts.kernel.image)
        .field("init", parts.init)
        .list("layer-name", parts.layers.iter().map(|layer| &layer.name))
        .list("layer-image", parts.layers.iter().map(|layer| layer.image))
        .field("inventory", parts.inventory.json())
        .field("slot-version", &plan.version)
        .field("slotboot", parts.slotboot)
        .list("settings", parts.settings.as_ref().map(|settings| Digest::of(settings)))
        .field("data", parts.data)
        .field("sector-size", board.sector_size)
        .field("esp-size-mib", board.esp_size_mib)
        .field("slot-size-mib", board.slot_size_mib)
        .field("data-size-mib", board.data_size_mib)
        .list("certificate", certificate))
}

/// Writes the disk image into `out`: the signed programs, the settings of an installer, and DATA.
/// Every identifier in it is made from a name, so the same parts give the same bytes.
///
/// # Errors
/// A part does not fit or cannot be read, or the disk is full.
pub fn write(build: &Build<'_>, parts: &Parts, chain: &BootChain, out: &Out) -> Result<PathBuf> {
    let (plan, board) = (build.plan, &build.plan.board);
    let header = slot_header(plan, &chain.uki)?;
    let esp = esp(plan, parts, chain)?;
    let data = build.options.store.path(&parts.data)?;
    let data = File::open(&data).or_build(|| "cannot read DATA's file system".into())?;
    let data = Content::reader(board.data_size_mib << 20, data);
    let length = header.len() as u64 + chain.uki.length()?;
    let uki = Content::reader(length, header.chain(chain.uki.start()?));
    let slot_a = partition(disk::SLOT_A, disk::SLOT_TYPE, board.slot_size_mib, uki);
    let disk = DiskImage {
        sector_size: board.sector_size.into(),
        guid: guid_from_name("disk"),
        partitions: vec![
            partition(disk::ESP, disk::ESP_TYPE, board.esp_size_mib, Content::bytes(&esp)),
            Partition { attributes: FIRST_SLOT.write(0), ..slot_a },
            partition(disk::SLOT_B, disk::SLOT_TYPE, board.slot_size_mib, Content::empty()),
            partition(disk::DATA, disk::DATA_TYPE, board.data_size_mib, data),
        ],
    };
    let mut draft = Draft::create(out.path(IMAGE))?;
    draft.write(build.options.report, "image", |to, path| match disk.write(to.get_mut()) {
        Err(Error::Io(error)) => Err(error).at("write", path),
        other => other.map(drop).or_build(|| format!("cannot make `{}`", path.display())),
    })?;
    draft.keep()
}

/// The file system of the EFI system partition of an image.
fn esp(plan: &Plan<Locked>, parts: &Parts, chain: &BootChain) -> Result<Vec<u8>> {
    let loader = format!("/{}", removable_path(plan.architecture));
    let mut files = vec![fat::File { path: loader, bytes: chain.slotboot.0.as_slice() }];
    let settings = parts.settings.as_deref();
    files.extend(settings.map(|bytes| fat::File { path: SETTINGS.to_owned(), bytes }));
    let board = &plan.board;
    system_volume(board.sector_size.into(), board.esp_size_mib << 20, &files)
}

/// The header in front of a UKI in a slot. It contains the digest of the UKI with its signature.
fn slot_header(plan: &Plan<Locked>, uki: &EfiFile) -> Result<Vec<u8>> {
    let digest = uki.digest()?;
    let (length, sha256) = (digest.size(), *digest.hash());
    let header = Header { length, sha256, version: plan.version.clone() };
    header.encode().or_build(|| "cannot make the header of a slot".into())
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
