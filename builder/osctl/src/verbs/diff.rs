//! `osctl diff`: how the documents of a file differ from the resources of the nodes.

use super::apply::{is_empty_stdin, is_stdin, read};
use super::nodes::{ask, print_all};
use super::note;
use super::output::Output;
use crate::changes;
use crate::error::{Error, Result};
use crate::selection::Selection;
use osbuild_cosi::v1::ApplyRequest;
use std::path::Path;
use std::process::ExitCode;

/// The exit code if something differs, as that of diff(1). No error has it.
const DIFFERS: u8 = 1;

/// Prints the differences of each node that has some.
pub async fn run(selection: &Selection, file: &Path) -> Result<ExitCode> {
    compare(selection, file).await.map_err(Error::never_one)
}

async fn compare(selection: &Selection, file: &Path) -> Result<ExitCode> {
    let documents = read(file)?;
    if is_empty_stdin(file, &documents) {
        note("stdin has no document: nothing differs");
        return Ok(ExitCode::SUCCESS);
    }
    let new = if is_stdin(file) { "stdin".into() } else { file.to_string_lossy() };
    let compare = ask(selection, async |connection| {
        let request = ApplyRequest { documents: documents.clone(), dry_run: true };
        let changes = connection.configuration().apply(request).await?.into_inner().resources;
        Ok(changes.iter().filter_map(|one| changes::unified(one, &new)).collect::<String>())
    });
    let (answers, failures) = compare.await?;
    let differing = answers.into_iter().filter(|(_, text)| !text.is_empty());
    let texts: Vec<_> = differing.map(|(name, text)| (name, Output::Text(text))).collect();
    let code = if texts.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(DIFFERS) };
    print_all(texts)?;
    Error::all(failures).map(|()| code)
}
