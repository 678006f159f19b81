//! `bazel-remote`, a cache that we did not write, with both of its protocols.

use crate::certificates::Certificates;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Its version, and the module that has its source.
const VERSION: &str = "2.6.1";
const MODULE: &str = "github.com/buchgr/bazel-remote/v2";

/// A running server with an empty cache. Dropping it ends it.
pub struct BazelRemote {
    child: Child,
    grpc: SocketAddr,
    http: SocketAddr,
    is_encrypted: bool,
    _folder: TempDir,
}

impl BazelRemote {
    /// A server that anyone on this machine may use.
    pub fn start() -> BazelRemote {
        BazelRemote::run(None)
    }

    /// A server that demands one of these certificates.
    pub fn with_tls(certificates: &Certificates) -> BazelRemote {
        BazelRemote::run(Some(certificates))
    }

    fn run(certificates: Option<&Certificates>) -> BazelRemote {
        let folder = tempfile::tempdir().unwrap();
        let sockets = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [grpc, http] = sockets.each_ref().map(|socket| socket.local_addr().unwrap());
        drop(sockets);
        let mut command = Command::new(program());
        command.arg("--dir").arg(folder.path()).args(["--max_size", "1"]);
        command.args(["--grpc_address", &grpc.to_string(), "--http_address", &http.to_string()]);
        for (flag, name) in [
            ("--tls_cert_file", "server.pem"),
            ("--tls_key_file", "server.key"),
            ("--tls_ca_file", "root.pem"),
        ] {
            command
                .args(certificates.map(|all| [flag.into(), all.path(name)]).into_iter().flatten());
        }
        let is_encrypted = certificates.is_some();
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let server = BazelRemote { child, grpc, http, is_encrypted, _folder: folder };
        let began = Instant::now();
        while [grpc, http].iter().any(|address| TcpStream::connect(address).is_err()) {
            assert!(began.elapsed() < Duration::from_secs(30), "bazel-remote does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// The addresses for a build: of the Remote Execution API, and of the plain cache.
    pub fn urls(&self) -> [String; 2] {
        let s = if self.is_encrypted { "s" } else { "" };
        [format!("grpc{s}://{}", self.grpc), format!("http{s}://{}", self.http)]
    }
}

impl Drop for BazelRemote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program, which is compiled once and kept in the user's cache.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap();
        let folder = cache.join("osbuild-tests");
        let program = folder.join(format!("bazel-remote-{VERSION}"));
        if !program.is_file() {
            std::fs::create_dir_all(&folder).unwrap();
            // Another run of the tests may compile it at the same time.
            let fresh = tempfile::tempdir_in(&folder).unwrap();
            compile(&fresh.path().join("bazel-remote"));
            std::fs::rename(fresh.path().join("bazel-remote"), &program).unwrap();
        }
        program
    })
}

/// Compiles the program. `go install MODULE@VERSION` would ask the checksum database for one of its
/// dependencies, which that does not have: inside the module, its own go.sum counts.
fn compile(to: &Path) {
    let go = |folder: &Path, arguments: &[&str]| {
        let mut command = Command::new("go");
        command.args(arguments).current_dir(folder).env("GOFLAGS", "").env("GOWORK", "off");
        let output = command.output().expect("go is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let module = format!("{MODULE}@v{VERSION}");
    let found = go(to.parent().unwrap(), &["mod", "download", "-json", &module]);
    let found: serde_json::Value = serde_json::from_slice(&found).unwrap();
    let source = Path::new(found["Dir"].as_str().unwrap());
    let to = to.display().to_string();
    go(source, &["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", &to, "."]);
}
