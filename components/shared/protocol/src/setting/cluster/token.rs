//! A bootstrap token
//! (`https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/`).

use super::super::secret::{REDACTED, Secret};
use crate::Refusal;

/// The lengths of its id and of its secret.
const ID: usize = 6;
const SECRET: usize = 16;

/// A bootstrap token: `ID.SECRET`. Its `Debug` has neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapToken(Secret);

impl BootstrapToken {
    /// Reads a token.
    ///
    /// # Errors
    /// It has another form. The reason does not quote it, as it is printed on the console.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_part = |part: &str, length| {
            part.len() == length
                && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        match text.split_once('.') {
            Some((id, secret)) if is_part(id, ID) && is_part(secret, SECRET) => {
                Ok(Self(Secret::new(text)))
            }
            _ if text == REDACTED => {
                Err(Refusal::malformed("the bootstrap token is hidden: write it again"))
            }
            _ => Err(Refusal::malformed(
                "a bootstrap token has 6 lower-case letters and digits, a dot, and 16 more",
            )),
        }
    }

    /// The whole token.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_form_and_is_never_printed() {
        let token = BootstrapToken::parse("abcdef.0123456789abcdef").unwrap();
        assert_eq!(token.reveal(), "abcdef.0123456789abcdef");
        assert!(!format!("{token:?}").contains("abc"));
        for text in
            ["", "abcdef", "abcdef.0123", "ABCDEF.0123456789abcdef", "abcdé.0123456789abcdef"]
        {
            let reason = BootstrapToken::parse(text).unwrap_err().reason;
            assert!(text.is_empty() || !reason.contains(text), "{reason}");
        }
        assert!(BootstrapToken::parse(REDACTED).unwrap_err().reason.contains("write it again"));
    }
}
