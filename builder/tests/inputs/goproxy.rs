//! A Go module proxy on the loopback, for the real `go`: <https://go.dev/ref/mod#goproxy-protocol>.

use crate::scratch::Scratch;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use zip::write::SimpleFileOptions;

/// What the proxy answers, by path: a status and a body. All else is 404.
type Answers = Arc<Mutex<BTreeMap<String, (u16, Vec<u8>)>>>;

/// The proxy. It serves until the test ends.
pub struct GoProxy {
    answers: Answers,
    address: String,
}

impl GoProxy {
    /// Begins to serve.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answers = Answers::default();
        let served = answers.clone();
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(stream, &served)));
        GoProxy { answers, address }
    }

    /// Makes it the proxy of a project's builds, whose Go toolchain becomes the one of this machine.
    pub fn serve(&self, scratch: &mut Scratch) {
        scratch.set("PATH", std::env::var("PATH").unwrap());
        scratch.set("GOPROXY", &self.address);
        scratch.set("GOSUMDB", "off");
        let version =
            Command::new("go").args(["env", "GOVERSION"]).env("GOTOOLCHAIN", "local").output().expect("go is installed");
        let version = String::from_utf8(version.stdout).unwrap();
        scratch.edit("recipes/base.toml", "go = \"1.26.8\"", &format!("go = \"{}\"", version.trim().trim_start_matches("go")));
        scratch.relock();
    }

    /// Serves a module of a version with these files besides its go.mod.
    pub fn add(&self, module: &str, version: &str, requires: &str, files: &[(&str, &str)]) {
        let go_mod = format!("module {module}\n\ngo 1.24\n{requires}");
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in [("go.mod", go_mod.as_str())].iter().chain(files) {
            zip.start_file(format!("{module}@{version}/{name}"), SimpleFileOptions::default()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        let info = format!("{{\"Version\": \"{version}\", \"Time\": \"2026-10-27T12:00:00Z\"}}");
        self.list(module, version);
        self.answer(module, &format!("{version}.info"), 200, info.as_bytes());
        self.answer(module, &format!("{version}.mod"), 200, go_mod.as_bytes());
        self.answer(module, &format!("{version}.zip"), 200, &zip.finish().unwrap().into_inner());
    }

    /// Lists a version, whether or not it is served.
    pub fn list(&self, module: &str, version: &str) {
        let mut answers = self.answers.lock().unwrap();
        let list = answers.entry(format!("/{module}/@v/list")).or_insert_with(|| (200, Vec::new()));
        list.1.extend(format!("{version}\n").into_bytes());
    }

    /// Refuses all of a version but its name in the list.
    pub fn refuse(&self, module: &str, version: &str, status: u16) {
        for file in ["info", "mod", "zip"] {
            self.refuse_file(module, &format!("{version}.{file}"), status);
        }
    }

    /// Refuses one file of a version.
    pub fn refuse_file(&self, module: &str, file: &str, status: u16) {
        self.answer(module, file, status, b"no");
    }

    /// Lists nothing of a module any more.
    pub fn forget_list(&self, module: &str) {
        self.answers.lock().unwrap().remove(&format!("/{module}/@v/list"));
    }

    fn answer(&self, module: &str, file: &str, status: u16, body: &[u8]) {
        self.answers.lock().unwrap().insert(format!("/{module}/@v/{file}"), (status, body.to_vec()));
    }
}

fn answer(mut stream: TcpStream, answers: &Answers) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    lines.find(String::is_empty);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (status, body) = answers.lock().unwrap().get(path).cloned().unwrap_or((404, b"not found".to_vec()));
    let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // A client that has gone away has its reasons.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
}
