//! Certificates of a private authority, for a server and a client of it.

use osbuild_remote::Access;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Makes an authority, and certificates of the server and of a client.
const SCRIPT: &str = "
new='openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
$new -x509 -subj /CN=root -keyout root.key -out root.pem
for name in server client; do
    $new -subj /CN=$name -addext subjectAltName=IP:127.0.0.1 -keyout $name.key -out $name.csr
    openssl x509 -req -in $name.csr -CA root.pem -CAkey root.key -copy_extensions copy \
        -out $name.pem
done";

/// `root`, `server` and `client`, each as `NAME.pem` and `NAME.key`.
pub struct Certificates(TempDir);

impl Certificates {
    pub fn make() -> Certificates {
        let folder = tempfile::tempdir().unwrap();
        let mut make = Command::new("bash");
        let made = make.args(["-ec", SCRIPT]).current_dir(&folder).output().unwrap();
        assert!(made.status.success(), "{made:?}");
        Certificates(folder)
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// The access of somebody who knows the authority alone.
    pub fn stranger(&self) -> Access {
        Access { roots: Some(self.pem("root.pem")), ..Access::default() }
    }

    /// The access of somebody with a certificate of the client.
    pub fn user(&self) -> Access {
        let identity = (self.pem("client.pem"), self.pem("client.key"));
        Access { identity: Some(identity), ..self.stranger() }
    }

    fn pem(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }
}
