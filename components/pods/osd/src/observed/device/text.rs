//! Texts that devices, firmware and the kernel give.

use std::fmt::Write;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The maximum bytes of a file that are read: the kernel's attributes have a page.
const MAX_FILE: u64 = 4096;

/// The maximum characters of a text.
const MAX_TEXT: usize = 256;

/// Bytes before the text in a page of vital product data.
const PAGE_HEADER: usize = 4;

/// The text of a file, and nothing if there is none.
pub fn of(folder: &Path, file: &str) -> String {
    printable(&bytes(folder, file))
}

/// The bytes of a file, as many as are read, and none if there is no such file.
pub fn bytes(folder: &Path, file: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(folder.join(file)) {
        // An error leaves a part of the text, which would be taken for the whole.
        if file.take(MAX_FILE).read_to_end(&mut bytes).is_err() {
            bytes.clear();
        }
    }
    bytes
}

/// The number in a file, and zero if there is none.
pub fn number(folder: &Path, file: &str) -> u64 {
    of(folder, file).parse().unwrap_or_default()
}

/// The digits of a hexadecimal number in a file, without `0x`; nothing if there is no number.
pub fn hexadecimal(folder: &Path, file: &str) -> String {
    let text = of(folder, file);
    let digits = text.strip_prefix("0x").unwrap_or(&text);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_number { digits.to_ascii_lowercase() } else { String::new() }
}

/// The text that these bytes of a device are, without the space around it. What is no printable
/// ASCII is escaped, and the rest is cut off beyond the limit.
pub fn printable(bytes: &[u8]) -> String {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
    let start = bytes.iter().position(|byte| !is_space(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    let mut text = String::new();
    for &byte in &bytes[start..end] {
        let before = text.len();
        match byte {
            b' '..=b'~' => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
        if text.len() > MAX_TEXT {
            text.truncate(before);
            break;
        }
    }
    text
}

/// The serial number of a SCSI or SATA disk in its page 0x80 of vital product data (SPC-5, 7.7.16).
pub fn vital_product_data(page: &[u8]) -> String {
    printable(page.get(PAGE_HEADER..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_device_move_no_cursor_and_do_not_fill_the_store() {
        assert_eq!(printable(b" QEMU HARDDISK \0\n"), "QEMU HARDDISK");
        assert_eq!(printable(b"a\x1b[2J\nkind: pci\xff"), "a\\x1b[2J\\x0akind: pci\\xff");
        assert_eq!(printable(b"\0 \n"), "");
        assert_eq!(printable(&[b'x'; 5000]), "x".repeat(MAX_TEXT));
        let escaped = printable(&[0xff; 5000]);
        assert!(escaped.len() <= MAX_TEXT && escaped.ends_with("\\xff"), "{escaped}");
    }

    #[test]
    fn a_page_of_vital_product_data_has_a_header() {
        assert_eq!(vital_product_data(b"\x00\x80\x00\x08  QM0001"), "QM0001");
        assert_eq!(vital_product_data(b"\x00\x80"), "");
    }
}
