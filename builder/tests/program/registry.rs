//! `docker-registry`, a registry that we did not write.

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The user of a registry with a password, the password, and its hash by bcrypt.
pub const USER: (&str, &str) = ("team", "correct horse");
const HTPASSWD: &str = "team:$2b$04$KSOmvBeMn.p06SG7dTyxsuUdEQEYLRcSzCflN13EdLrLPq6L8BzPy\n";

/// A running registry. Dropping it ends it.
pub struct Registry {
    child: Child,
    folder: TempDir,
    pub address: SocketAddr,
}

impl Registry {
    /// One that everybody may use.
    pub fn start() -> Self {
        Registry::with("")
    }

    /// One with a user.
    pub fn start_with_user() -> Self {
        Registry::with("auth: {htpasswd: {realm: registry, path: FOLDER/htpasswd}}\n")
    }

    /// One with a certificate of a private authority, and the certificate of that authority.
    pub fn start_with_tls() -> (Self, String) {
        let key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = authority.self_signed(&key).unwrap().pem();
        let own_key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let own = own.signed_by(&own_key, &Issuer::new(authority, key)).unwrap().pem();
        let tls = "FOLDER/server.pem, key: FOLDER/server.key";
        let files = [("server.pem", own), ("server.key", own_key.serialize_pem())];
        (Registry::serve(&format!("tls: {{certificate: {tls}}}"), "", &files), root)
    }

    fn with(more: &str) -> Self {
        Registry::serve("", more, &[("htpasswd", HTPASSWD.to_owned())])
    }

    fn serve(http: &str, more: &str, files: &[(&str, String)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let path = folder.path().display().to_string();
        let configuration = format!(
            "version: 0.1\nhttp: {{addr: \"{address}\", {http}}}\n\
             storage: {{filesystem: {{rootdirectory: FOLDER/data}}}}\n{more}"
        );
        let file = folder.path().join("config.yml");
        fs::write(&file, configuration.replace("FOLDER", &path)).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("Debian's package docker-registry is installed");
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30), "docker-registry does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Registry { child, folder, address }
    }

    /// The address of an artifact.
    pub fn name(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.address)
    }

    /// Changes one byte of each blob.
    pub fn damage(&self) {
        let find = ["-type", "f", "-name", "data"];
        let root = self.folder.path().join("data");
        let found = Command::new("find").arg(root).args(find).output().unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        assert!(!found.is_empty());
        for path in found.lines() {
            let mut bytes = fs::read(path).unwrap();
            *bytes.last_mut().unwrap() ^= 1;
            fs::write(path, bytes).unwrap();
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
