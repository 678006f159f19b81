//! The node document on DATA, and the copy of the last one that was accepted. A mistake in an edit
//! changes nothing on a node that has an accepted document or is in its cluster. A node that is in
//! none joins none until its document is accepted.

use std::fs;
use std::path::Path;

use osbuild_document::Document;
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;
use osbuild_folder::small_file::read;

/// The document and its copy in their folder.
const DOCUMENT: &str = "node.toml";
const ACCEPTED: &str = ".accepted.toml";
/// The folder there for entries that were in the way of the copy.
const ASIDE: &str = ".aside";
/// It may contain a token.
const MODE: u32 = 0o600;

/// Reads the document in `folder`. None if it is refused and nothing replaces it; `has_joined` is
/// whether the node is in a cluster. Prints the reason of a refusal.
pub fn in_effect(folder: &Path, has_joined: bool) -> Option<Document> {
    let path = folder.join(DOCUMENT);
    let refusal = match read(&path) {
        Ok(None) => {
            // It may be missing as well.
            let _ = fs::remove_file(folder.join(ACCEPTED));
            return Some(Document::default());
        }
        Ok(Some(text)) => match Document::parse(&text) {
            Ok(document) => {
                keep(folder, &text).unwrap_or_else(|failure| println!("{failure}"));
                return Some(document);
            }
            Err(refusal) => refusal.to_string(),
        },
        Err(failure) => failure.to_string(),
    };
    let accepted = read(&folder.join(ACCEPTED)).ok().flatten();
    let accepted = accepted.and_then(|text| Document::parse(&text).ok());
    let consequence = match (&accepted, has_joined) {
        (Some(_), _) => "the last accepted one stays in effect",
        (None, true) => "the node goes on without it",
        (None, false) => "the node does not join a cluster",
    };
    println!("{} is refused, {consequence}: {refusal}", path.display());
    accepted.or_else(|| has_joined.then(Document::default))
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

    fn provider(document: Option<Document>) -> Option<String> {
        document.and_then(|document| document.kubelet.provider_id)
    }

    #[test]
    fn a_node_without_a_document_has_an_empty_one() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(in_effect(folder.path(), false), Some(Document::default()));
    }

    #[test]
    fn a_mistake_leaves_the_last_accepted_document_in_effect() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| fs::write(folder.path().join(DOCUMENT), text).unwrap();
        write(GOOD);
        assert_eq!(provider(in_effect(folder.path(), false)).as_deref(), Some("a"));
        write(BAD);
        assert_eq!(provider(in_effect(folder.path(), false)).as_deref(), Some("a"));
        write(&GOOD.replace("\"a\"", "\"b\""));
        assert_eq!(provider(in_effect(folder.path(), false)).as_deref(), Some("b"));
        fs::remove_file(folder.path().join(DOCUMENT)).unwrap();
        assert_eq!(in_effect(folder.path(), false), Some(Document::default()));
        write(BAD);
        assert_eq!(in_effect(folder.path(), false), None, "a removed document is forgotten");
    }

    #[test]
    fn a_first_document_that_is_refused_keeps_a_node_from_joining_but_not_in_its_cluster() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(DOCUMENT), BAD).unwrap();
        assert_eq!(in_effect(folder.path(), false), None);
        assert_eq!(in_effect(folder.path(), true), Some(Document::default()));
    }

    #[test]
    fn a_fifo_in_its_place_is_refused_without_waiting_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DOCUMENT);
        rustix::fs::mkfifoat(rustix::fs::CWD, path, 0o600.into()).unwrap();
        assert_eq!(in_effect(folder.path(), false), None);
    }
}
