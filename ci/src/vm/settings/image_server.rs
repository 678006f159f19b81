//! A server of one image, as far as containerd asks for it at a pull (the specification of
//! distribution, 1.1, "Pull").

use crate::vm::machine::HOST;
use osbuild::engine::digest::Digest;
use osbuild::error::{Context, Result};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

/// The path of the image, and its tag.
const PATH: &str = "tools";
const TAG: &str = "1";
/// The media types of its parts (the image specification of OCI, 1.1).
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
/// An archive without files: two blocks of zeros.
const EMPTY_ARCHIVE: [u8; 1024] = [0; 1024];

/// The server. It listens on the loopback until the program ends.
pub struct ImageServer {
    port: u16,
    manifest: Digest,
}

impl ImageServer {
    /// Starts it.
    pub fn start() -> Result<Self> {
        let cannot = || "cannot serve an image".to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).or_build(cannot)?;
        let port = listener.local_addr().or_build(cannot)?.port();
        let parts = parts();
        let manifest = Digest::of(&parts[0].1);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // containerd asks again, and the check sees what it lacks.
                let _ = serve(&stream, &parts);
            }
        });
        Ok(ImageServer { port, manifest })
    }

    /// The host of the image, as the node has it.
    pub fn registry(&self) -> String {
        format!("{HOST}:{}", self.port)
    }

    /// The full name of the image.
    pub fn image(&self) -> String {
        format!("{}/{PATH}:{TAG}", self.registry())
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
fn serve(stream: &TcpStream, parts: &[(&str, Vec<u8>)]) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    // The rest of the head.
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let reference = path.rsplit('/').next().unwrap_or_default();
    let reference = reference.split('?').next().unwrap_or_default();
    let is_tag = path.starts_with(&format!("/v2/{PATH}/manifests/{TAG}"));
    let found = match is_tag {
        true => parts.first(),
        false => parts.iter().find(|(_, bytes)| name(bytes) == reference),
    };
    let mut stream = stream;
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
