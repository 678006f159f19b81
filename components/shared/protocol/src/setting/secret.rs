//! Texts that nobody may read by mistake.

use std::fmt;

use zeroize::Zeroizing;

/// The text in the place of a secret.
pub const REDACTED: &str = "(hidden)";
/// The text in the place of a secret that differs from the one before.
pub const REDACTED_CHANGE: &str = "(hidden, changed)";

/// A password or a token. Its `Debug` and `Display` do not have it, and its memory is overwritten
/// when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a text as a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed() {
        let secret = Secret::new("hunter2");
        assert_eq!(
            format!("{secret} {secret:?} {:?}", Some(&secret)).matches("hunter2").count(),
            0
        );
        assert_eq!(secret.reveal(), "hunter2");
    }
}
