//! The configuration that a kernel embeds in itself (`CONFIG_IKCONFIG`; Linux: kernel/configs.c).

use std::collections::BTreeMap;
use std::io::Read;

/// The marker before the compressed `.config`.
const BEGIN: &[u8] = b"IKCFG_ST";
/// The maximum size of a `.config`: a distribution's kernel has a third of it.
const MAX_CONFIG: u64 = 1 << 20;

/// The beginning of a gzip stream: its magic number and the method (RFC 1952).
const GZIP: &[u8] = &[0x1F, 0x8B, 8];
/// How many gzip streams are tried: one that fails at its end costs far more than its marker.
const MAX_TRIED: usize = 16;

/// The maximum size of an unpacked kernel.
const MAX_KERNEL: u64 = 256 << 20;

/// The enabled options of a kernel, without `CONFIG_`. `None` if the kernel has no readable
/// configuration.
pub(super) fn options(kernel: &[u8]) -> Option<BTreeMap<String, String>> {
    let config = embedded(kernel).or_else(|| embedded(&unpacked(kernel)?))?;
    let option = |line: &str| {
        line.strip_prefix("CONFIG_")?
            .split_once('=')
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    Some(config.lines().filter_map(option).collect())
}

/// The embedded `.config`.
fn embedded(kernel: &[u8]) -> Option<String> {
    // The marker may occur elsewhere too, but without a gzip stream after it.
    let behind = memchr::memmem::find_iter(kernel, BEGIN).map(|at| &kernel[at + BEGIN.len()..]);
    behind.filter(|bytes| bytes.starts_with(GZIP)).take(MAX_TRIED).find_map(gunzip)
}

/// Unpacks a kernel for x86 that is compressed with Zstandard (Linux: arch/x86/boot.rst,
/// `payload_offset`).
fn unpacked(kernel: &[u8]) -> Option<Vec<u8>> {
    if kernel.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let field = |at: usize| Some(u32::from_le_bytes(*kernel.get(at..)?.first_chunk()?) as usize);
    // 0 means 4, for compatibility with old kernels.
    let sectors = usize::from(if kernel[0x1F1] == 0 { 4 } else { kernel[0x1F1] }) + 1;
    let payload = kernel.get(sectors * 512..)?.get(field(0x248)?..)?.get(..field(0x24C)?)?;
    let mut whole = Vec::new();
    zstd::Decoder::with_buffer(payload)
        .ok()?
        .single_frame()
        .take(MAX_KERNEL)
        .read_to_end(&mut whole)
        .ok()?;
    Some(whole)
}

fn gunzip(bytes: &[u8]) -> Option<String> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes).take(MAX_CONFIG).read_to_string(&mut text).ok()?;
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
    fn enabled_options_are_read_from_a_kernel() {
        let config = "#\n# Linux\n#\nCONFIG_SMP=y\n# CONFIG_MODULES is not \
                      set\nCONFIG_LOCALVERSION=\"-a=b\"\n";
        let found = options(&kernel(config)).unwrap();
        let expected = [("LOCALVERSION", "\"-a=b\""), ("SMP", "y")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn enabled_options_are_read_from_a_compressed_kernel() {
        let payload = zstd::encode_all(&kernel("CONFIG_SMP=y\n")[..], 3).unwrap();
        let mut packed = vec![0; 3 * 512 + 64];
        packed[0x1F1] = 2;
        packed[0x202..0x206].copy_from_slice(b"HdrS");
        packed[0x248..0x24C].copy_from_slice(&64_u32.to_le_bytes());
        packed[0x24C..0x250].copy_from_slice(&(payload.len() as u32 + 4).to_le_bytes());
        packed.extend(&payload);
        assert_eq!(options(&packed), None);
        // The unpacked size follows the payload.
        packed.extend([0; 4]);
        assert_eq!(options(&packed).unwrap(), [("SMP".to_owned(), "y".to_owned())].into());
        packed[0x248] = 0xFF;
        assert_eq!(options(&packed), None);
    }

    /// A kernel whose configuration has a wrong checksum.
    fn damaged() -> Vec<u8> {
        let mut damaged = kernel("CONFIG_SMP=y\n");
        let length = damaged.len();
        damaged[length - 20] ^= 1;
        damaged
    }

    #[test]
    fn many_markers_are_not_all_unpacked() {
        let with_damaged = |count| [damaged().repeat(count), kernel("CONFIG_SMP=y\n")].concat();
        assert!(options(&with_damaged(MAX_TRIED - 1)).is_some());
        assert_eq!(options(&with_damaged(MAX_TRIED)), None);
    }

    #[test]
    fn a_missing_or_damaged_configuration_has_no_options() {
        let damaged = damaged();
        for kernel in [&b""[..], b"IKCFG_ST", &damaged] {
            assert_eq!(options(kernel), None);
        }
    }
}
