//! A Go module proxy on the loopback, for the real `go`: <https://go.dev/ref/mod#goproxy-protocol>.

use crate::http::Server;
use crate::scratch::Scratch;
use std::io::{Cursor, Write};
use std::process::Command;
use zip::write::SimpleFileOptions;

/// The proxy. It serves until the test ends.
pub struct GoProxy {
    server: Server,
}

impl GoProxy {
    /// Starts serving.
    pub fn start() -> Self {
        GoProxy { server: Server::start() }
    }

    /// Makes a project's builds use this proxy, and this machine's Go toolchain.
    pub fn serve(&self, scratch: &mut Scratch) {
        scratch.set("PATH", std::env::var("PATH").unwrap());
        scratch.set("GOPROXY", self.server.address());
        scratch.set("GOSUMDB", "off");
        let version = Command::new("go")
            .args(["env", "GOVERSION"])
            .env("GOTOOLCHAIN", "local")
            .output()
            .expect("go is installed");
        let version = String::from_utf8(version.stdout).unwrap();
        scratch.edit(
            "recipes/base.toml",
            "go = \"1.26.8\"",
            &format!("go = \"{}\"", version.trim().trim_start_matches("go")),
        );
        scratch.relock();
    }

    /// Serves a version of a module with a go.mod and these files.
    pub fn add(&self, module: &str, version: &str, requires: &str, files: &[(&str, &str)]) {
        let go_mod = format!("module {module}\n\ngo 1.24\n{requires}");
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in [("go.mod", go_mod.as_str())].iter().chain(files) {
            zip.start_file(format!("{module}@{version}/{name}"), SimpleFileOptions::default())
                .unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        let info = format!("{{\"Version\": \"{version}\", \"Time\": \"2026-10-27T12:00:00Z\"}}");
        self.list(module, version);
        self.put(module, &format!("{version}.info"), 200, info.as_bytes());
        self.put(module, &format!("{version}.mod"), 200, go_mod.as_bytes());
        self.put(module, &format!("{version}.zip"), 200, &zip.finish().unwrap().into_inner());
    }

    /// Lists a version, whether or not it is served.
    pub fn list(&self, module: &str, version: &str) {
        self.server.append(path(module, "list"), &format!("{version}\n"));
    }

    /// Refuses all files of a version, which stays in the list.
    pub fn refuse(&self, module: &str, version: &str, status: u16) {
        for file in ["info", "mod", "zip"] {
            self.refuse_file(module, &format!("{version}.{file}"), status);
        }
    }

    /// Refuses one file of a version.
    pub fn refuse_file(&self, module: &str, file: &str, status: u16) {
        self.put(module, file, status, b"no");
    }

    /// Removes the list of a module.
    pub fn forget_list(&self, module: &str) {
        self.server.remove(&path(module, "list"));
    }

    /// Truncates a file of a version in the middle: in transit, or at the proxy itself.
    pub fn cut(&self, module: &str, file: &str, in_transit: bool) {
        self.server.cut(&path(module, file), in_transit);
    }

    fn put(&self, module: &str, file: &str, status: u16, body: &[u8]) {
        self.server.put(path(module, file), status, body);
    }
}

fn path(module: &str, file: &str) -> String {
    format!("/{module}/@v/{file}")
}
