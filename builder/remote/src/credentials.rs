//! A program of the user that makes headers for a server, as Bazel runs it: `PROGRAM get` reads
//! `{"uri": …}` and writes `{"headers": {NAME: [VALUE, …]}, "expires": TIME}`
//! (`https://github.com/EngFlow/credential-helper-spec`).

use crate::Fault;
use crate::fault::line;
use crate::headers::parse;
use http::header::HeaderMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// The timeout of the program, as Bazel's.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long headers without a time are used, as in Bazel.
const LIFETIME: Duration = Duration::from_secs(30 * 60);
/// How long before their time headers are replaced: a call takes time, and clocks differ.
const MARGIN: Duration = Duration::from_secs(60);
/// The upper limit of what the program writes, in bytes.
const MAX_OUTPUT: u64 = 64 << 10;

/// The program, and the server that it makes headers for.
pub(crate) struct CredentialProgram {
    pub(crate) program: PathBuf,
    pub(crate) uri: String,
}

/// Headers, and until when they are used.
#[derive(Debug)]
pub(crate) struct Credentials {
    pub(crate) headers: HeaderMap,
    pub(crate) until: SystemTime,
}

#[derive(Serialize)]
struct Request<'a> {
    uri: &'a str,
}

/// The response. Later versions may have other fields.
#[derive(Deserialize)]
struct Response {
    #[serde(default)]
    headers: BTreeMap<String, Vec<String>>,
    expires: Option<jiff::Timestamp>,
}

impl CredentialProgram {
    /// Runs the program. Dropping the future ends it.
    pub(crate) async fn get(&self) -> Result<Credentials, Fault> {
        let now = SystemTime::now();
        match tokio::time::timeout(TIMEOUT, self.run()).await {
            Ok(output) => credentials(&output?, now).map_err(|why| self.fault(&why)),
            Err(_) => Err(self.fault(&format!("no response for {} s", TIMEOUT.as_secs()))),
        }
    }

    async fn run(&self) -> Result<Vec<u8>, Fault> {
        let failed = |error: std::io::Error| self.fault(&error.to_string());
        let mut child = Command::new(&self.program)
            .arg("get")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let request = serde_json::to_vec(&Request { uri: &self.uri }).unwrap_or_default();
        let (output, errors) = exchange(&mut child, &request).await.map_err(failed)?;
        let status = child.wait().await.map_err(failed)?;
        match status.success() {
            true => Ok(output),
            false => {
                let text = String::from_utf8_lossy(&errors);
                Err(self.fault(&format!("{status}: {}", text.trim())))
            }
        }
    }

    fn fault(&self, why: &str) -> Fault {
        let program = Path::new(&self.program).display();
        Fault::Refused(line(&format!("credential helper `{program}`: {why}")))
    }
}

/// Writes the request, and reads what the program writes to its output and as errors.
async fn exchange(child: &mut Child, request: &[u8]) -> std::io::Result<(Vec<u8>, Vec<u8>)> {
    let input = child.stdin.take();
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut input) = input {
            // A program that does not read its input may know the headers all the same.
            let _ = input.write_all(request).await;
        }
    };
    let ((), output, errors) = tokio::join!(write, bounded(output), bounded(errors));
    Ok((output?, errors?))
}

async fn bounded(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(MAX_OUTPUT + 1).read_to_end(&mut bytes).await?;
    }
    match bytes.len() as u64 > MAX_OUTPUT {
        true => Err(std::io::Error::other("its output is longer than 64 KiB")),
        false => Ok(bytes),
    }
}

/// Reads a response. No error contains a value of it.
fn credentials(output: &[u8], now: SystemTime) -> Result<Credentials, String> {
    let response: Response = serde_json::from_slice(output)
        .map_err(|error| format!("its output is no response, at column {}", error.column()))?;
    let pairs = response
        .headers
        .iter()
        .flat_map(|(name, values)| values.iter().map(move |value| (name.as_str(), value.as_str())));
    let headers = parse(pairs)?;
    let until = match response.expires {
        Some(expires) => SystemTime::from(expires) - MARGIN,
        None => now + LIFETIME,
    };
    Ok(Credentials { headers, until })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    #[test]
    fn a_response_has_headers_and_a_time_to_replace_them_before() {
        let text = r#"{"headers": {"Authorization": ["Bearer a"], "x-b": ["1", "2"]},
            "expires": "1970-01-01T01:00:00Z", "later": true}"#;
        let found = credentials(text.as_bytes(), NOW).unwrap();
        assert_eq!(found.headers["authorization"], "Bearer a");
        assert!(found.headers["authorization"].is_sensitive());
        assert_eq!(found.headers.get_all("x-b").iter().count(), 2);
        assert_eq!(found.until, NOW + Duration::from_secs(59 * 60));
        assert_eq!(credentials(b"{}", NOW).unwrap().until, NOW + LIFETIME);
    }

    #[test]
    fn an_error_never_has_what_the_program_wrote() {
        for text in [
            "s3cret",
            r#"{"headers": "s3cret"}"#,
            r#"{"expires": "s3cret"}"#,
            r#"{"headers": {"a": ["s3cret\n"]}}"#,
        ] {
            let error = credentials(text.as_bytes(), NOW).unwrap_err();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
