//! The node document on DATA, and the copy of the last one that was accepted. With a mistake in the
//! document, the accepted one stays in effect. Without an accepted one, a node that is in its
//! cluster stays there and goes on with an empty document, and any other node joins none until its
//! document is accepted.

use std::fs;
use std::path::Path;

use osbuild_document::Document;
use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::Folder;
use osbuild_folder::small_file::read;

/// The document and its copy in their folder.
const DOCUMENT: &str = "node.toml";
const ACCEPTED: &str = ".accepted.toml";
/// The folder there for entries that were in the way of the copy.
const ASIDE: &str = ".aside";
/// It may contain a token.
const MODE: u32 = 0o600;

/// Reads the document in `folder`, and prints why it is refused, if it is. `has_joined` returns
/// whether the node is in a cluster.
///
/// # Errors
/// It is refused, and nothing replaces it.
pub fn in_effect(folder: &Path, has_joined: impl FnOnce() -> bool) -> Outcome<Document> {
    let path = folder.join(DOCUMENT);
    let refusal = match read(&path) {
        Ok(None) => {
            // It may be missing as well.
            let _ = fs::remove_file(folder.join(ACCEPTED));
            return Ok(Document::default());
        }
        Ok(Some(text)) => match Document::parse(&text) {
            Ok(document) => {
                keep(folder, &text).unwrap_or_else(|failure| println!("{failure}"));
                return Ok(document);
            }
            Err(refusal) => refusal.to_string(),
        },
        Err(failure) => failure.to_string(),
    };
    let accepted = read(&folder.join(ACCEPTED)).ok().flatten();
    let accepted = accepted.and_then(|text| Document::parse(&text).ok());
    let (consequence, replaced) = match accepted {
        Some(document) => ("the last accepted one stays in effect", Some(document)),
        None if has_joined() => ("the node goes on without it", Some(Document::default())),
        None => ("the node does not join a cluster", None),
    };
    println!("{} is refused, {consequence}: {refusal}", path.display());
    replaced.ok_or_else(|| Failure::new(format!("{} is refused: {refusal}", path.display())))
}

fn keep(folder: &Path, text: &str) -> Outcome {
    if read(&folder.join(ACCEPTED)).is_ok_and(|kept| kept.as_deref() == Some(text)) {
        return Ok(());
    }
    let keep = || Folder::open(folder, ASIDE)?.replace(ACCEPTED, text.as_bytes(), MODE);
    keep().explain(format_args!("keep a copy of {}", folder.join(DOCUMENT).display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[kubelet]\nprovider-id = \"a\"\n";
    const BAD: &str = "[kubelet]\nprovider = \"a\"\n";

    /// The document in effect on a node that is in no cluster.
    fn alone(folder: &Path) -> Outcome<Document> {
        in_effect(folder, || false)
    }

    fn provider(document: Outcome<Document>) -> Option<String> {
        document.unwrap().kubelet.provider_id
    }

    #[test]
    fn a_node_without_a_document_has_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(alone(folder.path()), Ok(Document::default()));
    }

    #[test]
    fn a_mistake_leaves_the_last_accepted_document_in_effect() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| fs::write(folder.path().join(DOCUMENT), text).unwrap();
        write(GOOD);
        assert_eq!(provider(alone(folder.path())).as_deref(), Some("a"));
        write(BAD);
        assert_eq!(provider(alone(folder.path())).as_deref(), Some("a"));
        write(&GOOD.replace("\"a\"", "\"b\""));
        assert_eq!(provider(alone(folder.path())).as_deref(), Some("b"));
        fs::remove_file(folder.path().join(DOCUMENT)).unwrap();
        assert_eq!(alone(folder.path()), Ok(Document::default()));
        write(BAD);
        assert!(alone(folder.path()).is_err(), "a removed document is forgotten");
    }

    #[test]
    fn a_first_document_that_is_refused_keeps_a_node_from_joining_but_not_in_its_cluster() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(DOCUMENT), BAD).unwrap();
        let refusal = alone(folder.path()).unwrap_err().to_string();
        assert!(refusal.contains("node.toml is refused: line 2: "), "{refusal}");
        assert_eq!(in_effect(folder.path(), || true), Ok(Document::default()));
    }

    #[test]
    fn a_fifo_in_its_place_is_refused_without_waiting_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DOCUMENT);
        rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
        assert!(alone(folder.path()).is_err());
    }
}
