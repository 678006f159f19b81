//! The file in which EDK2 keeps a virtual machine's variables: a firmware volume (UEFI PI 1.8, 3-3)
//! with one store of authenticated variables (EDK2, `MdeModulePkg/Include/Guid/VariableFormat.h`).

use super::{ATTRIBUTES, Error, UpdateTime, Variable};
use std::ops::Range;
use uuid::{Uuid, uuid};

/// `EFI_SYSTEM_NV_DATA_FV_GUID`, the volume's, and `EFI_AUTHENTICATED_VARIABLE_GUID`, the store's.
const VOLUME: Uuid = uuid!("fff12b8d-7696-4c8b-a985-2747075b4f50");
const STORE: Uuid = uuid!("aaf32c78-947b-439a-a180-2e144ec37792");

/// Where EDK2 notes whether Secure Boot is on once there is an owner, and that variable's
/// attributes: kept, and not for the running system.
const SECURE_BOOT_ENABLE: (&str, Uuid, u32) =
    ("SecureBootEnable", uuid!("f0a30bc7-af08-4556-99c4-001009c93a44"), 3);

/// Bytes of the store's header, of a variable's, and what each of them begins on.
const STORE_HEADER: usize = 28;
const VARIABLE_HEADER: usize = 60;
const ALIGNMENT: usize = 4;

/// What a variable begins with, and the state of one that counts.
const START: u16 = 0x55AA;
const ADDED: u8 = 0x3F;

/// What flash holds that was erased.
const ERASED: u8 = 0xFF;

/// A file of variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    file: Vec<u8>,
    /// Where the variables stand in the file.
    room: Range<usize>,
    /// Those that count, each with its header and in the order of the store.
    variables: Vec<Vec<u8>>,
}

impl Store {
    /// Reads a file of variables. What was deleted or replaced in it is forgotten.
    pub fn read(file: Vec<u8>) -> Result<Self, Error> {
        let room = room(&file).ok_or(Error::NoStore)?;
        let mut variables = Vec::new();
        let mut rest = &file[room.clone()];
        while rest.starts_with(&START.to_le_bytes()) {
            let length =
                length(rest).filter(|length| *length <= rest.len()).ok_or(Error::Variable)?;
            if rest[2] == ADDED {
                variables.push(rest[..length].to_vec());
            }
            rest = &rest[length.next_multiple_of(ALIGNMENT).min(rest.len())..];
        }
        Ok(Store { file, room, variables })
    }

    /// What a variable holds.
    pub fn get(&self, variable: Variable) -> Option<&[u8]> {
        let found =
            self.variables.iter().find(|bytes| is(bytes, variable.name(), variable.vendor()))?;
        found.get(content(found)?)
    }

    /// Sets a variable of Secure Boot, as an update would from setup mode.
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

    /// The file with these variables, and erased flash behind them.
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
        let size = |length: usize| {
            u32::try_from(length).expect("a variable is far below 4 GiB").to_le_bytes()
        };
        let mut bytes = START.to_le_bytes().to_vec();
        bytes.extend([ADDED, 0]);
        bytes.extend(attributes.to_le_bytes());
        // The count of an older kind of signature.
        bytes.extend([0; 8]);
        bytes.extend(time);
        bytes.extend([0; 4]);
        bytes.extend(size(name.len()));
        bytes.extend(size(content.len()));
        bytes.extend(vendor.to_bytes_le());
        bytes.extend(name);
        bytes.extend(content);
        self.variables.push(bytes);
    }
}

/// Where the variables stand in a file of them.
fn room(file: &[u8]) -> Option<Range<usize>> {
    if file.get(16..32)? != VOLUME.to_bytes_le() || file.get(40..44)? != b"_FVH" {
        return None;
    }
    let start = usize::from(u16::from_le_bytes(*file.get(48..)?.first_chunk()?));
    let header = file.get(start..start + STORE_HEADER)?;
    let size = number(header, 16)?;
    let end = start.checked_add(size).filter(|end| *end <= file.len() && size >= STORE_HEADER)?;
    (header[..16] == STORE.to_bytes_le()).then_some(start + STORE_HEADER..end)
}

/// The length of a variable with its header.
fn length(bytes: &[u8]) -> Option<usize> {
    VARIABLE_HEADER.checked_add(number(bytes, 36)?)?.checked_add(number(bytes, 40)?)
}

/// Where the content of a variable stands in it.
fn content(bytes: &[u8]) -> Option<Range<usize>> {
    Some(VARIABLE_HEADER + number(bytes, 36)?..bytes.len())
}

fn is(bytes: &[u8], name: &str, vendor: Uuid) -> bool {
    let named = content(bytes).and_then(|content| bytes.get(VARIABLE_HEADER..content.start));
    bytes.get(44..60) == Some(&vendor.to_bytes_le()) && named == Some(&utf16(name))
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize)
}

/// UTF-16 with a zero behind it.
fn utf16(name: &str) -> Vec<u8> {
    name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}
