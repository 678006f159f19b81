//! Secrets in a text of TOML, which no message shows.

use regex_lite::Regex;
use std::sync::LazyLock;

/// The text with asterisks in the place of secrets. Every byte keeps its place.
pub fn masked(text: &str) -> String {
    static SECRETS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let names = "password|token|private-key|preshared-key";
        // The rest of the line, as the mistake may be in its quotation marks.
        let value = r#""""[\s\S]*?"""|'''[\s\S]*?'''|[^\n]*"#;
        Regex::new(&format!(r#"\b(?:{names})["']?\s*=\s*(?<value>{value})"#)).ok()
    });
    let mut masked = text.to_owned();
    let found = SECRETS.iter().flat_map(|secrets| secrets.captures_iter(text));
    for value in found.filter_map(|found| found.name("value")) {
        let line = |byte| if byte == b'\n' { '\n' } else { '*' };
        let hidden: String = value.as_str().bytes().map(line).collect();
        masked.replace_range(value.range(), &hidden);
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_secret_is_hidden() {
        for spelling in [
            "token = \"\"\"hunter2 \"\"\"\n",
            "token = \"\"\"\nhunter2 \n\"\"\"\nb = 1\n",
            "\"password\" = \"hunter2 \"\n",
            "password = \"a\\\"hunter2 \"\n",
            "password = \"a\" hunter2\n",
        ] {
            let shown = masked(spelling);
            assert_eq!(shown.len(), spelling.len());
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        let inline = "a = [{ password = 'hunter2', token=hunter2 }]\nb = 1\n";
        let shown = masked(inline);
        assert_eq!(shown.len(), inline.len());
        assert!(!shown.contains("hunter2") && shown.ends_with("\nb = 1\n"), "{shown}");
    }
}
