//! What a source is called by everybody: its package URL
//! (<https://github.com/package-url/purl-spec>).

use crate::plan::{Source, SourceKind};
use std::fmt::Write;

/// The name of a source among those of its ecosystem, its version, and its package URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Purl {
    pub name: String,
    pub version: String,
    pub url: String,
}

impl Purl {
    /// That of a source.
    pub fn of(source: &Source) -> Self {
        let (kind, name, version, rest): (_, _, &str, _) = match &source.kind {
            SourceKind::Debian(package) => (
                "deb/debian",
                &package.package[..],
                &package.version,
                format!("?arch={}", package.architecture),
            ),
            // A scanner looks for the module: that only its go.mod was read, the source's own name
            // says.
            SourceKind::GoZip { path, version } | SourceKind::GoMod { path, version } => {
                ("golang", &path[..], version, String::new())
            }
            SourceKind::GoToolchain { version } => ("generic", "go", version, String::new()),
            SourceKind::RustToolchain { version, .. } => {
                ("generic", "rust", version, String::new())
            }
            // What it is called in a registry, nobody knows: the name is the one that the pod's
            // manifest gives it, with its tag as version.
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

/// Percent-encoded, but for slashes and what a URL can have anywhere.
fn encoded(text: &str) -> String {
    let mut url = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                url.push(byte.into())
            }
            _ => write!(url, "%{byte:02X}").expect("a string takes every write"),
        }
    }
    url
}
