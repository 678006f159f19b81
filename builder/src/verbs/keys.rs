//! `osbuild keys`: makes, shows and enrolls keys.

use super::Session;
use crate::cli;
use crate::error::Result;
use crate::produce::disk::OnDisk;
use crate::ship::keys::{Enrollment, Keys, Shown, Terms, enrolled, make, show};
use serde_json::json;
use std::path::{Path, PathBuf};

/// `osbuild keys`
pub fn run(session: &Session, what: cli::Keys) -> Result<()> {
    let named = |name: &str| Keys::named(session.root(), name);
    match what {
        cli::Keys::New { name, as_of, years } => {
            let keys = named(&name)?;
            make(&keys, Terms { since: as_of.unwrap_or(session.today), years })?;
            data(session, &show(&keys, session.today)?);
            Ok(())
        }
        cli::Keys::Show { name } => {
            let all = match name {
                Some(name) => vec![named(&name)?],
                None => Keys::all(session.root())?,
            };
            let shown = all.iter().map(|keys| show(keys, session.today)).collect::<Result<Vec<_>>>()?.concat();
            data(session, &shown);
            Ok(())
        }
        cli::Keys::Enroll { name, to, vars } => enroll(session, &named(&name)?, to, vars.as_deref()),
    }
}

fn enroll(session: &Session, keys: &Keys, to: Option<PathBuf>, vars: Option<&Path>) -> Result<()> {
    let folder = to.unwrap_or_else(|| keys.folder().join("enroll"));
    let mut enrollment = Enrollment::of(keys)?;
    if let Some(path) = vars {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        enrollment.files.push((name, enrolled(std::fs::read(path).at("read", path)?, &keys.certificates()?)?));
    }
    let written = enrollment.write(&folder)?;
    session.report.note("on a machine in setup mode, enroll db.auth first, then KEK.auth, and PK.auth last: it ends that mode");
    let text = || written.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("\n");
    session.data(|| json!({ "files": written }), text);
    Ok(())
}

fn data(session: &Session, shown: &[Shown]) {
    let text = || shown.iter().map(Shown::to_string).collect::<Vec<_>>().join("\n");
    session.data(|| json!({ "keys": shown }), text);
}
