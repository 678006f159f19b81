//! The identifier of a machine.

use osbuild_failure::{Failure, Outcome};
use std::fmt;

/// The longest identifier in bytes.
const MAX_LENGTH: usize = 128;

/// The identifier of a machine: two machines that start from copies of one disk differ in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance(String);

impl Instance {
    /// Reads an identifier: 1 to 128 letters, digits, `-`, `_` and `.`, with white space around it.
    ///
    /// # Errors
    /// It has another form.
    pub fn parse(text: &str) -> Outcome<Self> {
        let text = text.trim();
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        match (1..=MAX_LENGTH).contains(&text.len()) && text.bytes().all(is_known) {
            true => Ok(Self(text.to_owned())),
            false => Err(Failure::new(format!(
                "an instance identifier has 1 to {MAX_LENGTH} letters, digits, `-`, `_` and `.`"
            ))),
        }
    }

    /// The identifier.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
