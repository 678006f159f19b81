//! Bootstrap tokens (`https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/`).

use aws_lc_rs::rand::fill;
use std::fmt::Write;

/// The characters of a token. There are 32 of them, so that each is as likely as the others; `0`,
/// `1`, `l` and `o` are easily confused.
const CHARACTERS: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";

/// A new token: an id of 6 characters, a dot and a secret of 16, which are 80 random bits.
pub fn token() -> String {
    let mut bytes = [0; 22];
    // It fails only if the system has no source of randomness, without which no key can be made.
    fill(&mut bytes).expect("the system gives random bytes");
    let mut text = String::new();
    for (index, byte) in bytes.iter().enumerate() {
        let dot = if index == 6 { "." } else { "" };
        let character = char::from(CHARACTERS[usize::from(byte % 32)]);
        let _ = write!(text, "{dot}{character}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_document::BootstrapToken;

    #[test]
    fn a_token_is_one_that_nodes_accept_and_no_two_are_the_same() {
        let [first, second] = [token(), token()];
        assert!(BootstrapToken::parse(&first).is_ok(), "{first}");
        assert_ne!(first, second);
    }
}
