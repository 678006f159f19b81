//! The options that a kernel was configured with, which it carries in itself (`CONFIG_IKCONFIG`;
//! Linux: kernel/configs.c).

use std::collections::BTreeMap;
use std::io::Read;

/// What stands before the compressed `.config`.
const BEGIN: &[u8] = b"IKCFG_ST";
/// The most that a `.config` is read: a distribution's kernel has a third of it.
const MOST: u64 = 1 << 20;

/// The most that a compressed kernel is unpacked to.
const LARGEST: u64 = 256 << 20;

/// The options of a kernel, without `CONFIG_` and without those that are off. None if it carries
/// none that can be read.
pub(super) fn options(kernel: &[u8]) -> Option<BTreeMap<String, String>> {
    let config = carried(kernel).or_else(|| carried(&unpacked(kernel)?))?;
    let option = |line: &str| {
        line.strip_prefix("CONFIG_")?
            .split_once('=')
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    Some(config.lines().filter_map(option).collect())
}

/// The `.config` that a kernel carries.
fn carried(kernel: &[u8]) -> Option<String> {
    // The words could stand elsewhere too; a gzip header and check sum do not follow there.
    memchr::memmem::find_iter(kernel, BEGIN).find_map(|at| gunzip(&kernel[at + BEGIN.len()..]))
}

/// What a kernel for x86 unpacks itself to, if it is compressed with Zstandard (Linux:
/// arch/x86/boot.rst, `payload_offset`).
fn unpacked(kernel: &[u8]) -> Option<Vec<u8>> {
    if kernel.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let field = |at: usize| Some(u32::from_le_bytes(*kernel.get(at..)?.first_chunk()?) as usize);
    // Zero stands for four, as in kernels of long ago.
    let sectors = usize::from(if kernel[0x1F1] == 0 { 4 } else { kernel[0x1F1] }) + 1;
    let payload = kernel.get(sectors * 512..)?.get(field(0x248)?..)?.get(..field(0x24C)?)?;
    let mut whole = Vec::new();
    zstd::Decoder::with_buffer(payload)
        .ok()?
        .single_frame()
        .take(LARGEST)
        .read_to_end(&mut whole)
        .ok()?;
    Some(whole)
}

fn gunzip(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes).take(MOST).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn kernel(config: &str) -> Vec<u8> {
        let mut gzip =
            GzEncoder::new([&b"text IKCFG_ST text "[..], BEGIN].concat(), Compression::best());
        gzip.write_all(config.as_bytes()).unwrap();
        [gzip.finish().unwrap(), b"IKCFG_ED more".to_vec()].concat()
    }

    #[test]
    fn options_are_read_as_the_kernel_carries_them() {
        let config = "#\n# Linux\n#\nCONFIG_SMP=y\n# CONFIG_MODULES is not \
                      set\nCONFIG_LOCALVERSION=\"-a=b\"\n";
        let found = options(&kernel(config)).unwrap();
        let wanted = [("LOCALVERSION", "\"-a=b\""), ("SMP", "y")];
        assert_eq!(found, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn so_they_are_from_a_kernel_that_unpacks_itself() {
        let payload = zstd::encode_all(&kernel("CONFIG_SMP=y\n")[..], 3).unwrap();
        let mut packed = vec![0; 3 * 512 + 64];
        packed[0x1F1] = 2;
        packed[0x202..0x206].copy_from_slice(b"HdrS");
        packed[0x248..0x24C].copy_from_slice(&64_u32.to_le_bytes());
        packed[0x24C..0x250].copy_from_slice(&(payload.len() as u32 + 4).to_le_bytes());
        packed.extend(&payload);
        assert_eq!(options(&packed), None);
        // Behind the payload's end stands the size of what it unpacks to.
        packed.extend([0; 4]);
        assert_eq!(options(&packed).unwrap(), [("SMP".to_owned(), "y".to_owned())].into());
        packed[0x248] = 0xFF;
        assert_eq!(options(&packed), None);
    }

    #[test]
    fn a_kernel_without_a_configuration_or_with_a_damaged_one_has_no_options() {
        let mut damaged = kernel("CONFIG_SMP=y\n");
        let length = damaged.len();
        damaged[length - 20] ^= 1;
        for kernel in [&b""[..], b"IKCFG_ST", &damaged] {
            assert_eq!(options(kernel), None);
        }
    }
}
