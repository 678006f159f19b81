//! Modules of the kernel that the node's workloads need. The kernel loads none, so such a setting
//! asks whether one is built in.

use std::fmt;

use crate::Refusal;

/// The maximum number of such settings.
pub const MAX_MODULES: usize = 64;
/// The maximum bytes of a name (`MODULE_NAME_LEN` of the kernel, without its NUL).
const MAX_NAME: usize = 55;
/// The only value: the kernel has the module from its start.
const BUILT_IN: &str = "built-in";

/// A module that the kernel shall have built in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelModule(ModuleName);

/// The name of a module, with `_` for each `-`: both are the same to modprobe(8).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleName(String);

impl KernelModule {
    /// The module of this name.
    pub fn new(name: ModuleName) -> Self {
        Self(name)
    }

    /// Reads the value.
    pub(super) fn parse_word(name: ModuleName, word: &str) -> Result<Self, Refusal> {
        match word {
            BUILT_IN => Ok(Self(name)),
            _ => Err(Refusal::malformed(format!("a kernel module can only be `{BUILT_IN}`"))),
        }
    }

    /// The name.
    pub fn name(&self) -> &ModuleName {
        &self.0
    }

    /// The value.
    pub(super) fn word(&self) -> &'static str {
        BUILT_IN
    }
}

impl ModuleName {
    /// Reads a name.
    ///
    /// # Errors
    /// It is not 1 to 55 letters, digits, `_` and `-`.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        match (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_known) {
            true => Ok(Self(text.replace('-', "_"))),
            false => {
                let start: String = text.chars().take(MAX_NAME).collect();
                let reason = format!("`{start}` is not the name of a kernel module");
                let is_file = [".ko", "/"].iter().any(|part| text.contains(part));
                let hint = if is_file { ", which has no path and no `.ko`" } else { "" };
                Err(Refusal::malformed(reason + hint))
            }
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_one_name() {
        let name = ModuleName::parse("nls_iso8859-1").unwrap();
        assert_eq!(name, ModuleName::parse("nls-iso8859_1").unwrap());
        assert_eq!(name.as_str(), "nls_iso8859_1");
        assert_ne!(ModuleName::parse("xt_TCPMSS"), ModuleName::parse("xt_tcpmss"));
        assert!(ModuleName::parse(&"a".repeat(MAX_NAME)).is_ok());
    }

    #[test]
    fn a_path_a_file_and_parameters_are_no_name() {
        let long = "a".repeat(MAX_NAME + 1);
        for text in ["", "../kvm", "kvm.ko", "kvm nested=1", "kvm,ceph", "kvm\n", "ä", &long] {
            assert!(ModuleName::parse(text).is_err(), "{text:?}");
        }
        let reason = ModuleName::parse("/lib/modules/kvm.ko").unwrap_err().reason;
        assert!(reason.ends_with("which has no path and no `.ko`"), "{reason}");
        for word in ["", "loaded", "built-in nested=1"] {
            let name = ModuleName::parse("kvm").unwrap();
            assert!(KernelModule::parse_word(name, word).is_err(), "{word}");
        }
    }
}
