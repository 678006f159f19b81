//! The state of the network configuration of pods, a line of the node's state.

use crate::fields::{number, printable, value};
use crate::setting::escape::{escaped, unescape};

/// The maximum characters of a text, of the type of a plugin, and of an error. With them and the
/// number of plugins, the line has room even if every character is escaped.
const MAX_TEXT: usize = 128;
const MAX_TYPE: usize = 32;
const MAX_ERROR: usize = 256;
/// The maximum number of plugins.
const MAX_PLUGINS: usize = 8;

/// The network configuration (CNI) with which containerd gives pods a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CniState {
    /// The name of its file; empty if there is none.
    pub file: String,
    /// The name of the network.
    pub name: String,
    /// The version of CNI that it is written for.
    pub version: String,
    /// The types of its plugins, each of which is a program.
    pub plugins: Vec<String>,
    /// Those of them that are missing.
    pub missing: Vec<String>,
    /// When the file was changed, in seconds since 1970; zero if there is none.
    pub changed: u64,
    /// Why pods get no network; empty if nothing is known to be wrong.
    pub error: String,
}

impl CniState {
    /// The line for it: its texts are cut, and what is no printable ASCII is `?`, and at most
    /// eight plugins are in it.
    pub fn encode(&self) -> String {
        let Self { file, name, version, plugins, missing, changed, error } = self;
        let list = |all: &[String]| {
            let words = all.iter().take(MAX_PLUGINS).map(|one| word(one, MAX_TYPE));
            words.collect::<Vec<_>>().join(",")
        };
        let [file, name, version] = [file, name, version].map(|text| word(text, MAX_TEXT));
        let error = word(error, MAX_ERROR);
        let (plugins, missing) = (list(plugins), list(missing));
        format!(
            "file={file} name={name} version={version} plugins={plugins} missing={missing} \
             changed={changed} error={error}"
        )
    }

    /// Reads the line; `None` if it has another form.
    pub fn decode(line: &str) -> Option<Self> {
        let text = |key: &str| value(line, key).and_then(unescape);
        let list = |key: &str| -> Option<Vec<String>> {
            let words = value(line, key)?.split(',').filter(|word| !word.is_empty());
            words.take(MAX_PLUGINS).map(unescape).collect()
        };
        Some(Self {
            file: text("file")?,
            name: text("name")?,
            version: text("version")?,
            plugins: list("plugins")?,
            missing: list("missing")?,
            changed: number(line, "changed")?,
            error: text("error")?,
        })
    }
}

/// The word for a text from a file.
fn word(text: &str, max: usize) -> String {
    escaped(&printable(&text.chars().take(max).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let state = CniState {
            file: "10-flannel.conflist".to_owned(),
            name: "cbr 0".to_owned(),
            version: "1.0.0".to_owned(),
            plugins: vec!["flannel".to_owned(), "a,b".to_owned()],
            missing: vec!["a,b".to_owned()],
            changed: 1_790_000_000,
            error: "100 % wrong".to_owned(),
        };
        let line = state.encode();
        assert_eq!(
            line,
            "file=10-flannel.conflist name=cbr%200 version=1.0.0 plugins=flannel,a%2cb \
             missing=a%2cb changed=1790000000 error=100%20%25%20wrong"
        );
        assert_eq!(CniState::decode(&line), Some(state));
        let none = CniState { error: "none".to_owned(), ..CniState::default() };
        assert_eq!(CniState::decode(&none.encode()), Some(none));
        for line in ["", "ended", "file=a name= version= plugins= missing= changed=x error="] {
            assert_eq!(CniState::decode(line), None, "{line}");
        }
    }

    #[test]
    fn long_texts_and_lists_are_cut() {
        let (long, list) = ("%".repeat(9999), vec!["%".repeat(99); 99]);
        let state = CniState {
            file: long.clone(),
            name: long.clone(),
            version: "\u{e4}".repeat(9999),
            plugins: list.clone(),
            missing: list,
            changed: u64::MAX,
            error: long,
        };
        assert!("cni \n".len() + state.encode().len() <= crate::MAX_LINE);
        let again = CniState::decode(&state.encode()).unwrap();
        assert_eq!(
            (again.name.len(), again.version, again.plugins.len()),
            (128, "?".repeat(128), 8)
        );
    }
}
