//! A bootstrap token
//! (`https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/`).

use serde::Deserialize;
use std::fmt;

/// The lengths of its id and of its secret.
const ID: usize = 6;
const SECRET: usize = 16;

/// A bootstrap token: `ID.SECRET`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct BootstrapToken(String);

impl BootstrapToken {
    /// The whole token, which is a secret.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for BootstrapToken {
    type Error = &'static str;

    /// The error does not quote the token: it is printed on the console.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_part = |part: &str, length| {
            part.len() == length
                && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        match text.split_once('.') {
            Some((id, secret)) if is_part(id, ID) && is_part(secret, SECRET) => Ok(Self(text)),
            _ => Err("a bootstrap token has 6 lower-case letters and digits, a dot, and 16 more"),
        }
    }
}

impl fmt::Debug for BootstrapToken {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "{}.…", &self.0[..ID])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_form_and_is_never_printed() {
        let token = BootstrapToken::try_from("abcdef.0123456789abcdef".to_owned()).unwrap();
        assert_eq!(format!("{token:?}"), "abcdef.…");
        for text in
            ["", "abcdef", "abcdef.0123", "ABCDEF.0123456789abcdef", "abcdé.0123456789abcdef"]
        {
            let error = BootstrapToken::try_from(text.to_owned()).unwrap_err();
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }
}
