//! The file in which EDK2 stores a virtual machine's variables: a firmware volume (UEFI PI 1.8,
//! 3-3) with one store of authenticated variables (EDK2,
//! `MdeModulePkg/Include/Guid/VariableFormat.h`).

use super::{ATTRIBUTES, Error, UpdateTime, Variable};
use std::ops::Range;
use uuid::{Uuid, uuid};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `EFI_SYSTEM_NV_DATA_FV_GUID` of the volume and `EFI_AUTHENTICATED_VARIABLE_GUID` of the store.
const VOLUME: Uuid = uuid!("fff12b8d-7696-4c8b-a985-2747075b4f50");
const STORE: Uuid = uuid!("aaf32c78-947b-439a-a180-2e144ec37792");

/// EDK2's variable for whether Secure Boot is on once `PK` is set. Its attributes: non-volatile,
/// inaccessible after boot.
const SECURE_BOOT_ENABLE: (&str, Uuid, u32) =
    ("SecureBootEnable", uuid!("f0a30bc7-af08-4556-99c4-001009c93a44"), 3);

/// `EFI_FIRMWARE_VOLUME_HEADER`, up to the offset of the store.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct VolumeHeader {
    zeros: [u8; 16],
    file_system: [u8; 16],
    length: U64,
    signature: [u8; 4],
    attributes: U32,
    header_length: U16,
}

/// `VARIABLE_STORE_HEADER`
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoreHeader {
    signature: [u8; 16],
    /// Bytes of the store, with this header.
    size: U32,
    format_and_state: [u8; 4],
    reserved: U32,
}

/// `AUTHENTICATED_VARIABLE_HEADER`. The name follows, and then the content.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct VariableHeader {
    start: U16,
    state: u8,
    reserved: u8,
    attributes: U32,
    /// A count for signatures of an older kind.
    monotonic_count: U64,
    time: [u8; 16],
    public_key_index: U32,
    name_size: U32,
    content_size: U32,
    vendor: [u8; 16],
}

const STORE_HEADER: usize = size_of::<StoreHeader>();
const VARIABLE_HEADER: usize = size_of::<VariableHeader>();
const _: () = assert!(size_of::<VolumeHeader>() == 50);
const _: () = assert!(STORE_HEADER == 28 && VARIABLE_HEADER == 60);

/// Alignment of each variable in bytes.
const ALIGNMENT: usize = 4;

/// The first bytes of a variable, and the state of a valid one.
const START: u16 = 0x55AA;
const ADDED: u8 = 0x3F;

/// The value of erased flash.
const ERASED: u8 = 0xFF;

/// A variable store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    file: Vec<u8>,
    /// The range of the variables in the file.
    room: Range<usize>,
    /// The valid ones, each with its header, in the order of the store.
    variables: Vec<Vec<u8>>,
}

impl Store {
    /// Reads a variable store, without its deleted and replaced variables.
    pub fn read(file: Vec<u8>) -> Result<Self, Error> {
        let room = room(&file).ok_or(Error::NoStore)?;
        let mut variables = Vec::new();
        let mut rest = &file[room.clone()];
        while rest.starts_with(&START.to_le_bytes()) {
            let header = header(rest).ok_or(Error::Variable)?;
            let length =
                length(header).filter(|length| *length <= rest.len()).ok_or(Error::Variable)?;
            if header.state == ADDED {
                variables.push(rest[..length].to_vec());
            }
            rest = &rest[length.next_multiple_of(ALIGNMENT).min(rest.len())..];
        }
        Ok(Store { file, room, variables })
    }

    /// The content of a variable.
    pub fn get(&self, variable: Variable) -> Option<&[u8]> {
        let found =
            self.variables.iter().find(|bytes| is(bytes, variable.name(), variable.vendor()))?;
        found.get(content(found)?)
    }

    /// Sets a variable of Secure Boot, like an update in setup mode.
    pub fn set(&mut self, variable: Variable, time: UpdateTime, content: &[u8]) {
        self.put(variable.name(), variable.vendor(), ATTRIBUTES, time.bytes(), content);
    }

    /// Removes a variable.
    pub fn remove(&mut self, variable: Variable) {
        self.variables.retain(|bytes| !is(bytes, variable.name(), variable.vendor()));
    }

    /// Turns Secure Boot on, which takes effect once `PK` holds a certificate.
    pub fn enforce(&mut self) {
        let (name, vendor, attributes) = SECURE_BOOT_ENABLE;
        self.put(name, vendor, attributes, [0; 16], &[1]);
    }

    /// Returns the file with these variables, followed by erased flash.
    ///
    /// # Errors
    /// There is no room for all of them.
    pub fn write(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::with_capacity(self.room.len());
        for variable in &self.variables {
            bytes.extend(variable);
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), ERASED);
        }
        if bytes.len() > self.room.len() {
            return Err(Error::Full);
        }
        bytes.resize(self.room.len(), ERASED);
        let mut file = self.file.clone();
        file[self.room.clone()].copy_from_slice(&bytes);
        Ok(file)
    }

    fn put(&mut self, name: &str, vendor: Uuid, attributes: u32, time: [u8; 16], content: &[u8]) {
        self.variables.retain(|bytes| !is(bytes, name, vendor));
        let name = utf16(name);
        let size =
            |length: usize| U32::new(u32::try_from(length).expect("a variable is far below 4 GiB"));
        let header = VariableHeader {
            start: START.into(),
            state: ADDED,
            reserved: 0,
            attributes: attributes.into(),
            monotonic_count: U64::ZERO,
            time,
            public_key_index: U32::ZERO,
            name_size: size(name.len()),
            content_size: size(content.len()),
            vendor: vendor.to_bytes_le(),
        };
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend(name);
        bytes.extend(content);
        self.variables.push(bytes);
    }
}

/// Returns the range of the variables in a file.
fn room(file: &[u8]) -> Option<Range<usize>> {
    let (volume, _) = VolumeHeader::ref_from_prefix(file).ok()?;
    if volume.file_system != VOLUME.to_bytes_le() || volume.signature != *b"_FVH" {
        return None;
    }
    let start = usize::from(volume.header_length.get());
    let (store, _) = StoreHeader::ref_from_prefix(file.get(start..)?).ok()?;
    let size = store.size.get() as usize;
    let end = start.checked_add(size).filter(|end| *end <= file.len() && size >= STORE_HEADER)?;
    (store.signature == STORE.to_bytes_le()).then_some(start + STORE_HEADER..end)
}

/// The header of the variable at the start of `bytes`; `None` if there is none.
fn header(bytes: &[u8]) -> Option<&VariableHeader> {
    let (header, _) = VariableHeader::ref_from_prefix(bytes).ok()?;
    (header.start == START).then_some(header)
}

/// The length of a variable with its header.
fn length(header: &VariableHeader) -> Option<usize> {
    let [name, content] = [header.name_size, header.content_size].map(|size| size.get() as usize);
    VARIABLE_HEADER.checked_add(name)?.checked_add(content)
}

/// The range of the content in a variable.
fn content(bytes: &[u8]) -> Option<Range<usize>> {
    Some(VARIABLE_HEADER + header(bytes)?.name_size.get() as usize..bytes.len())
}

fn is(bytes: &[u8], name: &str, vendor: Uuid) -> bool {
    let named = content(bytes).and_then(|content| bytes.get(VARIABLE_HEADER..content.start));
    header(bytes).is_some_and(|header| header.vendor == vendor.to_bytes_le())
        && named == Some(&utf16(name))
}

/// UTF-16 with a terminating zero.
fn utf16(name: &str) -> Vec<u8> {
    name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}
