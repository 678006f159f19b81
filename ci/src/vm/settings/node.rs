//! The node of the check: grpcurl speaks with its pod `osd`, and the probe reads and changes its
//! files behind `init`'s back.

use crate::site::Site;
use crate::vm::probe;
use osbuild::error::{Context, Error, Result};
use osbuild_abi::paths::HOST_SOCKET;
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a change may take to have its effect, on an emulated processor.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// The folder and file with the messages of the CRI that checks send.
const CRI: &str = "ci/src/vm/settings";
const CRI_FILE: &str = "cri.proto";
/// The pause before something is read again.
const PAUSE: Duration = Duration::from_millis(20);

/// The node, through the ports of this host that lead to it.
pub struct Node<'a> {
    pub site: &'a Site<'a>,
    pub grpcurl: PathBuf,
    pub osd: u16,
    pub files: u16,
    pub plugin: u16,
    pub signals: u16,
    pub sockets: u16,
    pub tables: u16,
    pub swaps: u16,
    pub runtime: u16,
    pub containerd: u16,
    pub facts: u16,
    pub places: u16,
    pub logs: u16,
    pub forwarded: u16,
    pub stranger: u16,
}

impl Node<'_> {
    /// Creates a resource with this spec in YAML.
    pub fn create(&self, type_name: &str, id: &str, spec: &str) -> Result<()> {
        self.call("Create", &resource(type_name, id, "undefined", spec)).map(drop)
    }

    /// Changes the spec of a resource that has this version.
    pub fn update(&self, type_name: &str, id: &str, version: &str, spec: &str) -> Result<()> {
        let mut request = resource(type_name, id, version, spec);
        let new = request["resource"].take();
        self.call("Update", &json!({ "newResource": new })).map(drop)
    }

    /// Tears a resource down, and destroys it.
    pub fn destroy(&self, type_name: &str, id: &str) -> Result<()> {
        self.call("TeardownAndDestroy", &name(type_name, id)).map(drop)
    }

    /// The same, as soon as `osd` takes changes: it refuses them until it has noted that `init` has
    /// taken some back.
    pub fn destroy_soon(&self, type_name: &str, id: &str) -> Result<()> {
        let began = Instant::now();
        loop {
            match self.destroy(type_name, id) {
                Err(_) if began.elapsed() < TIMEOUT => sleep(10 * PAUSE),
                outcome => return outcome,
            }
        }
    }

    /// The resource with this identifier, as soon as `osd` has it.
    pub fn resource(&self, type_name: &str, id: &str) -> Result<Value> {
        self.resource_with(type_name, id, |_| true)
    }

    /// The same, as soon as it `holds`; as it is if it does not in time.
    pub fn resource_with(
        &self,
        type_name: &str,
        id: &str,
        holds: impl Fn(&str) -> bool,
    ) -> Result<Value> {
        let began = Instant::now();
        loop {
            let is_late = began.elapsed() > TIMEOUT;
            match self.call("Get", &name(type_name, id)) {
                Err(error) if is_late => return Err(error),
                Err(_) => {}
                Ok(mut found) => {
                    let found = found["resource"].take();
                    if is_late || holds(yaml(&found)) {
                        return Ok(found);
                    }
                }
            }
            sleep(10 * PAUSE);
        }
    }

    /// The resources of a type.
    pub fn resources(&self, type_name: &str) -> Result<Vec<Value>> {
        let kind = json!({ "namespace": "system", "type": format!("{type_name}.osbuild") });
        let output = self.print(self.osd, "cosi.resource.State/List", &kind)?;
        let found: serde_json::Result<Vec<Value>> =
            serde_json::Deserializer::from_str(&output).into_iter().collect();
        let found = found.map_err(|_| no_json(&output))?;
        Ok(found.into_iter().map(|mut one| one["resource"].take()).collect())
    }

    /// Whether there is no resource with this identifier, soon.
    pub fn is_gone(&self, type_name: &str, id: &str) -> Result<bool> {
        let began = Instant::now();
        while self.call("Get", &name(type_name, id)).is_ok() {
            if began.elapsed() > TIMEOUT {
                return Ok(false);
            }
            sleep(10 * PAUSE);
        }
        Ok(true)
    }

    /// Calls a method of `Configuration`, and returns its answer.
    pub fn configure(&self, method: &str, request: &Value) -> Result<Value> {
        self.request(self.osd, &format!("osbuild.v1.Configuration/{method}"), request)
    }

    /// Calls a method of `State`, and returns its answer.
    fn call(&self, method: &str, request: &Value) -> Result<Value> {
        self.request(self.osd, &format!("cosi.resource.State/{method}"), request)
    }

    /// Calls a method of the services for the plugin, and returns its answer.
    pub fn call_plugin(&self, method: &str, request: &Value) -> Result<Value> {
        self.request(self.plugin, method, request)
    }

    fn request(&self, port: u16, method: &str, request: &Value) -> Result<Value> {
        let output = self.print(port, method, request)?;
        serde_json::from_str(&output).map_err(|_| no_json(&output))
    }

    /// Calls a method, and returns its answers as grpcurl prints them.
    fn print(&self, port: u16, method: &str, request: &Value) -> Result<String> {
        let mut command = Command::new(&self.grpcurl);
        command.args(["-plaintext", "-d", &request.to_string()]);
        command.arg(format!("127.0.0.1:{port}")).arg(method);
        Ok(self.site.finish("settings-grpcurl", &mut command)?.output)
    }

    /// Calls a method of the kubelet's interface to containerd (CRI) that takes the name of an
    /// image, and returns its answer.
    pub fn ask_containerd(&self, method: &str, image: &str) -> Result<Value> {
        let mut command = Command::new(&self.grpcurl);
        command.arg("-plaintext").arg("-import-path").arg(self.site.project().join(CRI));
        command.args([
            "-proto",
            CRI_FILE,
            "-d",
            &json!({ "image": { "image": image } }).to_string(),
        ]);
        command.arg(format!("127.0.0.1:{}", self.containerd));
        command.arg(format!("runtime.v1.ImageService/{method}"));
        let output = self.site.finish("settings-containerd", &mut command)?.output;
        serde_json::from_str(&output).map_err(|_| no_json(&output))
    }

    /// Sends a line to `init`'s socket `host`, and returns the reply.
    pub fn ask_init(&self, line: &str) -> Result<String> {
        probe::ask_init(self.sockets, HOST_SOCKET, &line)
    }

    /// Sends a signal to `osd`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        self.signal_to("osd", signal)
    }

    /// Sends a signal to a program of a pod.
    pub fn signal_to(&self, program: &str, signal: &str) -> Result<()> {
        probe::command(self.signals, |stream| write!(stream, "{program} {signal}"))
    }

    /// The text of a file.
    pub fn read(&self, path: &str) -> Result<String> {
        probe::request(self.files, |stream| write!(stream, "{path}"))
    }

    /// Overwrites a file behind `init`'s back. The text is not empty.
    ///
    /// # Errors
    /// The node does not let it be written.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let reply = probe::request(self.files, |stream| write!(stream, "{path} {text}"))?;
        match reply.strip_prefix(probe::ERROR) {
            None => Ok(()),
            Some(why) => Err(Error::build(format!("cannot write `{path}` on the node")).cause(why)),
        }
    }

    /// Makes a file with this mode, and the folders that it lacks.
    pub fn place(&self, path: &str, mode: u32, content: impl AsRef<[u8]>) -> Result<()> {
        let content = content.as_ref();
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        let archive = archive
            .append_data(&mut header, path.trim_start_matches('/'), content)
            .and_then(|()| archive.into_inner())
            .or_build(|| format!("cannot pack `{path}`"))?;
        probe::command(self.places, |stream| stream.write_all(&archive))
    }

    /// Waits until a file has this text. Returns how long it took, unless that was too long.
    pub fn becomes(&self, path: &str, text: &str) -> Result<Option<Duration>> {
        self.becomes_such(path, |found| found == text)
    }

    /// The same for a text that `holds`.
    pub fn becomes_such(
        &self,
        path: &str,
        holds: impl Fn(&str) -> bool,
    ) -> Result<Option<Duration>> {
        let began = Instant::now();
        while !holds(&self.read(path)?) {
            if began.elapsed() > TIMEOUT {
                return Ok(None);
            }
            sleep(PAUSE);
        }
        Ok(Some(began.elapsed()))
    }
}

/// The text with single spaces: YAML has a long text in several lines.
pub fn words(yaml: &str) -> String {
    yaml.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn no_json(output: &str) -> Error {
    Error::build("grpcurl has printed no JSON").cause(output)
}

/// The YAML of a resource's spec.
pub fn yaml(resource: &Value) -> &str {
    resource["spec"]["yamlSpec"].as_str().unwrap_or_default()
}

/// A resource of this version with this spec in YAML, as requests have it.
pub fn resource(type_name: &str, id: &str, version: &str, spec: &str) -> Value {
    let mut metadata = name(type_name, id);
    metadata["version"] = json!(version);
    metadata["phase"] = json!("running");
    json!({ "resource": { "metadata": metadata, "spec": { "yamlSpec": spec } } })
}

/// The name of a resource, as every request has it.
pub fn name(type_name: &str, id: &str) -> Value {
    json!({ "namespace": "system", "type": format!("{type_name}.osbuild"), "id": id })
}
