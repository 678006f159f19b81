//! BuildGrid, a second server of the Remote Execution API that we did not write. It comes with the
//! Python package of this name, and serves results and blobs here, no execution.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Its configuration, without the address and the folder.
const CONFIGURATION: &str = "\
server:
  - !channel { address: ADDRESS, insecure-mode: true }
instances:
  - name: main
    storages:
      - !disk-storage &blobs { path: FOLDER }
    caches:
      - !lru-action-cache &results { storage: *blobs, max-cached-refs: 100, allow-updates: true }
    services:
      - !cas { storage: *blobs }
      - !bytestream { storage: *blobs }
      - !action-cache { cache: *results }
thread-pool-size: 10
";

/// A running server with an empty cache. Dropping it ends it.
pub struct BuildGrid {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl BuildGrid {
    pub fn start() -> BuildGrid {
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let file = folder.path().join("configuration.yml");
        let blobs = folder.path().join("blobs");
        std::fs::create_dir(&blobs).unwrap();
        let text = CONFIGURATION
            .replace("ADDRESS", &format!("'{address}'"))
            .replace("FOLDER", &blobs.display().to_string());
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new("bgd");
        command.args(["server", "start"]).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let server = BuildGrid { child: command.spawn().unwrap(), address, _folder: folder };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "BuildGrid does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// The address of its instance for a build.
    pub fn url(&self) -> String {
        format!("grpc://{}/main", self.address)
    }
}

impl Drop for BuildGrid {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
