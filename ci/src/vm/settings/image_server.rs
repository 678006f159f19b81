//! A server of one image, as far as containerd asks for it at a pull (the specification of
//! distribution, 1.1, "Pull"). It has the image under a second path, too, for which it wants a user
//! and a password.

use crate::vm::machine::HOST;
use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Result};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The path of the image, and its tag.
const PATH: &str = "tools";
const PRIVATE_PATH: &str = "private/tools";
const TAG: &str = "1";
/// The media types of its parts (the image specification of OCI, 1.1).
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// An archive without files: two blocks of zeros.
const EMPTY_ARCHIVE: [u8; 1024] = [0; 1024];

/// The user and the password of the private path.
pub const USER: &str = "node";
pub const PASSWORD: &str = "from-a-provider";

/// The server. It listens on the loopback until the program ends.
pub struct ImageServer {
    port: u16,
    manifest: Digest,
    /// Whether a request had the user and the password.
    was_authorized: Arc<AtomicBool>,
}

impl ImageServer {
    /// Starts it.
    pub fn start() -> Result<Self> {
        let cannot = || "cannot serve an image".to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_build(cannot)?;
        let port = listener.local_addr().or_build(cannot)?.port();
        let parts = parts();
        let manifest = Digest::of(&parts[0].1);
        let was_authorized = Arc::<AtomicBool>::default();
        let is_authorized = was_authorized.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // containerd asks again, and the check sees what it lacks.
                let _ = serve(&stream, &parts, &is_authorized);
            }
        });
        Ok(ImageServer { port, manifest, was_authorized })
    }

    /// The host of the image, as the node has it.
    pub fn registry(&self) -> String {
        format!("{HOST}:{}", self.port)
    }

    /// The full name of the image.
    pub fn image(&self) -> String {
        format!("{}/{PATH}:{TAG}", self.registry())
    }

    /// The full name of the image under the private path.
    pub fn private_image(&self) -> String {
        format!("{}/{PRIVATE_PATH}:{TAG}", self.registry())
    }

    /// Whether a client has asked for that with the user and the password.
    pub fn was_authorized(&self) -> bool {
        self.was_authorized.load(Ordering::Relaxed)
    }

    /// The digest of its manifest.
    pub fn digest(&self) -> String {
        format!("sha256:{}", self.manifest.hex())
    }
}

/// The manifest, the configuration and the only layer, with their media types.
fn parts() -> [(&'static str, Vec<u8>); 3] {
    let layer = EMPTY_ARCHIVE.to_vec();
    let config = json!({
        "architecture": "amd64",
        "os": "linux",
        "rootfs": { "type": "layers", "diff_ids": [name(&layer)] },
    });
    let config = config.to_string().into_bytes();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(CONFIG, &config),
        "layers": [descriptor(LAYER, &layer)],
    });
    [(MANIFEST, manifest.to_string().into_bytes()), (CONFIG, config), (LAYER, layer)]
}

/// The entry of a part in the manifest.
fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    let (digest, size) = (name(bytes), bytes.len());
    json!({ "mediaType": media_type, "digest": digest, "size": size })
}

fn name(bytes: &[u8]) -> String {
    format!("sha256:{}", Digest::of(bytes).hex())
}

/// Answers one request.
fn serve(
    stream: &TcpStream,
    parts: &[(&str, Vec<u8>)],
    was_authorized: &AtomicBool,
) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let head: Vec<String> =
        lines.map_while(std::result::Result::ok).take_while(|one| !one.is_empty()).collect();
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let reference = path.rsplit('/').next().unwrap_or_default();
    let reference = reference.split('?').next().unwrap_or_default();
    let mut stream = stream;
    if path.starts_with(&format!("/v2/{PRIVATE_PATH}/")) {
        let basic = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
        let value = head.iter().filter_map(|line| line.split_once(": "));
        let mut value = value.filter(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        if value.next().is_none_or(|(_, value)| value != basic) {
            let end = "Content-Length: 0\r\nConnection: close\r\n\r\n";
            let wants = "WWW-Authenticate: Basic realm=\"private\"\r\n";
            return write!(stream, "HTTP/1.1 401 Unauthorized\r\n{wants}{end}");
        }
        was_authorized.store(true, Ordering::Relaxed);
    }
    let tags = [PATH, PRIVATE_PATH].map(|one| format!("/v2/{one}/manifests/{TAG}"));
    let is_tag = tags.iter().any(|tag| path.starts_with(tag));
    let found = match is_tag {
        true => parts.first(),
        false => parts.iter().find(|(_, bytes)| name(bytes) == reference),
    };
    let Some((media_type, bytes)) = found else {
        let end = "Content-Length: 0\r\nConnection: close\r\n\r\n";
        return write!(stream, "HTTP/1.1 404 Not Found\r\n{end}");
    };
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\
         Docker-Content-Digest: {}\r\nConnection: close\r\n\r\n",
        bytes.len(),
        name(bytes)
    )?;
    if method == "GET" { stream.write_all(bytes) } else { Ok(()) }
}
