//! The image that the installer carries, and its signer.

use std::fs;
use std::ops::Range;
use std::path::Path;

use osbuild_abi::disk::{BOOT_PROGRAM_AMD64, BOOT_PROGRAM_ARM64, ESP, SLOT_A};
use osbuild_abi::slot::HEADER_SIZE;
use osbuild_disks::Image;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_formats::fat;
use osbuild_signatures::authenticode;
use osbuild_signatures::certificate::Certificate;
use osbuild_slots::Header;

use crate::rule::Requirements;

/// The path on the system partition of the program that firmware starts, for this architecture.
pub const BOOT_PROGRAM: &str =
    if cfg!(target_arch = "aarch64") { BOOT_PROGRAM_ARM64 } else { BOOT_PROGRAM_AMD64 };

/// The sector sizes of images, in bytes.
const SECTOR_SIZES: [u32; 2] = [512, 4096];

/// The image, with its signatures verified.
pub struct Carried {
    /// The image.
    pub image: Image,
    /// The version of the node in it.
    pub version: String,
    /// The signer's certificate; `None` if the image is not signed.
    pub signer: Option<Certificate>,
}

impl Carried {
    /// Opens the image and verifies what the firmware would verify: the boot program, and the UKI
    /// in the first slot. Both must be signed with the key of the certificate in the file
    /// `certificate`, which an unsigned image does not have.
    ///
    /// # Errors
    /// The image is damaged, or not signed with the certificate's key.
    pub fn open(image: &Path, certificate: &Path) -> Outcome<Carried> {
        let opened = SECTOR_SIZES.iter().map(|size| Image::open(image, *size));
        let image = opened.reduce(Result::or).expect("there are two").explain("open the image")?;
        let signer = match fs::read(certificate) {
            Ok(pem) => Some(Certificate::from_pem(&pem).explain("read the certificate")?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).explain("read the certificate"),
        };
        let system = byte_range(&image, ESP)?;
        let files =
            fat::read(&bytes(&image, &system)?).explain("read the image's system partition")?;
        let boot = files.iter().find(|file| file.path.trim_start_matches('/') == BOOT_PROGRAM);
        let boot = boot.ok_or_else(|| Failure::new("the image is for another architecture"))?;
        let slot = byte_range(&image, SLOT_A)?;
        let header = bytes(&image, &(slot.start..slot.start + HEADER_SIZE))?;
        let header = Header::parse(&header).explain("read the image's slot")?;
        let start = slot.start + HEADER_SIZE;
        let end = start.checked_add(header.length).filter(|end| *end <= slot.end);
        let end = end.ok_or_else(|| Failure::new("the image's slot is truncated"))?;
        let uki = bytes(&image, &(start..end))?;
        if let Some(signer) = &signer {
            let trusted = std::slice::from_ref(signer);
            authenticode::verify(&boot.bytes, trusted)
                .explain("verify the image's boot program")?;
            authenticode::verify(&uki, trusted).explain("verify the image's UKI")?;
        }
        Ok(Carried { version: header.version, signer, image })
    }

    /// The image's requirements for a disk.
    pub fn requirements(&self) -> Requirements {
        Requirements { size: self.image.size(), sector_size: self.image.sector_size() }
    }
}

/// The byte range of a partition in the image.
fn byte_range(image: &Image, name: &str) -> Outcome<Range<u64>> {
    let found = image
        .table()
        .named(name)
        .ok_or_else(|| Failure::new(format!("the image has no partition {name}")))?;
    let start = found.first * image.sector_size();
    Ok(start..start + found.sectors() * image.sector_size())
}

fn bytes(image: &Image, range: &Range<u64>) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    image.read(range, &mut bytes).explain("read the image")?;
    Ok(bytes)
}
