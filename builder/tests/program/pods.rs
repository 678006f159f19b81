//! A user's own pod, whose image is an archive in the project.

use crate::builds::done;
use crate::scratch::{RECIPE, Scratch};
use crate::workshop::{open, open_with};
use osbuild::engine::digest::Digest;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Read, repeat};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tar::{Builder, Header};

/// A layer without the pods' images, so that the size of the image does not depend on the archive.
const SMALL_LAYER: &str = "layer() { cat modes >layer.erofs; }\n";

/// Adds a blob to an archive, and returns its descriptor.
fn blob(
    tar: &mut Builder<File>,
    media_type: &str,
    size: u64,
    bytes: impl Fn() -> Box<dyn Read>,
) -> Value {
    let digest = Digest::of_reader(bytes()).unwrap();
    assert_eq!(digest.size(), size);
    file(tar, &format!("blobs/sha256/{digest}"), size, bytes());
    json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": size })
}

fn file(tar: &mut Builder<File>, path: &str, size: u64, bytes: impl Read) {
    let mut header = Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    tar.append_data(&mut header, path, bytes).unwrap();
}

/// Writes an OCI archive for arm64 with a layer of this many bytes.
fn archive(path: &Path, layer: u64) {
    let mut tar = Builder::new(File::create(path).unwrap());
    let text = |value: &Value| {
        let text = value.to_string().into_bytes();
        (text.len() as u64, move || Box::new(std::io::Cursor::new(text.clone())) as Box<dyn Read>)
    };
    let layer = blob(&mut tar, "application/vnd.oci.image.layer.v1.tar", layer, || {
        Box::new(repeat(7).take(layer))
    });
    let (size, config) = text(&json!({ "architecture": "arm64", "os": "linux" }));
    let config = blob(&mut tar, "application/vnd.oci.image.config.v1+json", size, config);
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let (size, manifest) = text(
        &json!({ "schemaVersion": 2, "mediaType": kind, "config": config, "layers": [layer] }),
    );
    let manifest = blob(&mut tar, kind, size, manifest);
    let (size, index) = text(&json!({ "schemaVersion": 2, "manifests": [manifest] }));
    file(&mut tar, "index.json", size, index());
    tar.finish().unwrap();
}

/// Adds the pod `hello` to the project, with an archive that has a layer of this many MiB. Returns
/// the archive's digest.
pub fn with_archive(scratch: &Scratch, mib: u64) -> Digest {
    let path = scratch.project().join("recipes/hello.tar");
    archive(&path, mib << 20);
    let digest = Digest::of_file(&path).unwrap();
    let pod = format!(
        "[pods.hello]\nmanifest = \"hello.yaml\"\nimage = \"hello.tar\"\ndigest = \
         \"sha256:{digest}\"\n\n[files]"
    );
    scratch.edit("recipes/small.toml", "[files]", &pod);
    digest
}

/// Builds, and returns the peak memory use of the program in bytes, without its steps, which are
/// separate processes. wait4(2) would also count the memory of this process before exec.
fn built(scratch: &Scratch) -> u64 {
    let log = scratch.path("log");
    let mut command = scratch.command(&[], &["build", RECIPE]);
    let mut child =
        command.stdout(Stdio::null()).stderr(File::create(&log).unwrap()).spawn().unwrap();
    let (status, mut peak) = (format!("/proc/{}/status", child.id()), 0);
    let ended = loop {
        let about = fs::read_to_string(&status).unwrap_or_default();
        let peak_kib = about.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
        });
        peak = peak.max(peak_kib.unwrap_or(0) * 1024);
        match child.try_wait().unwrap() {
            Some(ended) => break ended,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    assert!(ended.success() && peak > 0, "{}", fs::read_to_string(log).unwrap());
    peak
}

#[test]
fn memory_use_is_independent_of_the_size_of_a_pods_archive() {
    for mib in [2, 300] {
        let scratch = open_with(SMALL_LAYER);
        let digest = with_archive(&scratch, mib);
        let memory = built(&scratch);
        assert!(memory < 128 << 20, "{mib} MiB took {} MiB", memory >> 20);
        let plan = scratch.osbuild(&["plan", RECIPE]);
        done(&plan);
        assert!(plan.stdout.contains(&digest.hex()), "{}", plan.stdout);
    }
}

#[test]
fn memory_use_of_a_build_is_independent_of_the_size_of_pods() {
    let [small, large] = [1, 200].map(|mib| {
        let scratch = open();
        scratch.edit("boards/bench.toml", "slot-size-mib = 16", "slot-size-mib = 256");
        done(&scratch.osbuild(&["keys", "new", "mine"]));
        scratch.edit(
            "recipes/small.toml",
            "[kubernetes]",
            "[signing]\nkey = \"mine\"\n\n[kubernetes]",
        );
        with_archive(&scratch, mib);
        let memory = built(&scratch);
        let uki = fs::metadata(scratch.project().join("out/small/node.efi")).unwrap().len();
        assert!(uki > mib << 20, "the pod is in the UKI");
        memory
    });
    assert!(
        large < small + (32 << 20),
        "{} MiB for 1 MiB of pods, {} MiB for 200 MiB",
        small >> 20,
        large >> 20
    );
}
