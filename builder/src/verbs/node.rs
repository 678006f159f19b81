//! `osbuild node`: needs no project, except to sign.

use super::{Session, read_argument};
use crate::cli::{Common, Node};
use crate::engine::fs_error::IoContext;
use crate::error::{Context, Error, Kind, Problem, Result};
use crate::plan::node_document_problems;
use crate::report::Report;
use crate::ship::release::dsse;
use osbuild_document::{Document, SCHEMA};
use osbuild_envelope::{Audience, DocumentType, MachineId};
use serde_json::json;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The name of the bytes that are signed.
const NAME: &str = "node-document";

/// `osbuild node`
pub fn run(common: &Common, report: &Report, what: Node) -> Result<()> {
    match what {
        Node::Check { file } => {
            checked(&file, report)?;
            report.note(format!("no problems in `{}`", file.display()));
            if common.json {
                report.data(json!({ "problems": 0 }).to_string());
            }
        }
        Node::Sign { file, key, machine, replace, to } => {
            let session = Session::begin(common.clone(), report)?;
            let to = to.unwrap_or_else(|| file.with_extension("signed"));
            let audience = machine.map(|machine| audience(&machine, replace)).transpose()?;
            sign(&session, &file, &key, DocumentType { audience }, &to)?;
            let text = || to.display().to_string();
            session.data(|| json!({ "file": to }), text);
        }
        Node::Schema => report.data(SCHEMA.trim_end()),
    }
    Ok(())
}

/// Reads the node document in `file` once, checks it, warns of what its owner may not mean, and
/// returns its text.
///
/// # Errors
/// It cannot be read, or has mistakes: the error has all of them.
pub fn checked(file: &Path, report: &Report) -> Result<String> {
    let shown = file.display().to_string();
    let text = String::from_utf8(read_argument(file)?)
        .map_err(|_| Error::usage(format!("`{shown}` is not UTF-8, and so not TOML")))?;
    let problems: Vec<Problem> = node_document_problems(&shown, &text);
    if !problems.is_empty() {
        return Err(Error::many(Kind::Usage, problems));
    }
    let document = Document::parse(&text).map_err(|refusal| Error::usage(refusal.to_string()))?;
    document.warnings().iter().for_each(|warning| report.warning(warning));
    Ok(text)
}

/// The machine with this UUID, whose document is replaced as of now if `replace`.
fn audience(machine: &str, replace: bool) -> Result<Audience> {
    let machine = MachineId::parse(machine).ok_or_else(|| {
        Error::usage(format!("`{machine}` is not the UUID of a machine"))
            .hint("a running Linux shows it in /sys/class/dmi/id/product_uuid")
    })?;
    let now = UNIX_EPOCH.elapsed().or_build(|| "the clock is before 1970".to_owned())?;
    Ok(Audience { machine, replaces: replace.then_some(now.as_secs()) })
}

/// Writes the envelope of the document in `file`, signed with the release key of `key`.
fn sign(session: &Session, file: &Path, key: &str, kind: DocumentType, to: &PathBuf) -> Result<()> {
    if kind.audience.is_none() {
        session.report.note(
            "it counts on every new node that trusts the key, now and later: `--machine` limits it",
        );
    }
    let text = checked(file, session.report)?;
    let signer = session.keys(key)?.release_key()?;
    let envelope = dsse::seal(NAME, &kind.to_string(), text.as_bytes(), &*signer)?;
    // The document may have secrets, and the file may be there already.
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(to);
    let write = |mut file: File| {
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(envelope.as_ref())
    };
    file.and_then(write).at("write", to)
}
