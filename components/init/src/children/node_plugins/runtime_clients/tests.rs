use super::*;
use crate::sys::peer::test_client::connects;
use rustix::thread::UnshareFlags;
use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;
use tempfile::TempDir;

/// A runtime, which is the process of the test itself.
struct Runtime {
    folder: TempDir,
    listener: UnixListener,
    accepted: Vec<UnixStream>,
}

impl Runtime {
    fn new() -> Runtime {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("containerd.sock")).unwrap();
        Runtime { folder, listener, accepted: Vec::new() }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("containerd.sock")
    }

    /// The socket of its plugins.
    fn plugins(&self) -> PathBuf {
        self.folder.path().join("nri.sock")
    }

    fn accept(&mut self) {
        self.accepted.push(self.listener.accept().unwrap().0);
    }

    /// A process that connects, and then executes this program.
    fn client(&mut self, words: &[&str], network: UnshareFlags) -> Child {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdout(Stdio::piped());
        let child = connects(&mut command, &self.socket(), network).spawn().unwrap();
        self.accept();
        child
    }

    fn clients(&self) -> RuntimeClients {
        let logs = self.folder.path().join("pods");
        let sockets = [self.socket(), self.plugins()];
        clients(rustix::process::getpid(), &sockets, &logs).unwrap()
    }

    /// The client with this number.
    fn with(&self, pid: u32) -> Option<RuntimeClient> {
        let pid = i32::try_from(pid).unwrap();
        self.clients().clients.into_iter().find(|client| client.pid == pid)
    }
}

/// Whether this is so soon. Children of other tests have the descriptors of this process until they
/// execute their programs.
fn soon(holds: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > Duration::from_secs(10) {
            return false;
        }
        sleep(Duration::from_millis(5));
    }
    true
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The process identifiers of clients, each as often as it has connections, by `ss` (iproute2).
fn by_ss(socket: &Path) -> Vec<i32> {
    let output = Command::new("ss").args(["-x", "-p", "-H"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_ascii_whitespace().collect()).collect();
    let of_server = lines.iter().filter(|line| line[1] == "ESTAB" && Path::new(line[4]) == socket);
    let pid = |inode: &str| {
        let end = lines.iter().find(|line| line[5] == inode)?;
        let pid = end.get(8)?.split("pid=").nth(1)?.split(',').next()?;
        pid.parse::<i32>().ok()
    };
    let mut found: Vec<i32> = of_server.filter_map(|line| pid(line[7])).collect();
    found.sort_unstable();
    found
}

#[test]
fn ss_reports_the_same_processes() {
    let mut runtime = Runtime::new();
    assert_eq!(runtime.clients(), RuntimeClients::default());
    let child = runtime.client(&["sleep", "60"], UnshareFlags::empty());
    let own = [(); 2].map(|()| UnixStream::connect(runtime.socket()).unwrap());
    (0..2).for_each(|_| runtime.accept());
    let pids = || {
        let clients = runtime.clients().clients.into_iter();
        let pids = clients.flat_map(|client| vec![client.pid; client.connections as usize]);
        pids.collect::<Vec<_>>()
    };
    assert!(soon(|| pids() == by_ss(&runtime.socket())), "{:?}", pids());
    let of_child = runtime.with(child.id()).unwrap();
    let process = of_child.process.unwrap();
    let sleep = fs::read_link(format!("/proc/{}/exe", child.id())).unwrap();
    assert_eq!((of_child.connections, Path::new(&process.program)), (1, sleep.as_path()));
    let age = crate::uptime::uptime().saturating_sub(process.since);
    assert!(age < Duration::from_secs(30), "{age:?}");
    let of_test = runtime.with(std::process::id()).unwrap();
    assert_eq!(of_test.connections, 2);
    let own_program = std::env::current_exe().unwrap();
    assert_eq!(Path::new(&of_test.process.unwrap().program), own_program);
    // The runtime has not closed its ends yet.
    drop(own);
    end(child);
    assert!(soon(|| runtime.clients() == RuntimeClients::default()));
}

#[test]
fn a_client_with_a_network_of_its_own_is_found() {
    let mut runtime = Runtime::new();
    let child = runtime.client(&["sleep", "60"], UnshareFlags::NEWNET);
    let link = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    assert_ne!(link(&child.id().to_string()), link("self"));
    // The list of sockets of the network of the runtime has only one end.
    assert_eq!(by_ss(&runtime.socket()), [0; 0]);
    assert!(runtime.with(child.id()).unwrap().process.is_some());
    end(child);
}

#[test]
fn the_connection_of_a_process_that_has_ended_keeps_its_number() {
    let mut runtime = Runtime::new();
    let words = ["sh", "-c", "sleep 60 >/dev/null & echo $!"];
    let mut shell = runtime.client(&words, UnshareFlags::empty());
    let pid = shell.id();
    let mut heir = String::new();
    shell.stdout.take().unwrap().read_to_string(&mut heir).unwrap();
    shell.wait().unwrap();
    let client = runtime.with(pid).unwrap();
    assert_eq!((client.connections, client.process), (1, None));
    let heir = Pid::from_raw(heir.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(heir, rustix::process::Signal::KILL).unwrap();
    assert!(soon(|| runtime.with(pid).is_none()));
}

#[test]
fn a_plugin_of_the_runtime_is_a_client() {
    let runtime = Runtime::new();
    let other = UnixListener::bind(runtime.plugins()).unwrap();
    let _plugin = UnixStream::connect(runtime.plugins()).unwrap();
    let _accepted = other.accept().unwrap();
    let own = runtime.with(std::process::id()).unwrap();
    assert_eq!(own.connections, 1);
}

#[test]
fn the_other_sockets_of_the_runtime_have_no_clients() {
    let runtime = Runtime::new();
    let path = runtime.folder.path().join("containerd.sock.ttrpc");
    let other = UnixListener::bind(&path).unwrap();
    let _client = UnixStream::connect(&path).unwrap();
    let _accepted = other.accept().unwrap();
    let _pair = UnixStream::pair().unwrap();
    assert_eq!(runtime.clients(), RuntimeClients::default());
}

#[test]
fn clients_beyond_the_limit_are_counted_once() {
    let mut found = Found::default();
    let limit = i32::try_from(MAX_RUNTIME_CLIENTS).unwrap();
    for pid in (1..=limit + 2).chain([limit + 1, 1]) {
        found.add(&Peer { pid, process: None });
    }
    assert_eq!((found.left_out.len(), found.clients.len()), (2, MAX_RUNTIME_CLIENTS));
    assert_eq!(found.clients[&(1, true)].connections, 2);
}

#[test]
fn a_pod_has_the_name_of_its_logs() {
    let logs = tempfile::tempdir().unwrap();
    let uid = "0f3bd76e-8c3f-4d5e-9a51-7b0f5f8f2a11";
    fs::create_dir(logs.path().join(format!("default_tool-1_{uid}"))).unwrap();
    fs::create_dir(logs.path().join("other")).unwrap();
    let other = "5d0c377952b35d0c377952b35d0c3779";
    let mut clients = [uid, other, ""].map(|pod| RuntimeClient {
        process: Some(ClientProcess { pod: pod.to_owned(), ..ClientProcess::default() }),
        ..RuntimeClient::default()
    });
    name_pods(&mut clients, logs.path());
    let pods = clients.map(|client| client.process.unwrap().pod);
    assert_eq!(pods, ["default/tool-1", other, ""]);
}
