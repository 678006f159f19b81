//! An image that is published to moto, which others wrote, is read back with boto3.

use crate::publish::{REGION, disk, project, publish, python, result};
use crate::scratch::RECIPE;
use osbuild::engine::digest::Digest;
use serde_json::{Value, json};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Rebuilds the disk from moto's snapshot with boto3, and prints its SHA-256, the images' names and
/// the snapshot's tags.
const BOTO3: &str = include_str!("boto3_reads.py");

/// A moto server, which ends with the test.
struct Moto(Child);

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn moto_has_the_disk_the_tags_and_one_image_after_two_publishes() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("http://127.0.0.1:{port}");
    let server = Command::new("moto_server")
        .args(["-p", &port.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _moto = Moto(
        server.unwrap_or_else(|error| panic!("moto_server: {error}: pip3 install moto[server]")),
    );
    let began = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "moto does not start");
        std::thread::sleep(Duration::from_millis(50));
    }
    let scratch = project(&address);
    let first = result(&publish(&scratch, &["--copy-to", "us-east-1", "--share", "111122223333"]));
    let again = result(&publish(&scratch, &["--copy-to", "us-east-1", "--share", "111122223333"]));
    assert_eq!(first["images"], again["images"]);
    let seen: Value = serde_json::from_str(&python(BOTO3, &[&address, REGION, RECIPE])).unwrap();
    let mut disk = disk(&scratch);
    disk.resize(1 << 30, 0);
    assert_eq!(seen["disk"], Digest::of(&disk).hex());
    assert_eq!(seen["images"], json!([first["name"]]));
    assert_eq!(
        (&seen["tags"]["osbuild:recipe"], &seen["tags"]["osbuild:image"]),
        (&json!(RECIPE), &first["image-sha256"])
    );
}
