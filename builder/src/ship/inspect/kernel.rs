//! The options that a kernel was configured with, which it carries in itself (`CONFIG_IKCONFIG`; Linux: kernel/configs.c).

use std::collections::BTreeMap;
use std::io::Read;

/// What stands before the compressed `.config`.
const BEGIN: &[u8] = b"IKCFG_ST";
/// The most that a `.config` is read: a distribution's kernel has a third of it.
const MOST: u64 = 1 << 20;

/// The options of a kernel, without `CONFIG_` and without those that are off. None if it carries none that can be read, as one does not
/// that is compressed as a whole.
pub(super) fn options(kernel: &[u8]) -> Option<BTreeMap<String, String>> {
    let found = memchr::memmem::find_iter(kernel, BEGIN);
    // The words could stand elsewhere too; a gzip header and check sum do not follow there.
    let mut configs = found.filter_map(|at| gunzip(&kernel[at + BEGIN.len()..]));
    let config = configs.next()?;
    let option =
        |line: &str| line.strip_prefix("CONFIG_")?.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(config.lines().filter_map(option).collect())
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
        let mut gzip = GzEncoder::new([&b"text IKCFG_ST text "[..], BEGIN].concat(), Compression::best());
        gzip.write_all(config.as_bytes()).unwrap();
        [gzip.finish().unwrap(), b"IKCFG_ED more".to_vec()].concat()
    }

    #[test]
    fn options_are_read_as_the_kernel_carries_them() {
        let config = "#\n# Linux\n#\nCONFIG_SMP=y\n# CONFIG_MODULES is not set\nCONFIG_LOCALVERSION=\"-a=b\"\n";
        let found = options(&kernel(config)).unwrap();
        let wanted = [("LOCALVERSION", "\"-a=b\""), ("SMP", "y")];
        assert_eq!(found, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
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
