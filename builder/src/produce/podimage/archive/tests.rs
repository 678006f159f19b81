use super::*;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A layout in a folder, and a store.
struct Bench {
    folder: TempDir,
    store: Store,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        fs::create_dir_all(folder.path().join("layout/blobs/sha256")).unwrap();
        fs::write(folder.path().join("layout/oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)
            .unwrap();
        Bench { folder, store }
    }

    fn layout(&self) -> PathBuf {
        self.folder.path().join("layout")
    }

    /// Writes a blob and returns its descriptor.
    fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = Digest::of(bytes).hex();
        fs::write(self.layout().join("blobs/sha256").join(&digest), bytes).unwrap();
        let digest = format!("sha256:{digest}");
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    }

    /// An image for an architecture with one layer.
    fn image(&self, architecture: &str, layer: &[u8]) -> Value {
        let mut descriptor = self.unlabelled(&config(architecture), layer);
        descriptor["platform"] = json!({ "architecture": architecture, "os": "linux" });
        descriptor
    }

    /// An image with this configuration, without a platform in the index, as `podman save` and
    /// `buildah push` write it.
    fn unlabelled(&self, config: &str, layer: &[u8]) -> Value {
        let layer = self.blob("application/vnd.oci.image.layer.v1.tar", layer);
        let config = self.blob("application/vnd.oci.image.config.v1+json", config.as_bytes());
        let (version, layers) = (2, [layer]);
        let manifest = json!({
            "schemaVersion": version, "mediaType": MANIFEST, "config": config, "layers": layers,
        });
        self.blob(MANIFEST, manifest.to_string().as_bytes())
    }

    /// Makes a layout of these images, and reads the one for amd64.
    fn amd64_of(&self, images: &[Value]) -> Result<Image> {
        let index = self.index(images);
        fs::write(self.layout().join("index.json"), &index).unwrap();
        let pin = format!("sha256:{}", Digest::of(index.as_bytes()).hex());
        self.read(&self.layout(), &pin, Architecture::Amd64)
    }

    fn index(&self, manifests: &[Value]) -> String {
        json!({ "schemaVersion": 2, "manifests": manifests }).to_string()
    }

    /// Makes a multi-architecture layout: `index.json` names an inner index, which names the
    /// images. Returns the pin and the path of the inner index.
    fn nested(&self) -> (String, PathBuf) {
        let images = [self.image("arm64", b"for arm64"), self.image("amd64", b"for amd64")];
        let inner = self.blob(INDEX, self.index(&images).as_bytes());
        let path = self
            .layout()
            .join("blobs/sha256")
            .join(inner["digest"].as_str().unwrap().trim_start_matches("sha256:"));
        let outer = self.index(&[inner]);
        fs::write(self.layout().join("index.json"), &outer).unwrap();
        (format!("sha256:{}", Digest::of(outer.as_bytes()).hex()), path)
    }

    fn read(&self, path: &Path, pin: &str, architecture: Architecture) -> Result<Image> {
        from_archive(&self.store, path, pin, architecture)
    }

    fn has(&self, image: &Image, bytes: &[u8]) -> bool {
        image.blobs.contains(&Digest::of(bytes)) && self.store.contains(&Digest::of(bytes))
    }
}

/// The configuration of an image for an architecture.
fn config(architecture: &str) -> String {
    let root = json!({ "type": "layers", "diff_ids": [] });
    json!({ "architecture": architecture, "os": "linux", "rootfs": root }).to_string()
}

#[test]
fn the_image_for_the_nodes_architecture_is_chosen() {
    let bench = Bench::new();
    let (pin, _) = bench.nested();
    for (architecture, ours, other) in [
        (Architecture::Amd64, b"for amd64", b"for arm64"),
        (Architecture::Arm64, b"for arm64", b"for amd64"),
    ] {
        let image = bench.read(&bench.layout(), &pin, architecture).unwrap();
        assert_eq!(image.blobs.len(), 3, "manifest, configuration, layer");
        assert!(bench.has(&image, ours) && !image.blobs.contains(&Digest::of(other)));
    }
}

#[test]
fn an_archive_gives_the_same_image_as_its_folder() {
    let bench = Bench::new();
    let (pin, _) = bench.nested();
    let archive = bench.folder.path().join("image.tar");
    let tar = Command::new("tar")
        .arg("-cf")
        .arg(&archive)
        .arg("-C")
        .arg(bench.layout())
        .arg(".")
        .status()
        .unwrap();
    assert!(tar.success());
    let pinned = format!("sha256:{}", Digest::of_file(&archive).unwrap().hex());
    let [one, other] = [(bench.layout(), pin), (archive, pinned)]
        .map(|(path, pin)| bench.read(&path, &pin, Architecture::Amd64).unwrap());
    assert_eq!((one.manifest, one.blobs), (other.manifest, other.blobs));
}

#[test]
fn a_digest_that_is_not_pinned_is_refused() {
    let bench = Bench::new();
    let (pin, _) = bench.nested();
    let wrong = format!("sha256:{}", "0".repeat(64));
    let error = bench.read(&bench.layout(), &wrong, Architecture::Amd64).unwrap_err().to_string();
    assert!(
        error.contains(&wrong)
            && error.contains(&format!("set `digest = \"{pin}\"` in the recipe")),
        "{error}"
    );
}

#[test]
fn a_changed_blob_is_refused_despite_a_matching_pin() {
    for blob in ["for amd64", &config("amd64")] {
        let bench = Bench::new();
        let (pin, _) = bench.nested();
        fs::write(
            bench.layout().join("blobs/sha256").join(Digest::of(blob.as_bytes()).hex()),
            "another",
        )
        .unwrap();
        let error = bench.read(&bench.layout(), &pin, Architecture::Amd64).unwrap_err().to_string();
        assert!(error.contains("a blob of the image is damaged"), "{error}");
    }
}

#[test]
fn a_changed_inner_index_is_refused() {
    let bench = Bench::new();
    let (pin, inner) = bench.nested();
    let other = bench.image("amd64", b"an attacker's");
    fs::write(inner, bench.index(&[other])).unwrap();
    let error = bench.read(&bench.layout(), &pin, Architecture::Amd64).unwrap_err().to_string();
    assert!(error.contains("a blob of the image is damaged"), "{error}");
}

#[test]
fn an_index_that_is_listed_repeatedly_is_read_once() {
    let bench = Bench::new();
    let mut entry = bench.image("s390x", b"for s390x");
    for _ in 0..4 {
        let index = bench.index(&vec![entry; 300]);
        entry = bench.blob(INDEX, index.as_bytes());
    }
    let index = bench.index(&[entry]);
    fs::write(bench.layout().join("index.json"), &index).unwrap();
    let pin = format!("sha256:{}", Digest::of(index.as_bytes()).hex());
    let error = bench.read(&bench.layout(), &pin, Architecture::Amd64).unwrap_err().to_string();
    assert!(error.contains("has no image for amd64"), "{error}");
}

#[test]
fn an_archive_without_the_nodes_architecture_is_refused() {
    let bench = Bench::new();
    let index = bench.index(&[bench.image("arm64", b"for arm64")]);
    fs::write(bench.layout().join("index.json"), &index).unwrap();
    let pin = format!("sha256:{}", Digest::of(index.as_bytes()).hex());
    let error = bench.read(&bench.layout(), &pin, Architecture::Amd64).unwrap_err().to_string();
    assert!(error.contains("has no image for amd64"), "{error}");
}

#[test]
fn an_image_without_a_platform_is_chosen_by_its_configuration() {
    let bench = Bench::new();
    let [arm64, amd64] = ["arm64", "amd64"]
        .map(|name| bench.unlabelled(&config(name), format!("for {name}").as_bytes()));
    let error = bench.amd64_of(std::slice::from_ref(&arm64)).unwrap_err().to_string();
    assert!(
        error.contains(
            "has no image for amd64\n  caused by: it has images for `linux/arm64`\nhint: "
        ),
        "{error}"
    );
    assert!(error.contains("`podman pull --arch amd64 IMAGE`"), "{error}");
    assert!(bench.has(&bench.amd64_of(std::slice::from_ref(&amd64)).unwrap(), b"for amd64"));
    assert!(
        bench.has(&bench.amd64_of(&[arm64, amd64]).unwrap(), b"for amd64"),
        "the second image fits"
    );
}

#[test]
fn the_platform_in_the_index_does_not_override_the_configuration() {
    let bench = Bench::new();
    let mut lying = bench.image("arm64", b"for arm64");
    lying["platform"]["architecture"] = "amd64".into();
    let error = bench.amd64_of(&[lying]).unwrap_err().to_string();
    assert!(error.contains("it has images for `linux/arm64`"), "{error}");
    for config in ["{}", r#"{"architecture":"amd64","os":"windows"}"#] {
        let error = bench.amd64_of(&[bench.unlabelled(config, b"layer")]).unwrap_err().to_string();
        assert!(error.contains("has no image for amd64"), "{config}: {error}");
    }
}

#[test]
fn a_docker_archive_gets_a_hint_to_convert_it() {
    let bench = Bench::new();
    let archive = bench.folder.path().join("docker.tar");
    let mut tar = tar::Builder::new(File::create(&archive).unwrap());
    let mut header = tar::Header::new_gnu();
    header.set_size(2);
    header.set_mode(0o644);
    tar.append_data(&mut header, "manifest.json", &b"[]"[..]).unwrap();
    tar.finish().unwrap();
    let pin = format!("sha256:{}", Digest::of_file(&archive).unwrap().hex());
    let error = bench.read(&archive, &pin, Architecture::Amd64).unwrap_err().to_string();
    assert!(
        error.contains("is not an OCI archive: it has no index.json")
            && error.contains(
                "skopeo \
        copy"
            ),
        "{error}"
    );
}
