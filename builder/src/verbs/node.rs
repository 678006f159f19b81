//! `osbuild node`: needs no project.

use super::read_argument;
use crate::cli::{Common, Node};
use crate::error::{Error, Kind, Problem, Result};
use crate::plan::node_document_problems;
use crate::report::Report;
use osbuild_document::{Document, SCHEMA};
use serde_json::json;
use std::path::Path;

/// `osbuild node`
pub fn run(common: &Common, report: &Report, what: Node) -> Result<()> {
    match what {
        Node::Check { file } => {
            check(&file, report)?;
            report.note(format!("no problems in `{}`", file.display()));
            if common.json {
                report.data(json!({ "problems": 0 }).to_string());
            }
        }
        Node::Schema => report.data(SCHEMA.trim_end()),
    }
    Ok(())
}

/// Checks the node document in `file`, and warns of what its owner may not mean.
///
/// # Errors
/// It cannot be read, or has mistakes: the error has all of them.
pub fn check(file: &Path, report: &Report) -> Result<()> {
    let shown = file.display().to_string();
    let text = String::from_utf8(read_argument(file)?)
        .map_err(|_| Error::usage(format!("`{shown}` is not UTF-8, and so not TOML")))?;
    let problems: Vec<Problem> = node_document_problems(&shown, &text);
    if !problems.is_empty() {
        return Err(Error::many(Kind::Usage, problems));
    }
    let document = Document::parse(&text).map_err(|refusal| Error::usage(refusal.to_string()))?;
    document.warnings().iter().for_each(|warning| report.warning(warning));
    Ok(())
}
