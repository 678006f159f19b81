//! Firmware variables as efivarfs shows them: four bytes of attributes, then the value.

/// The GUID that a variable holds as UTF-16 text, in lower case.
pub fn guid(bytes: &[u8]) -> Option<String> {
    let units: Vec<u16> = bytes.get(4..)?.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    let text = String::from_utf16(&units).ok()?.trim_end_matches('\0').to_ascii_lowercase();
    let plain = text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    plain.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stubs_variable_is_read_and_nonsense_is_not() {
        let text = "4A67B082-0A4C-41CF-B6C7-440B29BB8C4F\0";
        let bytes: Vec<u8> = [6, 0, 0, 0].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert_eq!(guid(&bytes).as_deref(), Some("4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"));
        assert_eq!(guid(&bytes[..20]), None);
        assert_eq!(guid(&[]), None);
    }
}
