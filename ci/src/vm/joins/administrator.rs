//! Users with certificates of the cluster's CA. They send requests to the kubelet with curl.

use crate::site::Site;
use osbuild::error::{Context, Result};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time between two requests.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A user with a certificate.
#[derive(Clone, Copy)]
pub enum User {
    /// The API server allows all of this user's requests.
    Administrator,
    /// The API server allows none of them.
    Stranger,
}

impl User {
    /// The name of the user's files.
    fn file(self) -> &'static str {
        match self {
            Self::Administrator => "administrator",
            Self::Stranger => "stranger",
        }
    }
}

/// A CA, and a certificate for each user.
pub struct Users<'a> {
    site: &'a Site<'a>,
    folder: TempDir,
}

impl<'a> Users<'a> {
    /// Makes the CA and the certificates.
    pub fn new(site: &'a Site<'a>) -> Result<Self> {
        let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        let openssl = |words: String| {
            let mut command = Command::new("openssl");
            site.finish("openssl", command.args(words.split(' ')).current_dir(folder.path()))
        };
        let new_key = "req -newkey rsa:2048 -nodes -keyout";
        openssl(format!("{new_key} ca.key -x509 -out ca.crt -days 2 -subj /CN=test-ca"))?;
        for (user, subject) in
            [(User::Administrator, "/O=system:masters/CN=test"), (User::Stranger, "/CN=stranger")]
        {
            let name = user.file();
            openssl(format!("{new_key} {name}.key -out {name}.csr -subj {subject}"))?;
            openssl(format!(
                "x509 -req -in {name}.csr -out {name}.crt -days 2 -CA ca.crt -CAkey ca.key \
                 -CAcreateserial"
            ))?;
        }
        Ok(Users { site, folder })
    }

    /// The CA's certificate as PEM.
    pub fn authority(&self) -> Result<String> {
        fs::read_to_string(self.folder.path().join("ca.crt"))
            .or_build(|| "cannot read the CA's certificate".to_owned())
    }

    /// Requests `path` from the kubelet behind `port` until the response has this HTTP status and
    /// these words, at most for `timeout`.
    ///
    /// # Errors
    /// It does not respond so in time, or it grants a request that it has to refuse.
    pub fn ask(
        &self,
        user: User,
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
                &format!("{}.crt", user.file()),
                "--key",
                &format!("{}.key", user.file()),
            ]);
            curl.arg(format!("https://127.0.0.1:{port}/{path}")).current_dir(self.folder.path());
            let answer = self.site.run("kubelet-answers", &mut curl)?;
            if answer.output.contains(&format!("\nstatus {status}"))
                && answer.output.contains(words)
            {
                return Ok(());
            }
            let granted = answer.output.contains("\nstatus 2") && status >= 400;
            if granted || Instant::now() > end {
                return Err(answer.failure(&format!(
                    "the kubelet does not answer the {}'s `/{path}` with {status} and `{words}`",
                    user.file()
                )));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
