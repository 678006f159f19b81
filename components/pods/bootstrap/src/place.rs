//! The document on DATA, and the record of what was placed there.

use crate::decision::{Decision, Found, Known, decide};
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
/// The maximum number of former machines in a record: those that a disk was in last.
const MAX_FORMER: usize = 16;
/// The time in a record without one that has former machines: no document is so old.
const NEVER: u64 = 0;
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
    let before = known(folder)?;
    let decision = decide(on_data.as_deref(), &before, found);
    let after = match decision {
        Decision::Place | Decision::Record => with_placed(before.clone(), found),
        // One that replaces the owner's later stays as well while a source has this one.
        Decision::Owners => with_left_out(before.clone(), &found.instance),
        Decision::Keep | Decision::Changed | Decision::Removed => before.clone(),
    };
    // The record comes last: without it, the document is recorded at the next boot.
    if decision == Decision::Place {
        write(folder, DOCUMENT, &found.text)?;
    }
    if after != before {
        write(folder, RECORD, &record(&after))?;
    }
    Ok(decision)
}

/// The instance for which a document was placed last.
///
/// # Errors
/// The folder cannot be read.
pub fn last_instance(folder: &Path) -> Outcome<Option<Instance>> {
    Ok(known(folder)?.placed.map(|(instance, _)| instance))
}

/// Reads the record. One that is damaged counts as an empty one.
fn known(folder: &Path) -> Outcome<Known> {
    let record = read(&folder.join(RECORD))?;
    Ok(record.and_then(|record| parse_record(&record)).unwrap_or_default())
}

/// The knowledge after a document was placed.
fn with_placed(before: Known, found: &Found) -> Known {
    let placed = Some((found.instance.clone(), found.text.clone()));
    let mut after = Known { placed, latest: found.replaces.max(before.latest), former: Vec::new() };
    if found.replaces.is_some() {
        let machines = before.former.into_iter().chain(before.placed.map(|(instance, _)| instance));
        machines.for_each(|machine| add_former(&mut after, machine));
    }
    after
}

/// The knowledge after the document of a machine gave way to the owner's.
fn with_left_out(mut before: Known, instance: &Instance) -> Known {
    add_former(&mut before, instance.clone());
    before
}

/// Adds a machine to those whose documents gave way, unless its own is the one that was placed.
fn add_former(known: &mut Known, machine: Instance) {
    let is_placed = known.placed.as_ref().is_some_and(|(placed, _)| *placed == machine);
    if !is_placed && !known.former.contains(&machine) {
        known.former.push(machine);
    }
    let excess = known.former.len().saturating_sub(MAX_FORMER);
    known.former.drain(..excess);
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

/// The instance on a line, with the latest time of a document that replaced others and the former
/// machines, and the document. Before any document is placed, there is no instance, and the release
/// before this one takes the record for a damaged one.
fn record(known: &Known) -> String {
    let placed = known.placed.as_ref();
    let (instance, text) = placed.map_or(("", ""), |(instance, text)| (instance.as_str(), text));
    let time = known.latest.or((!known.former.is_empty()).then_some(NEVER));
    let mut line = instance.to_owned();
    line.extend(time.map(|time| format!(" {time}")));
    line.extend(known.former.iter().map(|former| format!(" {former}")));
    format!("{line}\n{text}")
}

fn parse_record(record: &str) -> Option<Known> {
    let (line, text) = record.split_once('\n')?;
    let mut words = line.split(' ');
    let placed = match words.next()? {
        "" => None,
        instance => Some((Instance::parse(instance).ok()?, text.to_owned())),
    };
    let latest = words.next().map(str::parse).transpose().ok()?.filter(|time| *time != NEVER);
    let former = words.map(Instance::parse).collect::<Outcome<_>>().ok()?;
    Some(Known { placed, latest, former })
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
        Found { instance, replaces: None, text: text.to_owned() }
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
    fn a_recovery_document_stays_when_a_cloud_has_the_one_that_the_owners_kept_out() {
        let (of_cloud, of_copy) = (found("i-1", "a = 1\n"), found("i-2", "a = 2\n"));
        let recovery = Found { replaces: Some(7), ..found("stick", "a = 7\n") };
        for (instance, record) in [(None, None), (None, Some("damaged")), (Some("i-0"), None)] {
            let folder = tempfile::tempdir().unwrap();
            let settle = |found: &Found| settle(folder.path(), found).unwrap();
            if let Some(instance) = instance {
                assert_eq!(settle(&found(instance, "a = 0\n")), Decision::Place);
            }
            if let Some(record) = record {
                fs::write(folder.path().join(RECORD), record).unwrap();
            }
            fs::write(folder.path().join(DOCUMENT), "own").unwrap();
            assert_eq!(settle(&of_cloud), Decision::Owners);
            let placed = last_instance(folder.path()).unwrap();
            assert_eq!(placed.as_ref().map(Instance::as_str), instance, "no other was placed");
            assert_eq!(settle(&recovery), Decision::Place);
            assert_eq!(settle(&of_cloud), Decision::Owners);
            assert_eq!(settle(&of_cloud), Decision::Owners);
            assert_eq!(settle(&recovery), Decision::Keep);
            if let Some(instance) = instance {
                assert_eq!(settle(&found(instance, "a = 0\n")), Decision::Owners);
            }
            assert_eq!(settle(&of_copy), Decision::Place, "the disk is a copy");
        }
    }

    #[test]
    fn a_document_is_placed_once_the_owner_has_removed_the_one_that_kept_it_out() {
        let folder = tempfile::tempdir().unwrap();
        let settle = |found: &Found| settle(folder.path(), found).unwrap();
        let of_cloud = found("i-1", "a = 1\n");
        fs::write(folder.path().join(DOCUMENT), "own").unwrap();
        assert_eq!(settle(&of_cloud), Decision::Owners);
        fs::remove_file(folder.path().join(DOCUMENT)).unwrap();
        assert_eq!(settle(&of_cloud), Decision::Place);
        assert_eq!(settle(&of_cloud), Decision::Keep);
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
