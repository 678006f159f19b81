//! The container `inspect`, and `osd` before it.

use crate::osd::{Osd, channel, code};
use crate::remote::RemoteOsd;
use osbuild_cosi::v1::inspect_client::InspectClient;
use osbuild_cosi::v1::{
    GetUsageRequest, ListFilesRequest, ListLogsRequest, ListProcessesRequest, ReadFileRequest,
    ReadLogRequest,
};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};
use tempfile::TempDir;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// `osd inspect`, which ends with the test.
struct Inspect {
    folder: TempDir,
    child: Child,
}

impl Inspect {
    fn start() -> Inspect {
        let folder = tempfile::tempdir().unwrap();
        for name in ["logs", "share", "share/pods", "kubelet"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let child = Inspect::spawn(folder.path());
        Inspect { folder, child }
    }

    fn spawn(folder: &Path) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_osd"));
        command.arg("inspect").arg("--socket").arg(folder.join("socket"));
        command.arg("--logs").arg(folder.join("logs")).args([
            "--processes",
            "/proc",
            "--pod",
            "kube-system/osd",
        ]);
        command.args(["--resolver", "/etc/resolv.conf", "--hosts", "/etc/hosts"]);
        command.args(["--authorities", "/etc/ssl/certs/ca-certificates.crt"]);
        command.arg("--share").arg(folder.join("share"));
        command.arg("--kubelet").arg(folder.join("kubelet"));
        command.arg("--os-release").arg(folder.join("os-release"));
        command.spawn().unwrap()
    }

    fn log(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("logs").join(name)
    }

    fn socket(&self) -> String {
        self.folder.path().join("socket").display().to_string()
    }

    /// An `osd` that forwards to it, and a client of that.
    async fn client(&self) -> (Osd, InspectClient<Channel>) {
        let osd = Osd::start_with(&["--inspect", &self.socket()]);
        let client = InspectClient::new(osd.channel().await);
        channel(Path::new(&self.socket())).await;
        (osd, client)
    }
}

impl Drop for Inspect {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn request(name: &str) -> ReadLogRequest {
    ReadLogRequest { name: name.into(), ..ReadLogRequest::default() }
}

#[tokio::test]
async fn a_log_is_read_and_followed() {
    let inspect = Inspect::start();
    fs::write(inspect.log("kubelet.log"), "one\ntwo\n").unwrap();
    let (_osd, mut client) = inspect.client().await;
    let names = client.list_logs(ListLogsRequest {}).await.unwrap().into_inner().names;
    assert_eq!(names, ["kubelet"]);
    let following = ReadLogRequest { tail_lines: Some(1), follow: true, ..request("kubelet") };
    let mut lines = client.read_log(following).await.unwrap().into_inner();
    assert_eq!(lines.message().await.unwrap().unwrap().lines[0].text, "two");
    let mut file = File::options().append(true).open(inspect.log("kubelet.log")).unwrap();
    file.write_all(b"three\n").unwrap();
    assert_eq!(lines.message().await.unwrap().unwrap().lines[0].text, "three");
}

/// The text of all lines of a log, or why there is none.
async fn texts(
    client: &mut InspectClient<Channel>,
    request: ReadLogRequest,
) -> Result<Vec<String>, Status> {
    let mut parts = client.read_log(request).await?.into_inner();
    let mut texts = Vec::new();
    while let Some(part) = parts.message().await? {
        texts.extend(part.lines.into_iter().map(|line| line.text));
    }
    Ok(texts)
}

#[tokio::test]
async fn the_last_line_of_a_container_without_an_end_is_read() {
    let inspect = Inspect::start();
    let container = inspect.log("pods/default_web-1_5d0c/web");
    fs::create_dir_all(&container).unwrap();
    for run in [0, 1] {
        let text = format!("T1 stderr F begins\nT2 stdout P fatal {run}\n");
        fs::write(container.join(format!("{run}.log")), text).unwrap();
    }
    let (_osd, mut client) = inspect.client().await;
    let request = request("default/web-1/web");
    let previous = ReadLogRequest { previous: true, ..request.clone() };
    let last = ReadLogRequest { tail_lines: Some(1), ..request.clone() };
    for (request, expected) in [
        (request, &["begins", "fatal 1"][..]),
        (previous, &["begins", "fatal 0"]),
        (last, &["fatal 1"]),
    ] {
        assert_eq!(texts(&mut client, request).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_log_that_has_none_before_says_so() {
    let inspect = Inspect::start();
    let container = inspect.log("pods/default_web-1_5d0c/web");
    fs::create_dir_all(&container).unwrap();
    fs::write(container.join("3.log"), "T1 stdout F one\n").unwrap();
    fs::write(inspect.log("kubelet.log"), "one\n").unwrap();
    let (_osd, mut client) = inspect.client().await;
    for (name, reason) in [
        ("default/web-1/web", "`default/web-1/web` has no log of a run before"),
        ("kubelet", "`kubelet` has no log of the boot before"),
        ("default/web-1/other", "there is no log `default/web-1/other`"),
    ] {
        let previous = ReadLogRequest { previous: true, ..request(name) };
        let refused = texts(&mut client, previous).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (Code::NotFound, reason));
    }
    fs::write(inspect.log("kubelet.log.1"), "").unwrap();
    let previous = ReadLogRequest { previous: true, ..request("kubelet") };
    assert!(texts(&mut client, previous).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_log_that_is_not_listed_is_not_found() {
    let inspect = Inspect::start();
    let (_osd, mut client) = inspect.client().await;
    for name in ["kubelet", "../socket", "/etc/passwd"] {
        let refused = client.read_log(request(name)).await;
        assert_eq!(code(refused.map(drop)), Code::NotFound, "{name}");
    }
}

#[tokio::test]
async fn too_many_readers_are_refused_until_one_goes() {
    let inspect = Inspect::start();
    fs::write(inspect.log("kubelet.log"), "one\n").unwrap();
    let (_osd, mut client) = inspect.client().await;
    let following = ReadLogRequest { follow: true, ..request("kubelet") };
    let mut streams = Vec::new();
    let refused = loop {
        match client.read_log(following.clone()).await {
            Ok(stream) => streams.push(stream),
            Err(status) => break status,
        }
    };
    assert_eq!((streams.len(), refused.code()), (32, Code::ResourceExhausted));
    streams.clear();
    for _ in 0..200 {
        if client.read_log(following.clone()).await.is_ok() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("a reader that has gone keeps its place");
}

#[tokio::test]
async fn one_client_on_the_network_does_not_take_all_places() {
    let inspect = Inspect::start();
    fs::write(inspect.log("kubelet.log"), "one\n").unwrap();
    let remote = RemoteOsd::start(&["--inspect", &inspect.socket()]);
    channel(Path::new(&inspect.socket())).await;
    let client = async |name| {
        let identity = remote.identity(name, "reader");
        InspectClient::new(remote.channel(&identity).await.unwrap())
    };
    let (mut alice, mut bob) = (client("alice").await, client("bob").await);
    let following = ReadLogRequest { follow: true, ..request("kubelet") };
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(bob.read_log(following.clone()).await.unwrap());
    }
    let refused = bob.read_log(following.clone()).await.map(drop);
    assert_eq!(code(refused), Code::ResourceExhausted);
    alice.read_log(following).await.unwrap();
}

#[tokio::test]
async fn the_processes_are_those_of_the_machine() {
    let inspect = Inspect::start();
    let (_osd, mut client) = inspect.client().await;
    let answer = client.list_processes(ListProcessesRequest {}).await.unwrap().into_inner();
    let pid = i32::try_from(inspect.child.id()).unwrap();
    let own = answer.processes.iter().find(|process| process.pid == pid).unwrap();
    assert!(own.command.contains("inspect --socket"), "{}", own.command);
}

#[tokio::test]
async fn the_use_is_that_of_the_machine() {
    let inspect = Inspect::start();
    let (_osd, mut client) = inspect.client().await;
    let usage = client.get_usage(GetUsageRequest {}).await.unwrap().into_inner();
    let found = std::thread::available_parallelism().unwrap().get();
    assert!(usize::try_from(usage.processors).unwrap() >= found, "{usage:?}");
    assert!(usage.links.iter().any(|link| link.name == "lo"), "{usage:?}");
    let (memory, data) = (usage.available_memory_bytes, usage.data.unwrap());
    assert!((1..usage.memory_bytes).contains(&memory) && data.free_bytes < data.bytes);
}

/// The bytes that come of a file, and how the call ends.
async fn read(client: &mut InspectClient<Channel>, path: &str) -> (Vec<u8>, Code) {
    let mut bytes = Vec::new();
    let mut parts = match client.read_file(ReadFileRequest { path: path.into() }).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return (bytes, status.code()),
    };
    loop {
        match parts.message().await {
            Ok(Some(part)) => bytes.extend(part.data),
            Ok(None) => return (bytes, Code::Ok),
            Err(status) => return (bytes, status.code()),
        }
    }
}

#[tokio::test]
async fn a_listed_file_is_read_whole_and_no_other_one() {
    let inspect = Inspect::start();
    let joined = vec![b'x'; 200_000];
    fs::write(inspect.folder.path().join("kubelet/joined.json"), &joined).unwrap();
    fs::write(inspect.folder.path().join("kubelet/kubelet.conf"), "a secret").unwrap();
    let (_osd, mut client) = inspect.client().await;
    let files = client.list_files(ListFilesRequest {}).await.unwrap().into_inner().files;
    let path = "/run/osbuild/kubelet/config/joined.json";
    assert!(files.iter().any(|file| file.path == path), "{files:?}");
    assert_eq!(read(&mut client, path).await, (joined, Code::Ok));
    let (memory, code) = read(&mut client, "/proc/meminfo").await;
    assert!(code == Code::Ok && memory.starts_with(b"MemTotal:"));
    let beside = inspect.folder.path().join("kubelet/kubelet.conf").display().to_string();
    for path in ["/run/osbuild/kubelet/config/kubelet.conf", "/etc/shadow", &beside] {
        assert_eq!(read(&mut client, path).await, (Vec::new(), Code::NotFound), "{path}");
    }
}

#[tokio::test]
async fn a_file_that_is_too_long_is_cut() {
    let inspect = Inspect::start();
    let file = File::create(inspect.folder.path().join("share/sysctl.conf")).unwrap();
    file.set_len(16 << 20).unwrap();
    let (_osd, mut client) = inspect.client().await;
    let path = "/usr/share/osbuild/sysctl.conf";
    let (bytes, code) = read(&mut client, path).await;
    assert_eq!((bytes.len(), code), (16 << 20, Code::Ok));
    file.set_len((16 << 20) + 1).unwrap();
    let (bytes, code) = read(&mut client, path).await;
    assert_eq!((bytes.len(), code), (16 << 20, Code::OutOfRange));
}

#[tokio::test]
async fn osd_connects_again_when_the_container_is_back() {
    let mut inspect = Inspect::start();
    fs::write(inspect.log("kubelet.log"), "one\n").unwrap();
    let (_osd, mut client) = inspect.client().await;
    assert!(client.list_logs(ListLogsRequest {}).await.is_ok());
    inspect.child.kill().unwrap();
    inspect.child.wait().unwrap();
    let away = client.list_logs(ListLogsRequest {}).await;
    assert_eq!(code(away), Code::Unavailable);
    inspect.child = Inspect::spawn(inspect.folder.path());
    channel(Path::new(&inspect.socket())).await;
    assert!(client.list_logs(ListLogsRequest {}).await.is_ok());
}

#[tokio::test]
async fn an_osd_without_a_node_inspects_nothing() {
    let osd = Osd::start_with(&[]);
    let mut client = InspectClient::new(osd.channel().await);
    assert_eq!(code(client.list_logs(ListLogsRequest {}).await), Code::Unimplemented);
}
