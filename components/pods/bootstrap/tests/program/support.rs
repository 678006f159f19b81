//! A machine: the folders of its node and of its sources, with `init`'s socket.

use osbuild_protocol::fd_passing;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(60);
pub const FIRST: &str = "hostname = \"edge-1\"\n";
pub const SECOND: &str = "hostname = \"edge-2\"\n";
pub const OWN: &str = "hostname = \"own\"\n";

/// A machine: the folders of the node and of its sources.
pub struct Machine {
    pub root: TempDir,
    pub port: u16,
    /// The requests that `init` gets.
    pub requests: Receiver<String>,
}

/// A process that ends with the test.
pub struct Running(Child);

impl Running {
    pub fn start(command: &mut Command) -> Self {
        Running(command.spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Machine {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["osbuild", "dmi", "devices", "volumes"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("dmi/sys_vendor"), "Amazon EC2\n").unwrap();
        fs::write(root.path().join("instance-id"), "i-1").unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listener = UnixListener::bind(root.path().join("socket")).unwrap();
        let (sender, requests) = channel();
        let devices = root.path().join("devices");
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(client);
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                    let _ = sender.send(line.trim_end().to_owned());
                    reply(reader.get_mut(), line.trim_end(), &devices);
                    line.clear();
                }
            }
        });
        Machine { root, port, requests }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// How often `init` was asked to restart the kubelet since the last call.
    pub fn restarts(&self) -> usize {
        self.requests.try_iter().filter(|request| request == "restart kubelet").count()
    }

    pub fn document(&self) -> Option<String> {
        fs::read_to_string(self.path("osbuild/node.toml")).ok()
    }

    /// Starts the service, which answers the first requests with 503.
    pub fn service(&self, unavailable: u32) -> Running {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/imds.py");
        let mut python = Command::new("python3");
        python.arg(script).arg(self.port.to_string()).arg(self.root.path());
        Running(python.arg(unavailable.to_string()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Starts the program as a boot of the machine does.
    pub fn boot(&self) -> Boot {
        let mut program = Command::new(env!("CARGO_BIN_EXE_bootstrap"));
        program.arg("--fw-cfg").arg(self.path("fw_cfg"));
        // Nobody listens on port 9 of this address: the first endpoint is always refused.
        program.args(["--imds", "http://127.0.0.9:9"]);
        program.args(["--imds", &format!("http://127.0.0.1:{}", self.port)]);
        self.start(program)
    }

    /// Starts the program with these sources.
    pub fn boot_with(&self, sources: &[&str]) -> Boot {
        let mut program = Command::new(env!("CARGO_BIN_EXE_bootstrap"));
        program.args(sources);
        self.start(program)
    }

    fn start(&self, mut program: Command) -> Boot {
        program.arg("--dmi").arg(self.path("dmi"));
        program.arg("--document").arg(self.path("osbuild"));
        program.arg("--socket").arg(self.path("socket"));
        let mut child = program.stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines(child.stderr.take().unwrap());
        Boot { lines, _process: Running(child) }
    }
}

/// A running program and its lines.
pub struct Boot {
    lines: Receiver<String>,
    _process: Running,
}

impl Boot {
    /// Waits for a line with this text.
    #[track_caller]
    pub fn says(&self, text: &str) {
        self.says_all(&[text]);
    }

    /// Waits for a line with all these texts.
    #[track_caller]
    pub fn says_all(&self, texts: &[&str]) {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT) {
            if texts.iter().all(|text| line.contains(text)) {
                return;
            }
            seen.push(line);
        }
        panic!("no line has {texts:?}: {seen:?}");
    }
}

/// Replies to a request as `init` does: a file in `devices` is a device with a known label.
fn reply(client: &mut UnixStream, request: &str, devices: &Path) {
    let mut names: Vec<String> = fs::read_dir(devices)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let after = match request.strip_prefix("volume") {
        None => return client.write_all(b"ok\n").unwrap_or_default(),
        Some(words) => words.strip_prefix(" after ").unwrap_or_default(),
    };
    match names.into_iter().find(|name| name.as_str() > after) {
        Some(name) => {
            let file = File::open(devices.join(&name)).unwrap();
            let text = format!("volume {name}\nok\n");
            fd_passing::send(&*client, text, Some(file.as_fd())).unwrap();
        }
        None => client.write_all(b"ok\n").unwrap_or_default(),
    }
}

fn lines(stderr: ChildStderr) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(stderr).lines().map_while(Result::ok);
        lines.for_each(|line| drop(sender.send(line)));
    });
    lines
}
