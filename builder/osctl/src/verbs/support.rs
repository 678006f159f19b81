//! `osctl support`: what a node shows, in one archive for people who help.

use super::output::Output;
use super::{history, logs, node_state, note, print, processes, read, top};
use crate::bundle::Bundle;
use crate::cli::{ListForm, Sorted, Top};
use crate::connection::Connection;
use crate::definitions::{self, Definition};
use crate::error::{Error, Result};
use crate::redaction::redacted;
use crate::resource;
use jiff::Timestamp;
use osbuild_cosi::v1::GetStatusRequest;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// How long the node may take for a file.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The last lines of each log.
const TAIL: u32 = 2000;

/// The arguments of `osctl top` for the archive: all pods and processes, in a table.
const USE: Top = Top { output: ListForm::Table, watch: false, sort: Sorted::Cpu, rows: usize::MAX };

/// An archive to which the parts of a node are added.
struct Support<'a> {
    connection: &'a Connection,
    bundle: Bundle,
    /// The files of the current part, and how many of them are errors.
    files: usize,
    failures: usize,
}

/// Collects what the node shows, and prints the path of the archive.
///
/// # Errors
/// The file exists, or cannot be written. What the node does not show is no error: the archive says
/// so.
pub async fn run(connection: &Connection, file: Option<PathBuf>) -> Result<()> {
    let now = Timestamp::now();
    let status = within(async { Ok(connection.node().get_status(GetStatusRequest {}).await?) });
    let status = status.await.map(|status| status.into_inner());
    let node = status.map_or_else(|_| "node".to_owned(), |status| status.node_name);
    let name = format!("support-{node}-{}", now.strftime("%Y%m%dT%H%M%SZ"));
    let path = file.unwrap_or_else(|| Path::new(&default_name(&name)).to_owned());
    let time = u64::try_from(now.as_second()).unwrap_or(0);
    let bundle = Bundle::create(&path, &name, time)?;
    let mut support = Support { connection, bundle, files: 0, failures: 0 };
    support.add_state().await?;
    support.add_resources().await?;
    support.add_logs().await?;
    support.add_files().await?;
    support.bundle.finish()?;
    note("what looks like a secret is removed: read the files before you give them away");
    print(&format!("{}\n", path.display()))
}

/// The file for a node, whose name may have anything in it.
fn default_name(name: &str) -> String {
    let usual = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = name.chars().map(|c| if usual(c) { c } else { '_' }).collect();
    format!("{name}.tar.gz")
}

impl Support<'_> {
    /// The node as a whole.
    async fn add_state(&mut self) -> Result<()> {
        let connection = self.connection;
        self.add("status.txt", output(node_state::show(connection, ListForm::Table))).await?;
        self.end_part("status");
        self.add("history.txt", output(history::show(connection, ListForm::Table))).await?;
        self.end_part("history");
        // Command lines may have secrets.
        self.add("processes.txt", output(processes::names(connection))).await?;
        self.end_part("processes");
        self.add("use.txt", output(top::show(connection, &USE))).await?;
        self.end_part("use of resources");
        self.add("kernel.log", logs::kernel(connection)).await?;
        self.end_part("log of the kernel");
        Ok(())
    }

    /// The resources of each type that is not sensitive.
    async fn add_resources(&mut self) -> Result<()> {
        let connection = self.connection;
        let Some(types) = self.listed("resources", definitions::all(connection)).await? else {
            return Ok(());
        };
        for Definition { namespace, type_name, .. } in types.iter().filter(|one| !one.is_sensitive)
        {
            let text = async {
                let resources = resource::list(connection, namespace, type_name).await?;
                let documents = resources.iter().map(resource::yaml);
                Ok(documents.collect::<Result<Vec<_>>>()?.join("---\n"))
            };
            self.add(&format!("resources/{type_name}.yaml"), text).await?;
        }
        self.end_part("resources");
        Ok(())
    }

    /// The end of each log, and of the one before it.
    async fn add_logs(&mut self) -> Result<()> {
        let connection = self.connection;
        let Some(names) = self.listed("logs", logs::names(connection)).await? else {
            return Ok(());
        };
        for name in names {
            let end = logs::end(connection, &name, TAIL, false);
            self.add(&format!("logs/{name}.log"), end).await?;
            // Most logs have none before.
            let before = timeout(TIMEOUT, logs::end(connection, &name, TAIL, true)).await;
            if let Some(text) = before.ok().and_then(Result::ok).filter(|text| !text.is_empty()) {
                let name = format!("logs/{name}.previous.log");
                self.add(&name, async { Ok(text) }).await?;
            }
        }
        self.end_part("logs");
        Ok(())
    }

    /// The files that the node shows.
    async fn add_files(&mut self) -> Result<()> {
        let connection = self.connection;
        let Some(files) = self.listed("files", read::files(connection)).await? else {
            return Ok(());
        };
        for file in files {
            let name = format!("files/{}", file.path.trim_start_matches('/'));
            self.add(&name, output(read::show(connection, &file.path))).await?;
        }
        self.end_part("files");
        Ok(())
    }

    /// Reads the list of a part's items. `None` if that fails: the archive then has the error in
    /// place of the part.
    async fn listed<T>(
        &mut self,
        part: &str,
        list: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        let error = match within(list).await {
            Ok(list) => return Ok(Some(list)),
            Err(error) => error,
        };
        self.add(part, async { Err::<String, _>(error) }).await?;
        self.end_part(part);
        Ok(None)
    }

    /// Adds a file, or in its place one with the reason why there is none.
    async fn add(&mut self, name: &str, text: impl Future<Output = Result<String>>) -> Result<()> {
        self.files += 1;
        match within(text).await {
            Ok(text) => self.bundle.add(name, &redacted(&text)),
            Err(error) => {
                self.failures += 1;
                self.bundle.add(&format!("{name}.error"), &redacted(&format!("{error}\n")))
            }
        }
    }

    /// Says what there is of a part.
    fn end_part(&mut self, part: &str) {
        let (files, failures) =
            (std::mem::take(&mut self.files), std::mem::take(&mut self.failures));
        note(&match (files, failures) {
            (1, 0) => part.to_owned(),
            (1, _) => format!("{part}: failed"),
            (files, 0) => format!("{part}: {files} files"),
            (files, failures) => format!("{part}: {files} files, {failures} of them failed"),
        });
    }
}

async fn within<T>(asked: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || Error::failed(format!("the node has not answered for {} s", TIMEOUT.as_secs()));
    timeout(TIMEOUT, asked).await.unwrap_or_else(|_| Err(late()))
}

async fn output(shown: impl Future<Output = Result<Output>>) -> Result<String> {
    Ok(shown.await?.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_node_names_a_file_here() {
        assert_eq!(default_name("support-edge-7.a"), "support-edge-7.a.tar.gz");
        assert_eq!(default_name("support-../x\u{1b}"), "support-.._x_.tar.gz");
    }
}
