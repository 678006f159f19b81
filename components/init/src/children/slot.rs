//! `init try-slot DEVICE` succeeds when a slot holds what its header says.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use osbuild_abi::slot::HEADER_SIZE;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_slots::Header;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

/// The bytes that are hashed at once.
const PIECE: usize = 1 << 20;

/// Verifies the slot on this device, which must be neither mounted nor open exclusively elsewhere:
/// another program could change it afterwards.
pub fn verify(device: &Path) -> Outcome {
    let flags = OFlags::EXCL.bits() as i32;
    let mut slot = File::options()
        .read(true)
        .custom_flags(flags)
        .open(device)
        .explain(format_args!("open {} alone", device.display()))?;
    let mut header = vec![0; HEADER_SIZE as usize];
    slot.read_exact(&mut header).explain("read the slot's header")?;
    let header = Header::parse(&header).explain("read the slot's header")?;
    let found = hash(&mut slot, header.length).explain("read the slot")?;
    if found == header.sha256 {
        Ok(())
    } else {
        Err(Failure::new("the slot does not hold what its header says"))
    }
}

/// SHA-256 of the next `length` bytes.
fn hash(slot: &mut impl Read, length: u64) -> std::io::Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    let mut left = length;
    let mut piece = vec![0; PIECE];
    while left > 0 {
        let size = left.min(PIECE as u64) as usize;
        slot.read_exact(&mut piece[..size])?;
        hasher.update(&piece[..size]);
        left -= size as u64;
    }
    Ok(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(change: impl FnOnce(&mut Vec<u8>)) -> tempfile::NamedTempFile {
        let uki: Vec<u8> = (0..3_000_001u32).map(|number| (number / 251) as u8).collect();
        let header = Header {
            length: uki.len() as u64,
            sha256: Sha256::digest(&uki).into(),
            version: "1.2".to_owned(),
        };
        let mut bytes = header.encode().unwrap();
        bytes.extend(uki);
        change(&mut bytes);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        file
    }

    #[test]
    fn a_whole_slot_is_accepted() {
        assert_eq!(verify(slot(|bytes| bytes.extend([0xFF; 5000])).path()), Ok(()));
    }

    #[test]
    fn a_slot_that_differs_from_its_header_is_refused() {
        for damaged in [
            slot(|bytes| bytes[2_000_000] ^= 1),
            slot(|bytes| bytes[4096] ^= 1),
            slot(|bytes| bytes[30] ^= 1),
            slot(|bytes| bytes[..4096].fill(0)),
            slot(|bytes| bytes.truncate(3_000_000)),
            slot(|bytes| bytes.truncate(100)),
        ] {
            assert!(verify(damaged.path()).is_err());
        }
    }
}
