//! People with certificates of the cluster's CA, who ask the kubelet for something with curl.

use crate::site::Site;
use osbuild::error::{Context, Result};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How often the kubelet is asked.
const TICK: Duration = Duration::from_secs(1);

/// Somebody who has a certificate.
#[derive(Clone, Copy)]
pub enum Person {
    /// Whom the API server lets do everything.
    Administrator,
    /// Whom it lets do nothing.
    Stranger,
}

impl Person {
    /// The name of their files.
    fn file(self) -> &'static str {
        match self {
            Self::Administrator => "administrator",
            Self::Stranger => "stranger",
        }
    }
}

/// A CA and a certificate of it for everybody.
pub struct People<'a> {
    site: &'a Site<'a>,
    folder: TempDir,
}

impl<'a> People<'a> {
    /// Makes the CA and the certificates.
    pub fn new(site: &'a Site<'a>) -> Result<Self> {
        let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        let openssl = |words: String| {
            let mut command = Command::new("openssl");
            site.finish("openssl", command.args(words.split(' ')).current_dir(folder.path()))
        };
        openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=test-ca".to_owned())?;
        for (person, subject) in [
            (Person::Administrator, "/O=system:masters/CN=test"),
            (Person::Stranger, "/CN=stranger"),
        ] {
            let name = person.file();
            openssl(format!(
                "req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj {subject}"
            ))?;
            openssl(format!(
                "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out {name}.crt -days 2"
            ))?;
        }
        Ok(People { site, folder })
    }

    /// The CA's certificate as PEM.
    pub fn authority(&self) -> Result<String> {
        fs::read_to_string(self.folder.path().join("ca.crt"))
            .or_build(|| "cannot read the CA's certificate".to_owned())
    }

    /// Has somebody ask the kubelet behind `port` for `path` until the answer has this status of
    /// HTTP and these words, at most for `timeout`.
    pub fn ask(
        &self,
        person: Person,
        port: u16,
        path: &str,
        status: u16,
        words: &str,
        timeout: Duration,
    ) -> Result<()> {
        let end = Instant::now() + timeout;
        loop {
            let mut curl = Command::new("curl");
            curl.args([
                "--silent",
                "--show-error",
                "--insecure",
                "--write-out",
                "\nstatus %{http_code}",
            ]);
            curl.args([
                "--cert",
                &format!("{}.crt", person.file()),
                "--key",
                &format!("{}.key", person.file()),
            ]);
            curl.arg(format!("https://127.0.0.1:{port}/{path}")).current_dir(self.folder.path());
            let answer = self.site.run("kubelet-answers", &mut curl)?;
            if answer.said.contains(&format!("\nstatus {status}")) && answer.said.contains(words) {
                return Ok(());
            }
            if Instant::now() > end {
                let who = person.file();
                return Err(answer.failure(&format!(
                    "the kubelet does not answer `/{path}` with {status} and `{words}` to the {who}"
                )));
            }
            std::thread::sleep(TICK);
        }
    }
}
