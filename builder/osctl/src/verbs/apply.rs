//! `osctl apply`: creates and updates resources.

use super::nodes::{self, AfterFailure};
use super::{note, tries};
use crate::cli::How;
use crate::error::{Error, Result};
use crate::selection::Selection;
use osbuild_cosi::v1::ApplyRequest;
use std::io::Read;
use std::path::Path;

/// The longest text that a node accepts, in bytes.
const MAX_LENGTH: u64 = 1 << 20;

/// Applies the documents of a file to each node in turn, all of them or none. The file is read
/// before a node is connected to. A node that fails keeps the documents from the nodes after it.
pub async fn run(selection: &Selection, file: &Path, how: How) -> Result<()> {
    let documents = read(file)?;
    if is_empty_stdin(file, &documents) {
        note("stdin has no document: nothing is changed");
        return Ok(());
    }
    nodes::change(selection, AfterFailure::Stop, async |connection| {
        let apply = async |dry_run| {
            let request = ApplyRequest { documents: documents.clone(), dry_run };
            Ok(connection.configuration().apply(request).await?.into_inner().resources)
        };
        tries::change(connection, how, apply).await
    })
    .await
}

/// Whether the path means stdin.
pub fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether the text is of stdin and has no documents. `osctl get TYPE -o yaml` prints such a text
/// if there is no resource.
pub fn is_empty_stdin(path: &Path, text: &str) -> bool {
    is_stdin(path) && is_empty(text)
}

/// Whether the text has no documents, but comments and `---` at most.
fn is_empty(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}

/// The documents of a file.
pub fn read(path: &Path) -> Result<String> {
    let cannot = || Error::usage(format!("cannot read `{}`", path.display()));
    let mut text = Vec::new();
    let read = match is_stdin(path) {
        true => std::io::stdin().take(MAX_LENGTH + 1).read_to_end(&mut text),
        false => std::fs::File::open(path)
            .and_then(|file| file.take(MAX_LENGTH + 1).read_to_end(&mut text)),
    };
    read.map_err(|error| cannot().caused_by(&error))?;
    // The end of a longer one may be within a character.
    match text.len() as u64 > MAX_LENGTH {
        true => Err(cannot().cause(format!("it has more than {MAX_LENGTH} bytes"))),
        false => String::from_utf8(text).map_err(|error| cannot().caused_by(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_long_says_so_also_within_a_character() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, &"a\u{e9}".repeat(400_000).into_bytes()).unwrap();
        let error = read(file.path()).unwrap_err().to_string();
        assert!(error.contains("more than 1048576 bytes"), "{error}");
        std::fs::write(file.path(), [0xff]).unwrap();
        assert!(read(file.path()).unwrap_err().to_string().contains("utf-8"));
    }

    #[test]
    fn a_text_without_documents_is_empty() {
        for text in ["", "\n", "---\n", "# nothing\n---\n\n"] {
            assert!(is_empty(text), "{text}");
        }
        for text in ["a", "---\na: 1\n", "{}"] {
            assert!(!is_empty(text), "{text}");
        }
    }
}
