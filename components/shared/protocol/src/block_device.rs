//! The names of block devices.

use std::fmt;

use crate::Refusal;

/// The maximum bytes of a name: the kernel's `DISK_NAME_LEN`.
const MAX_LENGTH: usize = 32;

/// The kernel's name of a disk or a partition, such as `vdb` or `nvme0n1p3`. It is not a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockDevice(String);

impl BlockDevice {
    /// Reads a name.
    ///
    /// # Errors
    /// It is empty, longer than 32 bytes, or has other characters than letters and digits, and
    /// `-`, `_` and `.` after the first.
    pub fn parse(name: &str) -> Result<Self, Refusal> {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = name.len() <= MAX_LENGTH
            && name.bytes().all(is_known)
            && name.starts_with(|first: char| first.is_ascii_alphanumeric());
        match is_name {
            true => Ok(Self(name.to_owned())),
            false => Err(Refusal::malformed(format!("`{name}` is not the name of a block device"))),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlockDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_no_name_of_a_device() {
        for name in ["", ".", "..", ".hidden", "a/b", "../sda", "a b", &"a".repeat(33)] {
            assert!(BlockDevice::parse(name).is_err(), "{name:?}");
        }
        for name in ["sda", "nvme0n1p3", "sr0", "dm-0", "mmcblk0boot0"] {
            assert_eq!(BlockDevice::parse(name).unwrap().as_str(), name);
        }
    }
}
