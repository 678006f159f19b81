//! Replaces a file so that the old one or the new one is there at any time.

use std::fs::File;
use std::io::{self, Write};

use crate::Folder;

/// The bytes of one write. A process that is killed meanwhile has written a part of them.
const CHUNK: usize = 64 << 10;

/// The replacement of a file, one step at a time: see [`Folder::replacing`].
pub struct Replacement<'a> {
    folder: &'a Folder,
    name: &'a str,
    /// The name of the new file until it takes the place of the old one.
    new: String,
    bytes: &'a [u8],
    mode: u32,
    next: Step,
}

/// The next step.
enum Step {
    Create,
    /// Writes the bytes from here on, or asks for the disk if there are none.
    Write(File, usize),
    Rename,
    /// Asks for the disk again: without this, the file system may write the new name seconds later.
    SyncFolder,
    Nothing,
}

impl<'a> Replacement<'a> {
    pub(crate) fn new(folder: &'a Folder, name: &'a str, bytes: &'a [u8], mode: u32) -> Self {
        let new = format!(".{name}.new");
        Replacement { folder, name, new, bytes, mode, next: Step::Create }
    }

    /// Takes a step, and returns the next one.
    fn follow(&self, step: Step) -> io::Result<Step> {
        Ok(match step {
            Step::Create => Step::Write(self.folder.create(&self.new, self.mode)?, 0),
            Step::Write(mut file, from) => match self.bytes.get(from..).unwrap_or_default() {
                [] => {
                    file.sync_all()?;
                    Step::Rename
                }
                rest => {
                    let chunk = &rest[..rest.len().min(CHUNK)];
                    file.write_all(chunk)?;
                    Step::Write(file, from + chunk.len())
                }
            },
            Step::Rename => {
                self.folder.rename(&self.new, self.name)?;
                Step::SyncFolder
            }
            Step::SyncFolder => {
                rustix::fs::fsync(&*self.folder.descriptor)?;
                Step::Nothing
            }
            Step::Nothing => Step::Nothing,
        })
    }
}

/// Takes a step and returns its outcome. There is none after the last one, or one that has failed.
impl Iterator for Replacement<'_> {
    type Item = io::Result<()>;

    fn next(&mut self) -> Option<io::Result<()>> {
        match std::mem::replace(&mut self.next, Step::Nothing) {
            Step::Nothing => None,
            step => Some(self.follow(step).map(|next| self.next = next)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_at_any_step_leaves_one_whole_file() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::open(&place.path().canonicalize().unwrap(), "aside").unwrap();
        let [old, new] = [vec![b'a'; 3 * CHUNK], vec![b'b'; 2 * CHUNK + 1]];
        let read = || folder.read("file", 1 << 20).unwrap().unwrap();
        // It creates and writes a file in three parts, syncs and renames it, and syncs the folder.
        for (taken, expected) in [&old, &old, &old, &old, &old, &old, &new, &new].iter().enumerate()
        {
            folder.replace("file", &old, 0o600).unwrap();
            let steps = folder.replacing("file", &new, 0o600).take(taken);
            assert_eq!(steps.map(Result::unwrap).count(), taken);
            assert!(read() == **expected, "after {taken} steps");
            // The next process is not in the way of what this one has left.
            folder.replace("file", &new, 0o600).unwrap();
            assert!(read() == new);
        }
        assert_eq!(folder.replacing("file", &new, 0o600).count(), 7);
    }

    #[test]
    fn nothing_follows_a_step_that_has_failed() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().canonicalize().unwrap().join("gone");
        std::fs::create_dir(&path).unwrap();
        let folder = Folder::open(&path, "aside").unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        let mut steps = folder.replacing("file", b"a", 0o600);
        assert!(steps.next().unwrap().is_err() && steps.next().is_none());
    }
}
