//! The disk of a volume, by what its maker has given it.

use std::fmt;

use crate::Refusal;
use crate::setting::escape;

/// The maximum bytes of an identifier.
const MAX_LENGTH: usize = 128;

const SERIAL: &str = "serial";
const WWID: &str = "wwid";

/// The identifier of a disk, which no other disk of a machine has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskId {
    /// Its serial number.
    Serial(DiskText),
    /// Its worldwide identifier.
    Wwid(DiskText),
}

/// The text of an identifier.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskText(String);

impl DiskId {
    /// Reads both fields, of which one is empty.
    ///
    /// # Errors
    /// Both have a text or none has, or it is malformed.
    pub fn parse(serial: &str, wwid: &str) -> Result<Self, Refusal> {
        match (serial, wwid) {
            (serial, "") if !serial.is_empty() => Ok(Self::Serial(DiskText::parse(serial)?)),
            ("", wwid) if !wwid.is_empty() => Ok(Self::Wwid(DiskText::parse(wwid)?)),
            _ => Err(Refusal::malformed("a disk is named by its `serial` or by its `wwid`")),
        }
    }

    /// Reads the word that [`Self::word`] writes.
    ///
    /// # Errors
    /// It is malformed.
    pub fn parse_word(word: &str) -> Result<Self, Refusal> {
        let form = || Refusal::malformed("a disk is `serial=TEXT` or `wwid=TEXT`");
        let (key, text) = word.split_once('=').filter(|_| !word.contains(' ')).ok_or_else(form)?;
        let text = escape::unescape(text).ok_or_else(form)?;
        match key {
            SERIAL => Self::parse(&text, ""),
            WWID => Self::parse("", &text),
            _ => Err(form()),
        }
    }

    /// The word for it: spaces, `%` and `,` are escaped.
    pub fn word(&self) -> String {
        format!("{}={}", self.key(), escape::escaped(self.text().as_str()))
    }

    /// The kind of the identifier: `serial` or `wwid`.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Serial(_) => SERIAL,
            Self::Wwid(_) => WWID,
        }
    }

    /// Its text.
    pub fn text(&self) -> &DiskText {
        let (Self::Serial(text) | Self::Wwid(text)) = self;
        text
    }
}

impl DiskText {
    /// Reads a text.
    ///
    /// # Errors
    /// It is not 1 to 128 visible characters of ASCII, perhaps with spaces between them.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_known = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        let is_text = (1..=MAX_LENGTH).contains(&text.len())
            && text.bytes().all(is_known)
            && text.trim() == text;
        match is_text {
            true => Ok(Self(text.to_owned())),
            false => Err(Refusal::malformed(format!(
                "the identifier of a disk has 1 to {MAX_LENGTH} visible characters of ASCII, and \
                 spaces between them only"
            ))),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.key(), self.text().as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_identifier_with_spaces_is_one_word() {
        let disk = DiskId::parse("", "t10.ATA     QEMU HARDDISK    QM00005").unwrap();
        assert!(!disk.word().contains(' '));
        assert_eq!(DiskId::parse_word(&disk.word()), Ok(disk));
        for (serial, wwid) in
            [("", ""), ("a", "b"), (" a", ""), ("a ", ""), ("a\n", ""), ("\u{e4}", "")]
        {
            assert!(DiskId::parse(serial, wwid).is_err(), "{serial} {wwid}");
        }
        for word in ["", "serial", "serial=", "serial=%", "serial=%0a", "name=a", "serial=%20a"] {
            assert!(DiskId::parse_word(word).is_err(), "{word}");
        }
    }

    proptest! {
        #[test]
        fn every_identifier_is_read_as_it_was_written(text in "[ -~]{0,130}") {
            if let Ok(disk) = DiskId::parse(&text, "") {
                prop_assert_eq!(DiskId::parse_word(&disk.word()), Ok(disk));
            }
        }
    }
}
