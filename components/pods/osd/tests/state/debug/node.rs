//! A node for debug containers: an `init` that starts the real program of a container where the
//! kubelet would, and the log of a kubelet.

use crate::osd::channel;
use osbuild_cosi::v1::debug_request::Part as Sent;
use osbuild_cosi::v1::debug_response::Part;
use osbuild_cosi::v1::node_client::NodeClient;
use osbuild_cosi::v1::{DebugRequest, DebugResponse, DebugSize, DebugStart, DebugTerminal};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// The image that this node has. It cannot pull another one.
pub const IMAGE: &str = "localhost/tools:1";

/// The rights of a node whose recipe says nothing.
const RIGHTS: &str = "restricted";

pub struct DebugNode {
    folder: TempDir,
    state: Arc<Mutex<State>>,
    inspect: Child,
}

#[derive(Default)]
struct State {
    requests: Vec<String>,
    container: Option<Child>,
    /// How long `init` takes to make a container.
    delay: Duration,
}

impl DebugNode {
    pub async fn start() -> DebugNode {
        let folder = tempfile::tempdir().unwrap();
        for name in ["logs", "share", "kubelet"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        File::create(folder.path().join("logs/kubelet.log")).unwrap();
        let inspect = inspect(folder.path());
        channel(&folder.path().join("inspect")).await;
        let state = Arc::<Mutex<State>>::default();
        let listener = UnixListener::bind(folder.path().join("admin")).unwrap();
        let (served, place) = (state.clone(), folder.path().to_owned());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (state, place) = (served.clone(), place.clone());
                thread::spawn(move || serve(stream.unwrap(), &place, &state));
            }
        });
        DebugNode { folder, state, inspect }
    }

    /// The arguments of `osd`.
    pub fn arguments(&self) -> Vec<String> {
        let path = |name| self.path(name).display().to_string();
        let [admin, debug, inspect] = ["admin", "debug", "inspect"].map(path);
        ["--admin", &admin, "--debug", &debug, "--inspect", &inspect].map(str::to_owned).into()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The requests that `init` has got, without those that `osd` begins with.
    pub fn requests(&self) -> Vec<String> {
        let requests = self.state.lock().unwrap().requests.clone();
        requests.into_iter().skip_while(|request| request == "end-debug").collect()
    }

    /// Has `init` take this long to make a container.
    pub fn delay(&self, delay: Duration) {
        self.state.lock().unwrap().delay = delay;
    }

    /// Ends the container, as `init` does at its deadline.
    pub fn end(&self) {
        end(&self.state);
    }

    /// Whether there is a container.
    pub fn has_container(&self) -> bool {
        self.state.lock().unwrap().container.is_some()
    }
}

impl Drop for DebugNode {
    fn drop(&mut self) {
        end(&self.state);
        self.inspect.kill().unwrap();
        self.inspect.wait().unwrap();
    }
}

/// The container `inspect`, for the log of the kubelet.
fn inspect(folder: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_osd"));
    command.arg("inspect").arg("--socket").arg(folder.join("inspect"));
    command.args(["--processes", "/proc", "--pod", "kube-system/osd"]);
    command.args(["--resolver", "/etc/resolv.conf", "--hosts", "/etc/hosts"]);
    for (flag, name) in [("--logs", "logs"), ("--share", "share"), ("--kubelet", "kubelet")] {
        command.arg(flag).arg(folder.join(name));
    }
    command.args(["--authorities", "/etc/hosts", "--os-release", "/etc/hosts"]).spawn().unwrap()
}

fn serve(mut stream: UnixStream, folder: &Path, state: &Mutex<State>) {
    for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
        state.lock().unwrap().requests.push(line.clone());
        let words: Vec<&str> = line.split(' ').collect();
        let reply = match words[..] {
            ["debug", _, rights, _, _] if rights != RIGHTS => "error: not allowed [code=8]\n",
            ["debug", id, _, _, IMAGE] => {
                let delay = state.lock().unwrap().delay;
                thread::sleep(delay);
                state.lock().unwrap().container = Some(container(folder, id));
                "ok\n"
            }
            ["debug", id, _, _, image] => {
                cannot_pull(folder, id, image);
                "ok\n"
            }
            ["end-debug"] => {
                end(state);
                "ok\n"
            }
            _ => "error: unknown [code=1]\n",
        };
        let _ = stream.write_all(reply.as_bytes());
    }
}

/// The program of a container with this identifier, as installed in a folder.
pub fn container(folder: &Path, id: &str) -> Child {
    let program = folder.join("attach");
    if !program.exists() {
        let mut install = Command::new(env!("CARGO_BIN_EXE_osd"));
        assert!(install.arg("install").arg(&program).status().unwrap().success());
    }
    let mut command = Command::new(program);
    command.arg("attach").arg("--socket").arg(folder.join("debug"));
    command.env("OSBUILD_DEBUG", id).stdin(Stdio::null()).spawn().unwrap()
}

fn cannot_pull(folder: &Path, id: &str, image: &str) {
    let mut log = File::options().append(true).open(folder.join("logs/kubelet.log")).unwrap();
    let failed = r#"failed to \"StartContainer\" for \"debug\" with ErrImagePull: "#;
    let reason = format!(r#"\"failed to pull and unpack image \\\"{image}\\\": not found\""#);
    let (line, id) = (r#"E1127 1 pod_workers.go:1324] "Error syncing pod, skipping""#, &id[..8]);
    let pod = format!(r#"pod="kube-system/debug-{id}-node-1" podUID="d7""#);
    writeln!(log, r#"{line} err="{failed}{reason}" {pod}"#).unwrap();
}

/// Ends the container as the kubelet does.
fn end(state: &Mutex<State>) {
    if let Some(mut container) = state.lock().unwrap().container.take() {
        // It may have ended.
        let _ = kill_process(Pid::from_child(&container), Signal::TERM);
        container.wait().unwrap();
    }
}

/// A call of a client.
pub struct Session {
    to: Option<mpsc::Sender<DebugRequest>>,
    responses: Streaming<DebugResponse>,
}

/// The messages from a command.
#[derive(Debug, Default)]
pub struct Came {
    pub progress: Vec<String>,
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
    pub code: Option<u32>,
}

impl Came {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

/// A container whose shell runs a script.
pub fn script(script: &str) -> DebugStart {
    DebugStart {
        image: IMAGE.into(),
        command: vec!["sh".into(), "-c".into(), script.into()],
        ..DebugStart::default()
    }
}

/// The same on a terminal.
pub fn on_terminal(text: &str) -> DebugStart {
    let size = Some(DebugSize { columns: 100, rows: 30 });
    let terminal = Some(DebugTerminal { kind: "vt100".into(), size });
    DebugStart { terminal, ..script(text) }
}

impl Session {
    pub async fn begin(channel: Channel, start: DebugStart) -> Result<Session, Status> {
        let (to, requests) = mpsc::channel(1);
        to.send(DebugRequest { part: Some(Sent::Start(start)) }).await.unwrap();
        let responses = NodeClient::new(channel).debug(ReceiverStream::new(requests)).await?;
        Ok(Session { to: Some(to), responses: responses.into_inner() })
    }

    pub async fn send(&mut self, part: Sent) {
        let to = self.to.as_ref().unwrap();
        to.send(DebugRequest { part: Some(part) }).await.unwrap();
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.send(Sent::Input(bytes.to_vec())).await;
    }

    /// Ends the requests.
    pub fn end_input(&mut self) {
        self.to = None;
    }

    /// Takes the way to send, so that another task sends.
    pub fn sender(&mut self) -> mpsc::Sender<DebugRequest> {
        self.to.take().unwrap()
    }

    /// Receives until the output has this text.
    pub async fn until(&mut self, text: &str) -> Came {
        let mut came = Came::default();
        while !came.text().contains(text) {
            let Some(message) = self.responses.message().await.unwrap() else {
                panic!("no `{text}` in {came:?}");
            };
            take(&mut came, message);
        }
        came
    }

    /// Receives all that comes.
    pub async fn all(&mut self) -> Result<Came, Status> {
        let mut came = Came::default();
        while let Some(message) = self.responses.message().await? {
            take(&mut came, message);
        }
        Ok(came)
    }
}

fn take(came: &mut Came, message: DebugResponse) {
    match message.part.unwrap() {
        Part::Progress(text) => came.progress.push(text),
        Part::Started(_) => {}
        Part::Output(bytes) => came.output.extend(bytes),
        Part::ErrorOutput(bytes) => came.errors.extend(bytes),
        Part::Exit(exit) => came.code = Some(exit.code),
    }
}
