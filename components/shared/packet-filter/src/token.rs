//! The words of a filter's text.

use crate::MAX_TEXT;
use crate::error::FilterError;

/// A word, or a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// A keyword, a number or an address.
    Word(&'a str),
    /// `(`
    Open,
    /// `)`
    Close,
    /// `not` or `!`
    Not,
    /// `and` or `&&`
    And,
    /// `or` or `||`
    Or,
    /// The end of the text.
    End,
}

/// The words of the text, each with the byte where it begins, and the end.
pub fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, FilterError> {
    if text.len() > MAX_TEXT {
        return Err(FilterError::whole(format!("it has more than {MAX_TEXT} bytes")));
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (token, length) = match first {
            ' ' | '\t' | '\n' | '\r' => {
                at += 1;
                continue;
            }
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '!' if !rest.starts_with("!=") => (Token::Not, 1),
            '&' if rest.starts_with("&&") => (Token::And, 2),
            '|' if rest.starts_with("||") => (Token::Or, 2),
            _ => {
                let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                if length == 0 {
                    return Err(FilterError::at(text, at, unknown(first)));
                }
                (word(&rest[..length]), length)
            }
        };
        tokens.push((at, token));
        at += length;
    }
    tokens.push((text.len(), Token::End));
    Ok(tokens)
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '/' | '-' | '_')
}

fn word(word: &str) -> Token<'_> {
    match word {
        "not" => Token::Not,
        "and" => Token::And,
        "or" => Token::Or,
        word => Token::Word(word),
    }
}

fn unknown(c: char) -> String {
    match c {
        '[' | ']' | '=' | '<' | '>' | '!' | '&' | '|' | '+' | '*' => {
            format!("`{c}` is not known: bytes of packets cannot be compared")
        }
        c => format!("`{}` is not known", c.escape_debug()),
    }
}
