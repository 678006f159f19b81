//! The image that the VMs boot, published as an AMI in moto and read back by boto3.

use crate::check::Outcome;
use crate::child::tied;
use crate::image::{RECIPE, image_of};
use crate::site::Site;
use osbuild::engine::digest::Hasher;
use osbuild::error::{Context, Error, Result};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Rebuilds the disk from a snapshot, and prints its SHA-256 and the names of the images.
const SCRIPT: &str = include_str!("../../builder/tests/program/boto3_reads.py");

const REGION: &str = "eu-central-1";

/// How long moto may take to accept connections.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Size of the image's EBS volume.
const VOLUME: u64 = 1 << 30;

/// moto on the loopback. Dropping it ends the server.
struct Moto {
    server: Child,
    address: String,
}

impl Moto {
    fn start() -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .or_build(|| "no port is free".into())?
            .port();
        let mut server = tied("moto_server");
        server.args(["-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
        let server = server.spawn().or_build(|| "cannot start `moto_server`".into())?;
        let moto = Moto { server, address: format!("http://127.0.0.1:{port}") };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if began.elapsed() > TIMEOUT {
                return Err(Error::build("`moto_server` does not answer"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(moto)
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// boto3 finds one image whose snapshot equals the built disk byte for byte.
pub fn boto3_reads_the_disk_that_was_published(site: &Site) -> Result<Outcome> {
    let moto = Moto::start()?;
    let mut publish = site.osbuild()?;
    publish.args(["publish", "aws", RECIPE, "--region", REGION, "--allow-dev-key"]);
    publish
        .env("AWS_ENDPOINT_URL", &moto.address)
        .env("AWS_ACCESS_KEY_ID", "ci")
        .env("AWS_SECRET_ACCESS_KEY", "ci");
    site.finish("publish", &mut publish)?;
    let ran = site.finish(
        "published",
        Command::new("python3").args(["-c", SCRIPT, &moto.address, REGION, RECIPE]),
    )?;
    let output = ran.output.lines().last().unwrap_or_default();
    let found: Value =
        serde_json::from_str(output).map_err(|_| ran.failure("boto3 has printed no result"))?;
    let disk = volume(&image_of(&site.project(), RECIPE))?;
    let mut outcome =
        Outcome { summary: format!("disk sha256:{}…", &disk[..12]), ..Outcome::default() };
    outcome.check("the snapshot is the disk that was built", found["disk"] == disk, || {
        format!("boto3 reads sha256:{}, the built disk is sha256:{disk}", found["disk"])
    });
    let images = found["images"].as_array().map_or(0, Vec::len);
    outcome.check("one image is made of it", images == 1, || format!("there are {images}"));
    Ok(outcome)
}

/// The SHA-256 of the image, padded with zeros to the volume's size.
fn volume(image: &Path) -> Result<String> {
    let cannot = || format!("cannot read `{}`", image.display());
    let mut disk = File::open(image).or_build(cannot)?.chain(io::repeat(0)).take(VOLUME);
    let mut hasher = Hasher::new(io::sink());
    io::copy(&mut disk, &mut hasher).and_then(|_| hasher.flush()).or_build(cannot)?;
    Ok(hasher.digest().hex())
}
