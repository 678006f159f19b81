//! Values of recipe keys from the command line, which override those of every recipe.

use crate::error::{Error, Result};
use crate::plan::document::{COMMAND_LINE, Text};
use crate::plan::keys::{Key, Need, RecipeFile, Shape, Table};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values of `--set KEY=VALUE`, by the dotted name of their key: `kernel.groups.ipsec`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    values: BTreeMap<String, String>,
}

impl Overrides {
    /// Reads words of the form `KEY=VALUE`.
    ///
    /// # Errors
    /// A word has another form, names a key twice, or names one whose value is not one word of
    /// TOML. Unknown keys and wrong values are found when a recipe is read.
    pub fn parse(words: &[String]) -> Result<Self> {
        let mut values = BTreeMap::new();
        for word in words {
            let (key, value) = word.split_once('=').ok_or_else(|| {
                Error::usage(format!("`--set {word}` has no `=`"))
                    .hint("for example: --set version=1.35.8-2")
            })?;
            check_key(key)?;
            if values.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(Error::usage(format!("`--set` has `{key}` twice")));
            }
        }
        check_entries(&values)?;
        Ok(Overrides { values })
    }

    /// The values by key, as they were given.
    pub fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    /// The same as a recipe; `None` if there are none.
    pub(super) fn text(&self) -> Option<Arc<Text>> {
        let line =
            |(key, value): (&String, &String)| format!("{key} = {}\n", toml_value(key, value));
        let text = self.values.iter().map(line).collect::<String>();
        (!text.is_empty()).then(|| Arc::new(Text { name: COMMAND_LINE.to_owned(), text }))
    }
}

/// Checks that a key is one name, or several with dots between them, of a key with a single value.
fn check_key(key: &str) -> Result<()> {
    let is_name = |name: &str| {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        !name.is_empty() && name.chars().all(is_part)
    };
    if !key.split('.').all(is_name) {
        let error = Error::usage(format!("`{key}` is not the name of a recipe's key"));
        return Err(error.hint("for example: --set kernel.groups.ipsec=true"));
    }
    let what = match shape(key) {
        _ if key == key!(RecipeFile.inherit) => "decides which recipe is built",
        Some(Shape::List(_)) => "is a list",
        Some(Shape::Table(_) | Shape::Map { .. }) => "is a section",
        None if is_in_setting(key) => "is part of a setting that recipes replace as a whole",
        _ => return Ok(()),
    };
    Err(refused(key, what))
}

/// Whether a key stands inside a value of the node document.
fn is_in_setting(key: &str) -> bool {
    let mut outer = key.match_indices('.').map(|(at, _)| &key[..at]);
    outer.any(|outer| matches!(shape(outer), Some(Shape::OfDocument)))
}

/// Checks that no key is one of an entry that recipes replace as a whole, unless all that the entry
/// needs is set.
fn check_entries(values: &BTreeMap<String, String>) -> Result<()> {
    for key in values.keys() {
        let Some((entry, _)) = key.rsplit_once('.') else { continue };
        let kinds = match shape(entry) {
            Some(Shape::Table(keys)) => vec![*keys],
            Some(Shape::Choice(kinds)) => kinds.to_vec(),
            _ => continue,
        };
        let is_set = |key: &Key| values.contains_key(&format!("{entry}.{}", key.name));
        let is_whole =
            |keys: &&[Key]| keys.iter().filter(|key| key.need == Need::Required).all(is_set);
        if !kinds.iter().any(is_whole) {
            return Err(refused(key, "is part of an entry that recipes replace as a whole"));
        }
    }
    Ok(())
}

fn refused(key: &str, what: &str) -> Error {
    Error::usage(format!("`--set` cannot change `{key}`, which {what}"))
        .hint("write it in a recipe that inherits from this one")
}

/// A value as TOML: without quotes where the key takes something else than a string, and the value
/// is one.
fn toml_value(key: &str, value: &str) -> String {
    let is_bare = match shape(key) {
        Some(Shape::Text(_) | Shape::Word(_)) | None => false,
        Some(_) => value.parse::<toml::Value>().is_ok_and(|value| !value.is_str()),
    };
    if is_bare { value.to_owned() } else { toml::Value::from(value).to_string() }
}

/// The shape of the value of a recipe's key; `None` for an unknown key.
fn shape(key: &str) -> Option<&'static Shape> {
    let find = |keys: &'static [Key], name: &str| {
        keys.iter().find(|key| key.name == name).map(|key| &key.shape)
    };
    let (first, rest) = key.split_once('.').unwrap_or((key, ""));
    let inner = |shape: &'static Shape, name: &str| match shape {
        Shape::Table(keys) => find(keys, name),
        Shape::Map { value, .. } => Some(*value),
        _ => None,
    };
    let names = rest.split('.').filter(|name| !name.is_empty());
    names.fold(find(RecipeFile::KEYS, first), |shape, name| inner(shape?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Overrides> {
        Overrides::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn values_get_the_quotes_that_their_keys_need() {
        let words = [
            "version=1.35",
            "security-epoch=3",
            "kernel.groups.ipsec=true",
            "kernel.options.NR_CPUS=64",
            "kernel.options.EROFS_FS=m",
            "pods.cni.component=cni",
            "pods.cni.version=1.9.1",
            "pods.updater=false",
            "signing.key=a\"b=c",
            "unknown=1",
        ];
        let expected = "kernel.groups.ipsec = true\nkernel.options.EROFS_FS = \"m\"\n\
                        kernel.options.NR_CPUS = 64\npods.cni.component = \"cni\"\n\
                        pods.cni.version = \"1.9.1\"\npods.updater = false\n\
                        security-epoch = 3\nsigning.key = 'a\"b=c'\nunknown = \"1\"\n\
                        version = \"1.35\"\n";
        assert_eq!(parse(&words).unwrap().text().unwrap().text, expected);
        assert!(parse(&[]).unwrap().text().is_none());
    }

    #[test]
    fn words_that_set_no_single_value_are_refused() {
        for (words, problem) in [
            (&["version"][..], "`--set version` has no `=`"),
            (&["=1"], "`` is not the name of a recipe's key"),
            (&["a b=1"], "`a b` is not the name of a recipe's key"),
            (&["kernel..options=1"], "`kernel..options` is not the name of a recipe's key"),
            (&["version=1", "version=2"], "`--set` has `version` twice"),
            (&["time-servers=a"], "`--set` cannot change `time-servers`, which is a list"),
            (&["kernel=a"], "`--set` cannot change `kernel`, which is a section"),
            (&["pods=a"], "`--set` cannot change `pods`, which is a section"),
            (
                &["inherit=a"],
                "`--set` cannot change `inherit`, which decides which recipe is built",
            ),
            (
                &["node.kernel-parameters.vm=1"],
                "`--set` cannot change `node.kernel-parameters.vm`, which is part of a setting \
                 that recipes replace as a whole",
            ),
            (
                &["pods.cni.version=1.9.1"],
                "`--set` cannot change `pods.cni.version`, which is part of an entry that recipes \
                 replace as a whole",
            ),
            (
                &["binaries.kubelet.version=1.35.9"],
                "`--set` cannot change `binaries.kubelet.version`, which is part of an entry that \
                 recipes replace as a whole",
            ),
        ] {
            assert_eq!(parse(words).unwrap_err().problems[0].message, problem);
        }
    }
}
