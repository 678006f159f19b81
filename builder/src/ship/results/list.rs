//! The signed list of results.

use crate::engine::action::ActionResult;
use crate::engine::digest::Digest;
use crate::error::{Error, Result};
use crate::produce::sign::{ReleasePublicKey, ReleaseSigner};
use crate::ship::release::dsse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The type of the list in its envelope.
const KIND: &str = "application/vnd.osbuild.results.list.v1+json";
/// The name of the list for offline signers.
const NAME: &str = "results";

/// The results of steps, and the files that these made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// The results by the digest of their action: `HASH/SIZE`.
    results: BTreeMap<String, Listed>,
    /// The digest of each file of a result, and the digest of the same file as it is kept,
    /// compressed with zstd.
    files: BTreeMap<String, String>,
}

/// A result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    /// The name of the step, for people.
    step: String,
    /// The bytes of the REAPI message `ActionResult`, in Base64.
    result: String,
}

impl Listed {
    /// The name of the step, its action, and its result; nothing if one is malformed.
    fn read(&self, action: &str) -> Option<(&str, Digest, ActionResult)> {
        let result = STANDARD.decode(&self.result).ok()?;
        Some((&self.step, action.parse().ok()?, ActionResult::decode(&result)?))
    }
}

impl List {
    /// Adds a result. The caller adds its files with [`List::keep`].
    pub fn add(&mut self, step: &str, action: &Digest, result: &ActionResult) {
        let result = STANDARD.encode(result.encode());
        self.results.insert(text(action), Listed { step: step.to_owned(), result });
    }

    /// Records how a file of a result is kept.
    pub fn keep(&mut self, file: &Digest, kept: &Digest) {
        self.files.insert(text(file), text(kept));
    }

    /// The results: the name of the step, its action, and its result.
    ///
    /// # Errors
    /// A digest or a result is malformed.
    pub fn results(&self) -> Result<Vec<(&str, Digest, ActionResult)>> {
        let wrong = || Error::digest("the list has a malformed result");
        let results = self.results.iter();
        results.map(|(action, listed)| listed.read(action).ok_or_else(wrong)).collect()
    }

    /// How each of these files of results is kept. The artifact lacks those that no build needs.
    ///
    /// # Errors
    /// The digest that the list has for one is malformed.
    pub fn kept(&self, files: impl Iterator<Item = Digest>) -> Result<BTreeMap<Digest, Digest>> {
        let wrong =
            |file| Error::digest(format!("the list has a malformed digest for the file {file}"));
        let kept = |file| {
            let kept = self.files.get(&text(&file))?;
            Some(kept.parse().map(|kept| (file, kept)).map_err(|_| wrong(file)))
        };
        files.filter_map(kept).collect()
    }

    /// The list, signed.
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn seal(&self, key: &dyn ReleaseSigner) -> Result<Vec<u8>> {
        let payload = serde_json::to_vec(self).expect("strings always serialize");
        dsse::seal(NAME, KIND, &payload, key)
    }

    /// A list from its envelope.
    ///
    /// # Errors
    /// None of the keys has signed it, or it is malformed.
    pub fn open(envelope: &[u8], keys: &[ReleasePublicKey]) -> Result<Self> {
        let payload = dsse::open(envelope, KIND, keys)?;
        serde_json::from_slice(&payload)
            .map_err(|error| Error::digest("the list of results is malformed").cause(error))
    }
}

/// The files of a result: its outputs and its log.
pub fn files(result: &ActionResult) -> BTreeSet<Digest> {
    result.outputs.values().map(|output| output.digest).chain(result.log).collect()
}

/// A digest as `HASH/SIZE`.
fn text(digest: &Digest) -> String {
    format!("{digest:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::action::OutputFile;
    use crate::produce::sign::ReleaseKey;
    use proptest::prelude::*;

    fn list() -> List {
        let file = OutputFile { digest: Digest::of(b"file"), executable: true };
        let outputs = [("out/file".to_owned(), file)].into();
        let result = ActionResult { outputs, log: Some(Digest::of(b"log")), ..Default::default() };
        let mut list = List::default();
        list.add("step", &Digest::of(b"action"), &result);
        files(&result).iter().for_each(|file| list.keep(file, &Digest::of(b"kept")));
        list
    }

    #[test]
    fn a_list_opens_for_its_key_alone_as_it_was() {
        let (key, other) = (ReleaseKey::generate().unwrap(), ReleaseKey::generate().unwrap());
        let sealed = list().seal(&key).unwrap();
        let opened = List::open(&sealed, &[other.public(), key.public()]).unwrap();
        assert_eq!(opened, list());
        let results = opened.results().unwrap();
        assert_eq!(
            results.iter().map(|one| (one.0, one.1)).collect::<Vec<_>>(),
            [("step", Digest::of(b"action"))]
        );
        let (log, absent) = (Digest::of(b"log"), Digest::of(b"absent"));
        let kept = opened.kept([log, absent].into_iter()).unwrap();
        assert_eq!(kept, BTreeMap::from([(log, Digest::of(b"kept"))]));
        assert!(List::open(&sealed, &[other.public()]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_list_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let key = ReleaseKey::generate().unwrap();
            prop_assert!(List::open(&bytes, &[key.public()]).is_err());
            if let Ok(list) = serde_json::from_slice::<List>(&bytes) {
                let _ = list.results();
            }
        }
    }
}
