//! `osctl apply`: creates and updates resources, and begins a try.

use super::{note, print_lines};
use crate::cli::Seconds;
use crate::connection::Connection;
use crate::error::{Error, Result, printable};
use osbuild_cosi::v1::applied_resource::Outcome;
use osbuild_cosi::v1::{AppliedResource, ApplyRequest, BeginTryRequest, RevertTryRequest};
use std::io::Read;
use std::path::Path;

/// The longest text that a node accepts, in bytes.
const MAX_LENGTH: u64 = 1 << 20;

/// Applies the documents of a file. The file is read before the node is connected to.
pub async fn run(
    connect: impl AsyncFnOnce() -> Result<Connection>,
    file: &Path,
    dry_run: bool,
    tried: Option<Seconds>,
) -> Result<()> {
    let documents = read(file)?;
    let connection = connect().await?;
    if dry_run {
        let changes = apply(&connection, documents, true).await?;
        return print_lines(&changes.iter().flat_map(difference).collect::<Vec<_>>());
    }
    let Some(Seconds(timeout_seconds)) = tried else {
        return print_changes(&apply(&connection, documents, false).await?);
    };
    // A try that changes nothing would have to be ended: a document with a mistake begins none.
    apply(&connection, documents.clone(), true).await?;
    connection.configuration().begin_try(BeginTryRequest { timeout_seconds }).await?;
    match apply(&connection, documents, false).await {
        Ok(changes) => {
            note(&format!("taken back in {timeout_seconds} s unless confirmed: osctl confirm"));
            print_changes(&changes)
        }
        Err(error) => {
            // The error says what is wrong. If the node is gone, it ends the try itself.
            let _ = connection.configuration().revert_try(RevertTryRequest {}).await;
            Err(error)
        }
    }
}

async fn apply(
    connection: &Connection,
    documents: String,
    dry_run: bool,
) -> Result<Vec<AppliedResource>> {
    let request = ApplyRequest { documents, dry_run };
    Ok(connection.configuration().apply(request).await?.into_inner().resources)
}

fn read(path: &Path) -> Result<String> {
    let cannot = || Error::usage(format!("cannot read `{}`", path.display()));
    let mut text = String::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().take(MAX_LENGTH + 1).read_to_string(&mut text),
        _ => std::fs::File::open(path)
            .and_then(|file| file.take(MAX_LENGTH + 1).read_to_string(&mut text)),
    };
    read.map_err(|error| cannot().caused_by(&error))?;
    match text.len() as u64 > MAX_LENGTH {
        true => Err(cannot().cause(format!("it has more than {MAX_LENGTH} bytes"))),
        false => Ok(text),
    }
}

fn print_changes(changes: &[AppliedResource]) -> Result<()> {
    print_lines(&changes.iter().map(change).collect::<Vec<_>>())
}

fn change(applied: &AppliedResource) -> String {
    let outcome = match applied.outcome() {
        Outcome::Unchanged => "unchanged",
        Outcome::Created => "created",
        Outcome::Updated => "updated",
    };
    format!("{outcome} {}/{}", printable(&applied.r#type), printable(&applied.id))
}

/// The change, and the lines of the spec that go and come.
fn difference(applied: &AppliedResource) -> Vec<String> {
    let [before, after] =
        [&applied.before, &applied.after].map(|yaml| yaml.lines().collect::<Vec<_>>());
    let only = |sign, lines: &[&str], others: &[&str]| {
        let lines = lines.iter().filter(|line| !others.contains(line));
        lines.map(|line| format!("  {sign} {}", printable(line))).collect::<Vec<_>>()
    };
    [vec![change(applied)], only('-', &before, &after), only('+', &after, &before)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_shows_the_lines_that_change() {
        let applied = AppliedResource {
            r#type: "Resolvers.osbuild".into(),
            id: "dns".into(),
            outcome: Outcome::Updated.into(),
            before: "nameserver:\n- 192.0.2.1\n".into(),
            after: "nameserver:\n- 192.0.2.2\n".into(),
            ..AppliedResource::default()
        };
        assert_eq!(
            difference(&applied),
            ["updated Resolvers.osbuild/dns", "  - - 192.0.2.1", "  + - 192.0.2.2"]
        );
    }
}
