//! The package URL of a source (<https://github.com/package-url/purl-spec>).

use super::SourceKind;
use std::fmt::Write;

/// The name and version of a source in its ecosystem, and its package URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purl {
    /// Its name.
    pub name: String,
    /// Its version; empty if it has none.
    pub version: String,
    /// The package URL.
    pub url: String,
}

impl Purl {
    /// The package URL of a source.
    pub fn of(source: &SourceKind) -> Self {
        let (kind, name, version, rest): (_, _, &str, _) = match source {
            SourceKind::Debian(package) => (
                "deb/debian",
                &package.package[..],
                &package.version,
                format!("?arch={}", package.architecture),
            ),
            // Scanners look for the module, even if only its go.mod was read.
            SourceKind::GoZip { path, version } | SourceKind::GoMod { path, version } => {
                ("golang", &path[..], version, String::new())
            }
            SourceKind::GoToolchain { version } => ("generic", "go", version, String::new()),
            SourceKind::RustToolchain { version, .. } => {
                ("generic", "rust", version, String::new())
            }
            // Its name in a registry is unknown: this is the name in the pod's manifest, with the
            // tag as version.
            SourceKind::PodImage { name } => return Purl::of_image(name),
            SourceKind::Crate { name, version } => ("cargo", &name[..], version, String::new()),
        };
        let url = format!("pkg:{kind}/{}@{}{rest}", encoded(name), encoded(version));
        Purl { name: name.to_owned(), version: version.to_owned(), url }
    }

    fn of_image(image: &str) -> Self {
        let tagged = image.rsplit_once(':').filter(|(_, tag)| !tag.contains('/'));
        let (name, version) = tagged.unwrap_or((image, ""));
        let at = if version.is_empty() { String::new() } else { format!("@{}", encoded(version)) };
        Purl {
            name: name.to_owned(),
            version: version.to_owned(),
            url: format!("pkg:generic/{}{at}", encoded(name)),
        }
    }
}

/// Percent-encodes text, except for slashes and unreserved characters.
fn encoded(text: &str) -> String {
    let mut url = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                url.push(byte.into())
            }
            _ => write!(url, "%{byte:02X}").expect("a string accepts every write"),
        }
    }
    url
}
