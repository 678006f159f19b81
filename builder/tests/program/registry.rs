//! `docker-registry`, a registry that we did not write.

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

    fn with(more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let path = folder.path().display().to_string();
        let more = more.replace("FOLDER", &path);
        let configuration = format!(
            "version: 0.1\nhttp: {{addr: \"{address}\"}}\n\
             storage: {{filesystem: {{rootdirectory: {path}/data}}}}\n{more}"
        );
        let file = folder.path().join("config.yml");
        fs::write(&file, configuration).unwrap();
        fs::write(folder.path().join("htpasswd"), HTPASSWD).unwrap();
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
