//! The fields of the kubelet's configuration on the command line of `init kubelet-config`, and
//! together with those of the node document, which that child reads first. It is pure.

use std::collections::BTreeMap;

use osbuild_protocol::{KubeletField, KubeletKey, Refusal};

/// Fields that have one value each.
pub type Fields = BTreeMap<KubeletKey, KubeletField>;

/// The change of one field that an argument asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// The field gets this value, in place of the document's.
    Set(KubeletField),
    /// The field loses the document's value.
    Remove(KubeletKey),
}

impl Argument {
    /// Reads `KEY=VALUE`, or `KEY=` for none.
    ///
    /// # Errors
    /// There is no such field, or its values have another form.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match value {
            "" => KubeletKey::parse(key).map(Self::Remove),
            value => KubeletField::parse(key, value).map(Self::Set),
        }
    }

    /// The word that [`Self::parse`] reads.
    pub fn word(&self) -> String {
        match self {
            Self::Set(field) => field.to_string(),
            Self::Remove(key) => format!("{key}="),
        }
    }
}

/// The fields of the document, as the arguments change them.
pub fn overlay(document: impl IntoIterator<Item = KubeletField>, arguments: &[Argument]) -> Fields {
    let mut fields: Fields =
        document.into_iter().map(|field| (field.key().clone(), field)).collect();
    for argument in arguments {
        match argument {
            Argument::Set(field) => fields.insert(field.key().clone(), field.clone()),
            Argument::Remove(key) => fields.remove(key),
        };
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_outrank_the_document() {
        let field = |key, value| KubeletField::parse(key, value).unwrap();
        let document = [field("maxPods", "50"), field("registryBurst", "5")];
        let words = ["maxPods=60", "registryBurst=", "evictionHard.pid.available=5%"];
        let arguments = words.map(|word| Argument::parse(word).unwrap());
        assert_eq!(arguments.each_ref().map(Argument::word), words);
        let fields = overlay(document, &arguments);
        let fields: Vec<String> = fields.values().map(ToString::to_string).collect();
        assert_eq!(fields, ["evictionHard.pid.available=5%", "maxPods=60"]);
        for word in ["maxPods=0", "readOnlyPort=", "=", "", "maxPods 50"] {
            assert!(Argument::parse(word).is_err(), "{word}");
        }
    }
}
