//! A slot: its state and its UKI.

use super::bounded;
use crate::engine::digest::Digest;
use crate::error::{Context, Error, Result};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_slots::Header;
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// One slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Slot {
    /// The name of its partition.
    pub name: String,
    /// The slot with the highest priority boots first. 0 means that it does not boot.
    pub priority: u8,
    /// How many boot attempts are left before it must be successful.
    pub tries: u8,
    /// Whether a boot of it has succeeded.
    pub successful: bool,
    /// The version of the node; `None` if the slot is empty or its header is damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// SHA-256 of the UKI in hexadecimal, from the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Why it cannot boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl Slot {
    /// Reads a slot of a disk, and its UKI if the header is valid. The UKI may be damaged.
    pub(super) fn read(
        file: &File,
        slot: &osbuild_slots::Slot,
        sector_size: u64,
    ) -> (Slot, Option<Vec<u8>>) {
        let osbuild_slots::State { priority, tries, successful } = slot.state;
        let (start, size) = (slot.first * sector_size, slot.sectors * sector_size);
        let header = header(file, start);
        let uki =
            header.as_ref().map_err(Clone::clone).and_then(|header| uki(file, start, size, header));
        let is_whole = |uki: &Vec<u8>| {
            header.as_ref().is_ok_and(|header| Digest::of(uki).hash() == &header.sha256)
        };
        let fault = match &uki {
            Ok(uki) if is_whole(uki) => None,
            Ok(_) => Some("its UKI is damaged".to_owned()),
            Err(error) => Some(error.problems[0].message.clone()),
        };
        let header = header.ok();
        let found = Slot {
            name: slot.name.to_owned(),
            priority,
            tries,
            successful,
            version: header.as_ref().map(|header| header.version.clone()),
            sha256: header.map(|header| Digest::new(header.sha256, header.length).hex()),
            fault,
        };
        (found, uki.ok())
    }

    /// Whether its state allows booting it. Its UKI may be damaged.
    pub(in crate::ship) fn is_bootable(&self) -> bool {
        osbuild_slots::State {
            priority: self.priority,
            tries: self.tries,
            successful: self.successful,
        }
        .is_bootable()
    }
}

fn header(file: &File, start: u64) -> Result<Header> {
    let mut bytes = [0; HEADER_SIZE as usize];
    file.read_exact_at(&mut bytes, start).or_build(|| "it cannot be read".to_owned())?;
    let header = Header::parse(&bytes).map_err(|error| Error::build(error.to_string()))?;
    // The parser ignores unknown bytes, but the builder writes none.
    match header.encode() {
        Ok(written) if written == bytes => Ok(header),
        _ => Err(Error::build("its header has unknown bytes")),
    }
}

fn uki(file: &File, start: u64, size: u64, header: &Header) -> Result<Vec<u8>> {
    if header.length > size.saturating_sub(HEADER_SIZE) {
        return Err(Error::build("its UKI is larger than the slot"));
    }
    bounded::read_uki(file, start + HEADER_SIZE, header.length, "its UKI")
}

impl Display for Slot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Slot { name, priority, tries, successful, .. } = self;
        write!(
            f,
            "{name} priority {priority}, tries {tries}, {}",
            if *successful { "successful" } else { "not yet successful" }
        )?;
        self.version.iter().try_for_each(|version| write!(f, ", version {version}"))?;
        self.sha256.iter().try_for_each(|sha256| write!(f, ", sha256:{sha256}"))?;
        self.fault.iter().try_for_each(|fault| write!(f, ": {fault}"))
    }
}
