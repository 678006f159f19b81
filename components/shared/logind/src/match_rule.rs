//! Rules for the signals that a client wants ("Match Rules" in the D-Bus specification).

use crate::{LOGIND, LOGIND_UNIQUE, MANAGER, MANAGER_PATH, PREPARE_FOR_SHUTDOWN};

/// The maximum length of a rule in bytes.
const MAX_RULE: usize = 1024;

/// A rule of a client.
#[derive(Debug, PartialEq, Eq)]
pub struct MatchRule {
    /// Its text, which names it when it is removed.
    pub text: String,
    /// Whether it selects `PrepareForShutdown`, the only signal that there is.
    pub selects: bool,
}

impl MatchRule {
    /// Parses a rule, or returns `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_RULE {
            return None;
        }
        let (mut rest, mut selects) = (text, true);
        while !rest.is_empty() {
            let (key, behind) = rest.split_once('=')?;
            let (value, behind) = unquote(behind)?;
            selects &= selects_signal(key.trim_start(), &value)?;
            rest = behind;
        }
        Some(MatchRule { text: text.to_owned(), selects })
    }
}

/// The value at the front of `text`, and what follows its comma.
fn unquote(text: &str) -> Option<(String, &str)> {
    let (mut value, mut is_quoted) = (String::new(), false);
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' => is_quoted = !is_quoted,
            ',' if !is_quoted => return Some((value, &text[at + 1..])),
            // Outside of quotes a backslash quotes an apostrophe.
            '\\' if !is_quoted && characters.next_if(|(_, next)| *next == '\'').is_some() => {
                value.push('\'');
            }
            other => value.push(other),
        }
    }
    (!is_quoted).then_some((value, ""))
}

/// Whether the signal has this value, or `None` if there is no such key.
fn selects_signal(key: &str, value: &str) -> Option<bool> {
    Some(match key {
        "type" => match value {
            "signal" => true,
            "method_call" | "method_return" | "error" => false,
            _ => return None,
        },
        "sender" => value == LOGIND || value == LOGIND_UNIQUE,
        "interface" => value == MANAGER,
        "member" => value == PREPARE_FOR_SHUTDOWN,
        "path" => value == MANAGER_PATH,
        "path_namespace" => {
            let below = MANAGER_PATH.strip_prefix(value.trim_end_matches('/'));
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        "eavesdrop" => true,
        // The signal has no destination, and its argument is no string.
        "destination" => false,
        _ if key.starts_with("arg") => false,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(text: &str) -> Option<bool> {
        MatchRule::parse(text).map(|rule| rule.selects)
    }

    #[test]
    fn a_rule_selects_the_signal_if_each_key_does() {
        for text in [
            "",
            "type='signal',interface='org.freedesktop.login1.Manager',\
             member='PrepareForShutdown',path='/org/freedesktop/login1'",
            "type=signal,sender=org.freedesktop.login1",
            "path_namespace='/org/freedesktop'",
            "path_namespace='/'",
            "eavesdrop=true,type='signal'",
        ] {
            assert_eq!(selects(text), Some(true), "{text}");
        }
        for text in [
            "type='error'",
            "type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged'",
            "path_namespace='/org/free'",
            "member='PrepareForSleep'",
            "member=Prepare\\'ForShutdown",
            "arg0='x'",
            "destination=':1.1'",
        ] {
            assert_eq!(selects(text), Some(false), "{text}");
        }
    }

    #[test]
    fn a_rule_of_another_form_is_invalid() {
        let long = format!("member='{}'", "x".repeat(MAX_RULE));
        for text in ["signal", "type='signal", "type='what'", "colour='red'", ",", &long] {
            assert_eq!(selects(text), None, "{text}");
        }
    }
}
