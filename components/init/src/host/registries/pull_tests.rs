//! Debian's registry with a user, and its `containerd`, which reads what `init` has written. They
//! need root.

use super::tests::{credential, on_a_node};

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use osbuild_abi::paths::REGISTRIES;
use osbuild_ranks::Source;
use sha2::{Digest, Sha256};

/// The user `team` with the password `correct horse` (bcrypt).
const HTPASSWD: &str = "team:$2b$04$KSOmvBeMn.p06SG7dTyxsuUdEQEYLRcSzCflN13EdLrLPq6L8BzPy\n";
const LOGIN: &str = "team:correct horse";
/// The passwords of a node with the right one, and with a wrong one.
const RIGHT: &str = "Y29ycmVjdCBob3JzZQ==";
const WRONG: &str = "d3Jvbmc=";

/// How often to look whether a program serves, and the pause in between.
const ATTEMPTS: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

/// A program that ends with the test.
struct Daemon(Child);

impl Daemon {
    fn start(command: &mut Command, serves: impl Fn() -> bool) -> Daemon {
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let daemon = Daemon(started.expect("the oracles are installed"));
        for _ in 0..ATTEMPTS {
            if serves() {
                return daemon;
            }
            sleep(PAUSE);
        }
        panic!("{command:?} does not serve");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn registry(folder: &Path, port: u16) -> Daemon {
    let path = |name: &str| folder.join(name).display().to_string();
    let text = format!(
        "version: 0.1\nhttp: {{addr: \"127.0.0.1:{port}\"}}\n\
         storage: {{filesystem: {{rootdirectory: {}}}}}\n\
         auth: {{htpasswd: {{realm: registry, path: {}}}}}\n",
        path("data"),
        path("htpasswd")
    );
    fs::write(folder.join("registry.yml"), text).unwrap();
    fs::write(folder.join("htpasswd"), HTPASSWD).unwrap();
    let mut command = Command::new("docker-registry");
    command.arg("serve").arg(folder.join("registry.yml"));
    Daemon::start(&mut command, || TcpStream::connect(("127.0.0.1", port)).is_ok())
}

fn containerd(folder: &Path) -> Daemon {
    let path = |name: &str| folder.join(name).display().to_string();
    let text = format!("version = 2\nroot = {:?}\nstate = {:?}\n", path("root"), path("state"));
    fs::write(folder.join("containerd.toml"), text).unwrap();
    let mut command = Command::new("containerd");
    command.arg("--config").arg(folder.join("containerd.toml"));
    command.arg("--address").arg(folder.join("socket"));
    Daemon::start(&mut command, || ctr(folder, &["version"]).is_ok())
}

/// Runs `ctr`. Fails with what it has printed.
fn ctr(folder: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("ctr");
    command.arg("--address").arg(folder.join("socket")).args(arguments);
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then_some(()).ok_or(printed)
}

/// Pushes an image without layers.
fn push(folder: &Path, image: &str) {
    let layout = folder.join("layout");
    fs::create_dir_all(layout.join("blobs/sha256")).unwrap();
    let blob = |media_type: &str, text: String| {
        let digits: String =
            Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(layout.join("blobs/sha256").join(&digits), &text).unwrap();
        let media_type = format!("application/vnd.oci.image.{media_type}");
        let digest = format!("sha256:{digits}");
        serde_json::json!({ "mediaType": media_type, "digest": digest, "size": text.len() })
    };
    let rootfs = serde_json::json!({ "type": "layers", "diff_ids": [] });
    let config = serde_json::json!({ "architecture": "amd64", "os": "linux", "rootfs": rootfs });
    let config = blob("config.v1+json", config.to_string());
    let manifest = serde_json::json!({ "schemaVersion": 2, "config": config, "layers": [] });
    let manifest = blob("manifest.v1+json", manifest.to_string());
    let index = serde_json::json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(layout.join("index.json"), index.to_string()).unwrap();
    fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
    let mut skopeo = Command::new("skopeo");
    skopeo.args(["copy", "--quiet", "--dest-tls-verify=false", "--dest-creds", LOGIN]);
    skopeo.arg(format!("oci:{}", layout.display())).arg(format!("docker://{image}"));
    let output = skopeo.output().expect("skopeo is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The folder with a copy of what `init` has written for the registry. Debian's containerd, of the
/// series 1.6, reads no file without a table of hosts, so the copy has an empty one.
fn hosts(folder: &Path, registry: &str) -> String {
    let copies = folder.join("hosts");
    fs::create_dir_all(copies.join(registry)).unwrap();
    if let Ok(text) = fs::read_to_string(format!("{REGISTRIES}/{registry}/hosts.toml")) {
        fs::write(copies.join(registry).join("hosts.toml"), text + "[host]\n").unwrap();
    }
    copies.display().to_string()
}

#[test]
fn containerd_pulls_with_the_credentials_of_a_setting_and_not_without() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let image = format!("127.0.0.1:{port}/team/image:1");
    on_a_node(|registries| {
        let (_registry, _containerd) = (registry(folder, port), containerd(folder));
        push(folder, &image);
        let pull = || {
            let hosts = hosts(folder, &format!("127.0.0.1:{port}"));
            ctr(folder, &["content", "fetch", "--hosts-dir", &hosts, &image])
        };
        let refused = pull().unwrap_err();
        assert!(refused.contains("401 Unauthorized"), "{refused}");
        let with = |password: &str| {
            credential(&format!("127.0.0.1:{port} user=team password={password} plain-http"))
        };
        registries.apply_credential(Source::Api, &with(RIGHT)).unwrap();
        pull().unwrap();
        registries.apply_credential(Source::Api, &with(WRONG)).unwrap();
        let refused = pull().unwrap_err();
        assert!(refused.contains("401 Unauthorized"), "{refused}");
    });
}
