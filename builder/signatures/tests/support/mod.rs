//! Runs the tools that serve as oracles; one of them is a signer that shares no code with ours.

use osbuild_signatures::certificate::Certificate;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// An RSA key with a self-signed certificate, made and used by openssl.
pub struct Signer {
    folder: TempDir,
    /// The certificate.
    pub certificate: Certificate,
}

impl Signer {
    /// Makes a new one.
    pub fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let subject = format!("/O=Test/CN={name}");
        let request = [
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "key.pem",
            "-out", "cert.pem",
        ];
        openssl(folder.path(), &[&request[..], &["-subj", &subject]].concat());
        let certificate =
            Certificate::from_pem(&std::fs::read(folder.path().join("cert.pem")).unwrap()).unwrap();
        Signer { folder, certificate }
    }

    /// Signs `message`: RSASSA-PKCS1-v1_5 with SHA-256.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        std::fs::write(self.path("message"), message).unwrap();
        openssl(
            self.folder.path(),
            &["dgst", "-sha256", "-sign", "key.pem", "-out", "signature", "message"],
        );
        std::fs::read(self.path("signature")).unwrap()
    }

    /// The path of a file in this signer's folder, which has `key.pem` and `cert.pem`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Runs openssl in a folder and returns its output.
pub fn openssl(folder: &Path, arguments: &[&str]) -> String {
    tool("openssl", Command::new("openssl").current_dir(folder).args(arguments))
}

/// Runs a tool and returns its standard output. The test fails if the tool fails or is missing; the
/// message names its package.
pub fn tool(package: &str, command: &mut Command) -> String {
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => panic!("{command:?}: {error}: install `{package}`"),
    };
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    stdout
}
