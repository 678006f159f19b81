//! The disk that this program was loaded from, through the firmware.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use osbuild_formats::gpt::{Geometry, Source, Write};
use osbuild_slots::Slot;
use uefi::boot::{self, OpenProtocolAttributes, OpenProtocolParams, ScopedProtocol};
use uefi::proto::ProtocolPointer;
use uefi::proto::device_path::DevicePath;
use uefi::proto::device_path::media::{HardDrive, PartitionSignature};
use uefi::proto::loaded_image::LoadedImage;
use uefi::proto::media::block::BlockIO;
use uefi::{Guid, Handle};

/// The maximum bytes of one read: some firmware rejects larger ones.
const CHUNK: usize = 8 << 20;

/// The whole disk.
pub struct BootDisk {
    block: ScopedProtocol<BlockIO>,
    geometry: Geometry,
    /// The disk's device path without its end node. The paths of its partitions begin with it.
    path: Box<[u8]>,
}

impl BootDisk {
    /// Returns the disk with the partition that this program was loaded from.
    ///
    /// # Errors
    /// The program was not loaded from a partition of a disk, or the disk's geometry is invalid.
    pub fn booted() -> Result<BootDisk, String> {
        let image = open::<LoadedImage>(boot::image_handle())?;
        let partition =
            open::<DevicePath>(image.device().ok_or("it was not loaded from a device")?)?;
        let path = disk_of(&partition).ok_or("it was not loaded from a partition")?;
        let is_disk = |handle: &Handle| {
            open::<DevicePath>(*handle).is_ok_and(|other| without_end(&other) == path)
        };
        let handle =
            block_devices()?.into_iter().find(is_disk).ok_or("its disk has no block device")?;
        let block = open::<BlockIO>(handle)?;
        let size = block
            .media()
            .last_block()
            .saturating_add(1)
            .saturating_mul(block.media().block_size().into());
        let geometry = Geometry::new(block.media().block_size().into(), size)
            .map_err(|error| error.to_string())?;
        Ok(BootDisk { block, geometry, path: path.into() })
    }

    /// The sector size and size.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the device path of a slot's partition. It has no file system, so a program loaded
    /// from there finds no other files.
    pub fn path_of(&self, slot: &Slot) -> Result<ScopedProtocol<DevicePath>, String> {
        let paths =
            block_devices()?.into_iter().filter_map(|handle| open::<DevicePath>(handle).ok());
        let mut own = paths.filter(|path| disk_of(path) == Some(&self.path));
        own.find(|path| is_slot(path, slot))
            .ok_or_else(|| format!("the firmware does not show partition {}", slot.number))
    }

    /// Writes and flushes.
    pub fn write(&mut self, write: &Write) -> uefi::Result {
        let media = self.block.media();
        let (id, first) = (media.media_id(), write.offset / self.geometry.sector_size());
        let mut buffer = Aligned::new(write.bytes.len(), media.io_align());
        buffer.bytes().copy_from_slice(&write.bytes);
        self.block.write_blocks(id, first, buffer.bytes())?;
        self.block.flush_blocks()
    }
}

impl Source for BootDisk {
    type Error = uefi::Error;

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> uefi::Result {
        let (id, align) = (self.block.media().media_id(), self.block.media().io_align());
        let mut sector = offset / self.geometry.sector_size();
        for chunk in bytes.chunks_mut(CHUNK) {
            if chunk.as_ptr().align_offset(align.max(1) as usize) == 0 {
                self.block.read_blocks(id, sector, chunk)?;
            } else {
                let mut buffer = Aligned::new(chunk.len(), align);
                self.block.read_blocks(id, sector, buffer.bytes())?;
                chunk.copy_from_slice(buffer.bytes());
            }
            sector += chunk.len() as u64 / self.geometry.sector_size();
        }
        Ok(())
    }
}

/// Memory with the alignment that a device requires.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(length: usize, align: u32) -> Aligned {
        let align = align.max(1) as usize;
        let memory = vec![0; length + align];
        let start = memory.as_ptr().align_offset(align);
        Aligned { memory, start, length }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

/// Lists all block devices.
fn block_devices() -> Result<Vec<Handle>, String> {
    boot::find_handles::<BlockIO>().map_err(|error| format!("the firmware shows no disks: {error}"))
}

/// Opens a protocol shared with its drivers: exclusive access would disconnect the partitions'
/// drivers.
fn open<P: ProtocolPointer + ?Sized>(handle: Handle) -> Result<ScopedProtocol<P>, String> {
    let params = OpenProtocolParams { handle, agent: boot::image_handle(), controller: None };
    // SAFETY: no device appears or disappears while this program runs, because only the firmware's
    // timer interrupts it, and nothing changes one protocol through two references at once.
    let opened = unsafe { boot::open_protocol(params, OpenProtocolAttributes::GetProtocol) };
    opened.map_err(|error| format!("the firmware lacks a protocol: {error}"))
}

/// The device path of a partition's disk, without its end node.
fn disk_of(partition: &DevicePath) -> Option<&[u8]> {
    let last = partition.node_iter().last()?;
    <&HardDrive>::try_from(last).ok()?;
    without_end(partition)
        .len()
        .checked_sub(last.length().into())
        .map(|length| &partition.as_bytes()[..length])
}

fn is_slot(path: &DevicePath, slot: &Slot) -> bool {
    let guid = PartitionSignature::Guid(Guid::from_bytes(slot.guid.to_bytes_le()));
    let last = path.node_iter().last().and_then(|node| <&HardDrive>::try_from(node).ok());
    last.is_some_and(|drive| {
        drive.partition_number() == slot.number && drive.partition_signature() == guid
    })
}

fn without_end(path: &DevicePath) -> &[u8] {
    let nodes: usize = path.node_iter().map(|node| usize::from(node.length())).sum();
    &path.as_bytes()[..nodes]
}
