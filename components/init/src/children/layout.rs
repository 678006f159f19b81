//! Reads the OCI image layout that comes with the node (OCI image specification 1.1,
//! image-layout.md).

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use osbuild_failure::{Explain, Failure, Outcome};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The annotation of an index entry with the image's full name, which containerd's own importer
/// reads too.
const NAME: &str = "io.containerd.image.name";

/// A blob that another one refers to.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Blob {
    /// Its media type.
    pub media_type: String,
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Its size in bytes.
    pub size: u64,
    #[serde(default)]
    annotations: HashMap<String, String>,
}

/// One image.
#[derive(Debug, PartialEq, Eq)]
pub struct Image {
    /// The name under which pods request it.
    pub name: String,
    /// Its manifest.
    pub manifest: Blob,
    /// Its configuration.
    pub config: Blob,
    /// Its layers, lowest first.
    pub layers: Vec<Blob>,
    /// The names of their snapshots, lowest first (OCI image specification 1.1, config.md:
    /// ChainID).
    pub chain: Vec<String>,
}

impl Image {
    /// All its blobs, the manifest last, as it refers to the others.
    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.layers.iter().chain([&self.config, &self.manifest])
    }
}

#[derive(Deserialize)]
struct Config {
    rootfs: Unpacked,
}

#[derive(Deserialize)]
struct Unpacked {
    diff_ids: Vec<String>,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Blob>,
}

#[derive(Deserialize)]
struct Manifest {
    config: Blob,
    layers: Vec<Blob>,
}

/// Reads the index and the manifests of a layout.
pub fn read(layout: &Path) -> Outcome<Vec<Image>> {
    let index: Index = json(&layout.join("index.json"))?;
    index.manifests.into_iter().map(|manifest| image(layout, manifest)).collect()
}

fn image(layout: &Path, manifest: Blob) -> Outcome<Image> {
    let name = manifest.annotations.get(NAME).cloned();
    let name = name.ok_or_else(|| {
        Failure::new(format!("image {} has no annotation `{NAME}`", manifest.digest))
    })?;
    let Manifest { config, layers } = json(&path(layout, &manifest)?)?;
    let Config { rootfs } = json(&path(layout, &config)?)?;
    Ok(Image { name, manifest, config, layers, chain: chain(rootfs.diff_ids) })
}

/// The ChainID of each layer.
fn chain(layers: Vec<String>) -> Vec<String> {
    let mut below: Option<String> = None;
    let named = layers.into_iter().map(|layer| {
        let name = match &below {
            Some(below) => format!("sha256:{}", hex(&Sha256::digest(format!("{below} {layer}")))),
            None => layer,
        };
        below = Some(name.clone());
        name
    });
    named.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file of a blob.
pub fn path(layout: &Path, blob: &Blob) -> Outcome<PathBuf> {
    let digits = blob.digest.strip_prefix("sha256:");
    let plain =
        |digits: &&str| digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = digits
        .filter(plain)
        .ok_or_else(|| Failure::new(format!("`{}` is not a SHA-256 digest", blob.digest)))?;
    Ok(layout.join("blobs/sha256").join(digits))
}

fn json<T: for<'a> Deserialize<'a>>(path: &Path) -> Outcome<T> {
    let file = File::open(path).explain(format_args!("open {}", path.display()))?;
    serde_json::from_reader(std::io::BufReader::new(file))
        .explain(format_args!("read {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, write};

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    const CONFIG: &str = "sha256:fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";

    fn layout(annotations: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let blobs = folder.path().join("blobs/sha256");
        create_dir_all(&blobs).unwrap();
        let blob = |kind: &str, digest: &str| {
            format!(r#"{{"mediaType":"{kind}","digest":"{digest}","size":7{annotations}}}"#)
        };
        write(
            folder.path().join("index.json"),
            format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, blob("m", DIGEST)),
        )
        .unwrap();
        let manifest = format!(
            r#"{{"schemaVersion":2,"config":{},"layers":[{}]}}"#,
            blob("c", CONFIG),
            blob("l", DIGEST)
        );
        write(blobs.join(&DIGEST[7..]), manifest).unwrap();
        write(
            blobs.join(&CONFIG[7..]),
            r#"{"rootfs":{"type":"layers","diff_ids":["sha256:aa","sha256:bb","sha256:cc"]}}"#,
        )
        .unwrap();
        folder
    }

    #[test]
    fn an_image_has_a_name_a_configuration_and_layers() {
        let layout = layout(r#","annotations":{"io.containerd.image.name":"localhost/pause:1"}"#);
        let images = read(layout.path()).unwrap();
        assert_eq!(images[0].name, "localhost/pause:1");
        assert_eq!(images[0].config.media_type, "c");
        assert_eq!(images[0].layers[0].size, 7);
        assert_eq!(images[0].blobs().last(), Some(&images[0].manifest));
    }

    #[test]
    fn a_snapshot_is_named_by_the_chain_of_its_layers() {
        let layout = layout(r#","annotations":{"io.containerd.image.name":"localhost/pause:1"}"#);
        // Made with sha256sum: of `sha256:aa sha256:bb`, and of the result and `sha256:cc`.
        let chain = [
            "sha256:aa",
            "sha256:b68ad689d6d1ec110ea1c13617437ad6f3766d4b3b309f6a603a222e07a0164f",
            "sha256:ced946a3b9b1c697ead0fa9bf9ad36e03198566077f3950076f64a4760acde1b",
        ];
        assert_eq!(read(layout.path()).unwrap()[0].chain, chain);
    }

    #[test]
    fn an_image_without_a_name_is_refused() {
        let failure = read(layout("").path()).unwrap_err().to_string();
        assert!(failure.ends_with("has no annotation `io.containerd.image.name`"), "{failure}");
    }

    #[test]
    fn a_digest_that_is_a_path_is_refused() {
        for digest in ["sha256:../../../etc/passwd", "sha512:00", "", "sha256:"] {
            let blob = Blob {
                media_type: String::new(),
                digest: digest.to_owned(),
                size: 0,
                annotations: HashMap::new(),
            };
            assert!(path(Path::new("/layout"), &blob).is_err(), "{digest}");
        }
    }
}
