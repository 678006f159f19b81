//! The real program, with a metadata service on the loopback and a folder in place of QEMU's.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(60);
const FIRST: &str = "hostname = \"edge-1\"\n";
const SECOND: &str = "hostname = \"edge-2\"\n";

/// A machine: the folders of the node and of its sources.
struct Machine {
    root: TempDir,
    port: u16,
    /// The requests that `init` gets.
    requests: Receiver<String>,
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("osbuild")).unwrap();
        fs::write(root.path().join("vendor"), "Amazon EC2\n").unwrap();
        fs::write(root.path().join("instance-id"), "i-1").unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listener = UnixListener::bind(root.path().join("socket")).unwrap();
        let (sender, requests) = channel();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut line = String::new();
                let mut reader = BufReader::new(client);
                if reader.read_line(&mut line).is_ok_and(|read| read > 0) {
                    let _ = sender.send(line.trim_end().to_owned());
                    let _ = reader.get_mut().write_all(b"ok\n");
                }
            }
        });
        Machine { root, port, requests }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// How often `init` was asked to restart the kubelet since the last call.
    fn restarts(&self) -> usize {
        self.requests.try_iter().filter(|request| request == "restart kubelet").count()
    }

    fn document(&self) -> Option<String> {
        fs::read_to_string(self.path("osbuild/node.toml")).ok()
    }

    /// Starts the service, which answers the first requests with 503.
    fn service(&self, unavailable: u32) -> Running {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/imds.py");
        let mut python = Command::new("python3");
        python.arg(script).arg(self.port.to_string()).arg(self.root.path());
        Running(python.arg(unavailable.to_string()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Starts the program as a boot of the machine does.
    fn boot(&self) -> Boot {
        let mut program = Command::new(env!("CARGO_BIN_EXE_bootstrap"));
        program.arg("--fw-cfg").arg(self.path("fw_cfg"));
        // Nobody listens on port 9 of this address: the first endpoint is always refused.
        program.args(["--imds", "http://127.0.0.9:9"]);
        program.args(["--imds", &format!("http://127.0.0.1:{}", self.port)]);
        program.arg("--vendor").arg(self.path("vendor"));
        program.arg("--document").arg(self.path("osbuild"));
        program.arg("--socket").arg(self.path("socket"));
        let mut child = program.stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines(child.stderr.take().unwrap());
        Boot { lines, _process: Running(child) }
    }
}

/// A running program and its lines.
struct Boot {
    lines: Receiver<String>,
    _process: Running,
}

impl Boot {
    /// Waits for a line with this text.
    #[track_caller]
    fn says(&self, text: &str) {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(TIMEOUT) {
            if line.contains(text) {
                return;
            }
            seen.push(line);
        }
        panic!("no line has {text:?}: {seen:?}");
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

#[test]
fn user_data_is_placed_once_the_service_answers_and_the_kubelet_is_restarted() {
    let machine = Machine::new();
    fs::write(machine.path("user-data"), STANDARD.encode(FIRST)).unwrap();
    let boot = machine.boot();
    boot.says("Connection refused");
    let _service = machine.service(2);
    boot.says("503");
    boot.says("EC2's user data of the instance `i-1` has a node document");
    boot.says("placed as /etc/osbuild/node.toml");
    boot.says("the node uses it");
    let requests: Vec<String> = machine.requests.try_iter().collect();
    assert!(requests.contains(&"restart kubelet".to_owned()), "{requests:?}");
    assert!(
        requests.contains(&"report placed as /etc/osbuild/node.toml".to_owned()),
        "{requests:?}"
    );
    assert_eq!(machine.document().as_deref(), Some(FIRST));
}

#[test]
fn later_user_data_counts_only_for_another_instance() {
    let machine = Machine::new();
    let _service = machine.service(0);
    for (instance, text, line, document) in [
        ("i-1", FIRST, "the node uses it", FIRST),
        ("i-1", FIRST, "is that of the instance `i-1`", FIRST),
        ("i-1", SECOND, "stays: the instance `i-1` had another document at first", FIRST),
        ("i-2", SECOND, "the node uses it", SECOND),
    ] {
        fs::write(machine.path("instance-id"), instance).unwrap();
        fs::write(machine.path("user-data"), text).unwrap();
        machine.boot().says(line);
        assert_eq!(machine.document().as_deref(), Some(document), "{instance} {text}");
    }
    assert_eq!(machine.restarts(), 2, "one restart for each new document");
}

#[test]
fn a_bad_document_is_named_and_changes_nothing() {
    let machine = Machine::new();
    let _service = machine.service(0);
    fs::write(machine.path("user-data"), FIRST).unwrap();
    machine.boot().says("the node uses it");
    fs::write(machine.path("instance-id"), "i-2").unwrap();
    fs::write(machine.path("user-data"), "\nhostnam = \"a\"\n").unwrap();
    machine
        .boot()
        .says("refused: EC2's user data of the instance `i-2`: line 2: unknown field `hostnam`");
    fs::write(machine.path("user-data"), vec![b'#'; 17 << 10]).unwrap();
    machine.boot().says("error: ");
    assert_eq!(machine.document().as_deref(), Some(FIRST));
}

#[test]
fn an_instance_without_user_data_and_another_machine_have_no_document() {
    let machine = Machine::new();
    let _service = machine.service(0);
    machine.boot().says("no source has a document");
    fs::write(machine.path("user-data"), FIRST).unwrap();
    fs::write(machine.path("vendor"), "QEMU\n").unwrap();
    let boot = machine.boot();
    boot.says("this machine is no EC2 instance");
    boot.says("no source has a document");
    assert_eq!(machine.document(), None);
}

#[test]
fn the_document_of_qemu_comes_before_user_data() {
    let machine = Machine::new();
    fs::write(machine.path("user-data"), SECOND).unwrap();
    let folder = machine.path("fw_cfg/by_name/opt/io.osbuild/node.toml");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("raw"), FIRST).unwrap();
    machine.boot().says("the node uses it");
    assert_eq!(machine.document().as_deref(), Some(FIRST));
}
