//! `init images` against Debian's containerd, in a mount namespace of its own. `ctr` makes the
//! state that a node has met, and checks the result. It needs root.

use std::fs;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

/// Starts containerd at the paths of a node, with the image layout `$1`, a configuration `$2`, the
/// layer's snapshot `$3` and `init` `$4`.
const START: &str = r#"
mount -t tmpfs none /run
mount -t tmpfs none /usr/share
mkdir -p /run/containerd /usr/share/osbuild/images
mount --bind "$1" /usr/share/osbuild/images
containerd --config "$2" &
containerd=$!
trap 'kill $containerd; wait $containerd' EXIT
ctr() { command ctr --namespace k8s.io "$@"; }
fails() { if "$@"; then exit 1; fi; }
tries=0
until ctr version > /dev/null; do tries=$((tries + 1)); test $tries -lt 100; sleep 0.1; done
"#;

/// A container is made on top of the image and never finished, and containerd collects its
/// snapshot: then it refuses to remove the image's, because of a child that it does not list.
const NEVER_FINISHED: &str = r#"
ctr snapshots prepare unpacking ""
ctr snapshots commit "$3" unpacking
ctr snapshots label "$3" containerd.io/gc.root=held
ctr snapshots prepare container "$3"
ctr snapshots label container containerd.io/gc.root=
ctr leases create --id collects
ctr leases delete --sync collects
ctr snapshots label "$3" containerd.io/gc.root=
fails ctr snapshots info container
fails ctr snapshots remove "$3"
ctr snapshots info "$3"
"#;

/// The images exist, and no snapshot from before.
const LOADS: &str = r#"
"$4" images
fails ctr snapshots info "$3"
test "$(ctr images ls --quiet)" = localhost/test:1
"#;

#[test]
fn images_are_loaded_if_containerd_refuses_to_remove_a_snapshot() {
    runs(&[NEVER_FINISHED, LOADS]);
}

#[test]
fn images_are_loaded_again_and_again() {
    runs(&[LOADS, LOADS]);
}

/// Runs these parts of a script, in which no command may fail.
fn runs(parts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let snapshot = layout(&folder.path().join("layout"));
    let configuration =
        format!("version = 2\nroot = {:?}\nstate = \"/run/containerd/state\"\n", path("root"));
    fs::write(path("config.toml"), configuration).unwrap();
    let script = [&["set -eux", START], parts].concat().join("\n");
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
    shell.args([
        path("layout"),
        path("config.toml"),
        snapshot,
        env!("CARGO_BIN_EXE_init").to_owned(),
    ]);
    let ran = shell.output().expect("`unshare` of util-linux has to be installed");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// Makes a layout with an image of one layer, and returns the name of the layer's snapshot.
fn layout(folder: &Path) -> String {
    fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
    let blob = |media_type: &str, bytes: &[u8]| {
        let digits: String =
            Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(folder.join("blobs/sha256").join(&digits), bytes).unwrap();
        let media_type = format!("application/vnd.oci.image.{media_type}");
        let digest = format!("sha256:{digits}");
        serde_json::json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    };
    // An empty tar archive.
    let layer = blob("layer.v1.tar", &[0; 1024]);
    let snapshot = layer["digest"].as_str().unwrap().to_owned();
    let rootfs = serde_json::json!({ "type": "layers", "diff_ids": [snapshot] });
    let config = serde_json::json!({ "architecture": "amd64", "os": "linux", "rootfs": rootfs });
    let config = blob("config.v1+json", config.to_string().as_bytes());
    let manifest = serde_json::json!({ "schemaVersion": 2, "config": config, "layers": [layer] });
    let mut manifest = blob("manifest.v1+json", manifest.to_string().as_bytes());
    manifest["annotations"] = serde_json::json!({ "io.containerd.image.name": "localhost/test:1" });
    let index = serde_json::json!({ "schemaVersion": 2, "manifests": [manifest] });
    fs::write(folder.join("index.json"), index.to_string()).unwrap();
    snapshot
}
