//! Somebody with a certificate of the cluster's CA, who asks the kubelet for something with curl.

use crate::site::Site;
use osbuild::error::{Context, Result};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How often the kubelet is asked.
const TICK: Duration = Duration::from_secs(1);

/// A CA and one certificate of it.
pub struct Administrator<'a> {
    site: &'a Site<'a>,
    folder: TempDir,
}

impl<'a> Administrator<'a> {
    /// Makes the CA and the certificate.
    pub fn new(site: &'a Site<'a>) -> Result<Self> {
        let folder = tempfile::tempdir().or_build(|| "cannot make a folder".to_owned())?;
        let openssl = |words: &str| {
            let mut command = Command::new("openssl");
            site.finish("openssl", command.args(words.split(' ')).current_dir(folder.path()))
        };
        openssl("req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=test-ca")?;
        openssl("req -newkey rsa:2048 -nodes -keyout client.key -out client.csr -subj /O=system:masters/CN=test")?;
        openssl("x509 -req -in client.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out client.crt -days 2")?;
        Ok(Administrator { site, folder })
    }

    /// The CA's certificate as PEM.
    pub fn authority(&self) -> Result<String> {
        fs::read_to_string(self.folder.path().join("ca.crt")).or_build(|| "cannot read the CA's certificate".to_owned())
    }

    /// Asks the kubelet behind `port` for `path` until the answer has these words, at most for `patience`.
    pub fn sees(&self, port: u16, path: &str, words: &str, patience: Duration) -> Result<()> {
        let end = Instant::now() + patience;
        loop {
            let mut curl = Command::new("curl");
            curl.args(["--silent", "--show-error", "--fail", "--insecure", "--cert", "client.crt", "--key", "client.key"]);
            curl.arg(format!("https://127.0.0.1:{port}/{path}")).current_dir(self.folder.path());
            let answer = self.site.run("kubelet-answers", &mut curl)?;
            if answer.code == Some(0) && answer.said.contains(words) {
                return Ok(());
            }
            if Instant::now() > end {
                return Err(answer.failure(&format!("the kubelet's `/{path}` does not have `{words}`")));
            }
            std::thread::sleep(TICK);
        }
    }
}
