//! Fields of the kubelet's configuration: `[kubelet.config]`. Their names and values are those of
//! the kubelet and of the specs of `osbuild.v1`.

use osbuild_protocol::{KubeletField, KubeletKey, KubeletValue};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// The value of a field, or its values by their keys.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a text, an integer, a boolean or a table of these is expected")]
enum Value {
    One(Word),
    Several(BTreeMap<String, Word>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Number(i64),
    Flag(bool),
}

impl fmt::Display for Word {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            Self::Number(number) => number.fmt(formatter),
            Self::Flag(flag) => flag.fmt(formatter),
        }
    }
}

/// Reads the fields.
pub fn fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<KubeletField>, D::Error> {
    let mut fields = Vec::new();
    for (name, value) in BTreeMap::<String, Value>::deserialize(deserializer)? {
        if !KubeletKey::FIELDS.contains(&name.as_str()) {
            return Err(D::Error::unknown_field(&name, KubeletKey::FIELDS));
        }
        let words = match value {
            Value::One(word) => vec![(name, word)],
            Value::Several(words) => {
                words.into_iter().map(|(key, word)| (format!("{name}.{key}"), word)).collect()
            }
        };
        for (key, word) in words {
            let field = KubeletField::parse(&key, &word.to_string())
                .map_err(|refusal| D::Error::custom(refusal.reason))?;
            if !matches!(field.scalar(), KubeletValue::Text(_)) && matches!(word, Word::Text(_)) {
                let reason = format!("`{key}` is `{word}` without quotes");
                return Err(D::Error::custom(reason));
            }
            fields.push(field);
        }
    }
    KubeletField::check(&fields).map_err(|refusal| D::Error::custom(refusal.reason))?;
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use crate::Document;

    #[test]
    fn a_refusal_names_the_field_or_the_known_ones() {
        for (text, line, reason) in [
            (
                "[kubelet.config]\nreadOnlyPort = 1\n",
                1,
                "unknown field `readOnlyPort`, expected one of `containerLogMaxFiles`, ",
            ),
            ("[kubelet.config]\nmaxPods = 1\n", 1, "`maxPods` is a number from 16 to 1000"),
            ("[kubelet.config]\nmaxPods = \"50\"\n", 1, "`maxPods` is `50` without quotes"),
            ("[kubelet.config]\nmaxPods = 1.5\n", 2, "a text, an integer, a boolean or a table"),
            (
                "[kubelet.config]\nevictionSoft = { \"pid.available\" = \"5%\" }\n",
                1,
                "`evictionSoft.pid.available` needs `evictionSoftGracePeriod.pid.available`",
            ),
        ] {
            let refusal = Document::parse(text).unwrap_err();
            assert_eq!(refusal.line, line, "{text}: {refusal}");
            assert!(refusal.reason.contains(reason), "{text}: {refusal}");
        }
    }
}
