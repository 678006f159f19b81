//! The document on DATA, and the record of what was placed there.

use crate::decision::{Decision, Found, decide};
use crate::instance::Instance;
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::Folder;
use osbuild_folder::small_file;
use std::fs;
use std::path::Path;

/// The document and the record in their folder.
const DOCUMENT: &str = "node.toml";
const RECORD: &str = ".bootstrap";
/// The folder there for entries that were in the way.
const ASIDE: &str = ".aside";
/// A text that no document has.
const NO_TEXT: &str = "\0";
/// The document may contain a token.
const MODE: u32 = 0o600;

/// Decides about a document, and places it in `folder` if it is to be placed.
///
/// # Errors
/// The folder cannot be read or written.
pub fn settle(folder: &Path, found: &Found) -> Outcome<Decision> {
    let on_data = read(&folder.join(DOCUMENT))?;
    let placed = placed(folder)?;
    let decision = decide(on_data.as_deref(), placed.as_ref(), found);
    // The record comes last: without it, the document is recorded at the next boot.
    match decision {
        Decision::Place => {
            write(folder, DOCUMENT, &found.text)?;
            write(folder, RECORD, &record(found, placed))?;
        }
        Decision::Record => write(folder, RECORD, &record(found, placed))?,
        Decision::Keep | Decision::Changed | Decision::Removed | Decision::Owners => {}
    }
    Ok(decision)
}

/// The instance for which a document was placed last.
///
/// # Errors
/// The folder cannot be read.
pub fn last_instance(folder: &Path) -> Outcome<Option<Instance>> {
    Ok(placed(folder)?.map(|found| found.instance))
}

/// The document that was placed last.
fn placed(folder: &Path) -> Outcome<Option<Found>> {
    Ok(read(&folder.join(RECORD))?.and_then(|record| parse_record(&record)))
}

/// The text of an entry. Bytes that are no text, and an entry that is no file, are of the owner:
/// they are the same as no document, and one that replaces the owner's replaces them.
fn read(path: &Path) -> Outcome<Option<String>> {
    if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return Ok(Some(NO_TEXT.to_owned()));
    }
    let text = |bytes| String::from_utf8(bytes).unwrap_or_else(|_| NO_TEXT.to_owned());
    Ok(small_file::read_bytes(path)?.map(text))
}

/// The instance on a line, with the latest time of a document that replaced others and the machine
/// before it, and the document.
fn record(found: &Found, before: Option<Found>) -> String {
    let latest = found.replaces.max(before.as_ref().and_then(|before| before.replaces));
    let former = before.filter(|_| found.replaces.is_some());
    let former = former.map(|before| before.former.unwrap_or(before.instance));
    let former = former.filter(|former| *former != found.instance);
    let mut line = found.instance.to_string();
    line.extend(latest.map(|time| format!(" {time}")));
    line.extend(former.map(|former| format!(" {former}")));
    format!("{line}\n{}", found.text)
}

fn parse_record(record: &str) -> Option<Found> {
    let (line, text) = record.split_once('\n')?;
    let mut words = line.split(' ');
    let instance = Instance::parse(words.next()?).ok()?;
    let replaces = words.next().map(str::parse).transpose().ok()?;
    let former = words.next().map(Instance::parse).transpose().ok()?;
    Some(Found { instance, replaces, former, text: text.to_owned() })
}

fn write(folder: &Path, name: &str, text: &str) -> Outcome {
    let write = || Folder::open(folder, ASIDE)?.replace(name, text.as_bytes(), MODE);
    write().explain(format_args!("write {}", folder.join(name).display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn found(instance: &str, text: &str) -> Found {
        let instance = Instance::parse(instance).unwrap();
        Found { instance, replaces: None, former: None, text: text.to_owned() }
    }

    #[test]
    fn the_time_of_a_document_that_replaced_others_stays_in_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let settle = |found: &Found| settle(folder.path(), found).unwrap();
        fs::write(folder.path().join(DOCUMENT), "own").unwrap();
        let replacing = Found { replaces: Some(7), ..found("i-1", "a = 1\n") };
        assert_eq!(settle(&replacing), Decision::Place);
        assert_eq!(settle(&replacing), Decision::Keep);
        assert_eq!(settle(&found("i-2", "a = 2\n")), Decision::Place);
        assert_eq!(settle(&replacing), Decision::Place, "the disk is in its machine again");
        fs::write(folder.path().join(DOCUMENT), "own").unwrap();
        assert_eq!(settle(&replacing), Decision::Owners, "the owner has written since");
        let earlier = Found { replaces: Some(6), ..found("i-1", "a = 0\n") };
        assert_eq!(settle(&earlier), Decision::Owners);
    }

    #[test]
    fn a_recovery_document_stays_when_a_cloud_still_has_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let settle = |found: &Found| settle(folder.path(), found).unwrap();
        let of_cloud = found("i-1", "a = 1\n");
        assert_eq!(settle(&of_cloud), Decision::Place);
        for (time, instance) in [(7, "stick"), (8, "other")] {
            let text = format!("a = {time}\n");
            let recovery = Found { replaces: Some(time), ..found(instance, &text) };
            assert_eq!(settle(&recovery), Decision::Place);
            assert_eq!(settle(&of_cloud), Decision::Owners);
        }
        assert_eq!(settle(&found("i-2", "a = 3\n")), Decision::Place, "the disk is a copy");
        assert_eq!(settle(&of_cloud), Decision::Place);
    }

    #[test]
    fn an_entry_that_is_no_text_is_replaced_by_a_document_that_replaces_others() {
        let entries: [fn(&Path); 2] =
            [|path| fs::write(path, b"\xff").unwrap(), |path| fs::create_dir(path).unwrap()];
        for make in entries {
            let folder = tempfile::tempdir().unwrap();
            [DOCUMENT, RECORD].iter().for_each(|name| make(&folder.path().join(name)));
            assert_eq!(last_instance(folder.path()).unwrap(), None);
            let document = found("i-1", "a = 1\n");
            assert_eq!(settle(folder.path(), &document).unwrap(), Decision::Owners);
            let replacing = Found { replaces: Some(7), ..document };
            assert_eq!(settle(folder.path(), &replacing).unwrap(), Decision::Place);
            assert_eq!(settle(folder.path(), &replacing).unwrap(), Decision::Keep);
            let text = fs::read_to_string(folder.path().join(DOCUMENT)).unwrap();
            assert_eq!(text, "a = 1\n");
        }
    }

    #[test]
    fn a_second_boot_with_another_document_keeps_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let settle = |found: &Found| settle(folder.path(), found).unwrap();
        let text = || fs::read_to_string(folder.path().join(DOCUMENT)).unwrap();
        assert_eq!(settle(&found("i-1", "a = 1\n")), Decision::Place);
        let about = fs::metadata(folder.path().join(DOCUMENT)).unwrap();
        assert_eq!(about.permissions().mode() & 0o777, MODE);
        assert_eq!(settle(&found("i-1", "a = 1\n")), Decision::Keep);
        assert_eq!(settle(&found("i-1", "a = 2\n")), Decision::Changed);
        assert_eq!(text(), "a = 1\n");
        assert_eq!(settle(&found("i-2", "a = 3\n")), Decision::Place);
        assert_eq!(text(), "a = 3\n");
        fs::write(folder.path().join(DOCUMENT), "own").unwrap();
        assert_eq!(settle(&found("i-3", "a = 4\n")), Decision::Owners);
        assert_eq!(text(), "own");
    }

    #[test]
    fn a_damaged_record_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        for record in ["", "i-1", "\n", "a b\nx"] {
            fs::write(folder.path().join(RECORD), record).unwrap();
            fs::write(folder.path().join(DOCUMENT), "own").unwrap();
            let decision = settle(folder.path(), &found("i-1", "x")).unwrap();
            assert_eq!(decision, Decision::Owners, "{record:?}");
        }
    }
}
