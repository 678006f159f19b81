//! `osctl read`: files of the node, of a list that the node has.

use super::logs::shown;
use super::note;
use super::output::Output;
use crate::connection::Connection;
use crate::error::{Error, Result, printable};
use osbuild_cosi::v1::{ListFilesRequest, ReadFileRequest, ReadableFile};
use tonic::{Code, Status};

/// The files that can be read.
pub async fn list(connection: &Connection) -> Result<Output> {
    let titles = ["PATH", "MEANING"].map(str::to_owned).to_vec();
    let files = files(connection).await?;
    let rows = files.iter().map(|file| vec![printable(&file.path), printable(&file.meaning)]);
    Ok(Output::Table(std::iter::once(titles).chain(rows).collect()))
}

/// The files that can be read, by their paths.
pub async fn files(connection: &Connection) -> Result<Vec<ReadableFile>> {
    Ok(connection.inspect().list_files(ListFilesRequest {}).await?.into_inner().files)
}

/// The text of a file.
///
/// # Errors
/// The node does not show it.
pub async fn show(connection: &Connection, path: &str) -> Result<Output> {
    let bytes = read(connection, path).await.map_err(|status| match status.code() {
        Code::NotFound => Error::usage(format!("the node does not show `{}`", printable(path)))
            .hint("`osctl read` lists what it shows"),
        _ => Error::from(status),
    })?;
    Ok(Output::Text(text(&bytes)))
}

/// The bytes of a file, as many as the node gives of a long one.
pub async fn read(connection: &Connection, path: &str) -> std::result::Result<Vec<u8>, Status> {
    let request = ReadFileRequest { path: path.to_owned() };
    let mut parts = connection.inspect().read_file(request).await?.into_inner();
    let mut bytes = Vec::new();
    loop {
        match parts.message().await {
            Ok(Some(part)) => bytes.extend(part.data),
            Ok(None) => return Ok(bytes),
            Err(status) if status.code() == Code::OutOfRange => {
                note(&format!("the end of `{path}` is missing: {}", status.message()));
                return Ok(bytes);
            }
            Err(status) => return Err(status),
        }
    }
}

/// The lines of a text file, each with its end.
fn text(bytes: &[u8]) -> String {
    let mut text = shown(&String::from_utf8_lossy(bytes));
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_text_that_controls_no_terminal() {
        assert_eq!(text(b"a\tb\n\x1b[2J\xff"), "a\tb\n\\u{1b}[2J\u{fffd}\n");
        assert_eq!(text(b""), "");
    }
}
