//! Makes text safe for a terminal: files that are inspected are untrusted, and so are the names in
//! them.

use std::fmt::{self, Arguments, Write};

/// The text in one line, without characters that would control a terminal, except tabs, or reorder
/// what it shows: these are escaped.
pub fn printable(text: &str) -> String {
    let escape = |c: char| match is_deceptive(c) && c != '\t' {
        true => c.escape_debug().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Writes a line. A line end within it is escaped, because it comes from one of the arguments.
pub fn line(out: &mut impl Write, text: Arguments<'_>) -> fmt::Result {
    out.write_str(&printable(&text.to_string()))?;
    out.write_char('\n')
}

/// Writes a text that may have several lines. All but the first begin with `indent`, so that none
/// looks like one of ours.
pub fn lines(out: &mut impl Write, indent: &str, text: &str) -> fmt::Result {
    for (index, line) in text.lines().enumerate() {
        if index > 0 {
            write!(out, "\n{indent}")?;
        }
        out.write_str(&printable(line))?;
    }
    Ok(())
}

/// Whether a terminal may obey the character: a control of ASCII or ISO 6429 (C1), the end of a
/// line or paragraph, or what Unicode calls `Bidi_Control`.
fn is_deceptive(c: char) -> bool {
    let reorders = matches!(c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || reorders || matches!(c, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_and_line_ends_are_escaped_and_other_scripts_stay() {
        let text = "a\tb\r\n\u{1b}[2J\u{9b}\u{202e}\u{2028} Ü שלום";
        let expected = "a\tb\\r\\n\\u{1b}[2J\\u{9b}\\u{202e}\\u{2028} Ü שלום";
        assert_eq!(printable(text), expected);
    }

    #[test]
    fn further_lines_of_a_text_are_indented() {
        let mut out = String::new();
        lines(&mut out, "  ", "one\nerror: two\u{7}").unwrap();
        assert_eq!(out, "one\n  error: two\\u{7}");
    }
}
