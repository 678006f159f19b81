//! Where results are kept: in a folder or in a registry.

use super::folder::Folder;
use super::registry::Registry;
use crate::engine::digest::{CHUNK, Digest};
use crate::engine::fs_error::IoContext;
use crate::error::{Error, Result};
use oci_client::Reference;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::str::FromStr;

/// The start of a registry's address.
const OCI: &str = "oci://";

/// A place on the command line: a folder, or `oci://HOST[:PORT]/NAME[:TAG]`.
#[derive(Clone, Debug)]
pub enum Place {
    /// The path of a folder.
    Folder(PathBuf),
    /// The name of an artifact in a registry.
    Registry(Box<Reference>),
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some(name) = text.strip_prefix(OCI) else { return Ok(Place::Folder(text.into())) };
        let wrong = || {
            Error::usage(format!("`{text}` names no artifact in a registry"))
                .hint("for example: oci://registry.example/team/results:edge")
        };
        match name.split_once('/') {
            None | Some(("", _)) => return Err(wrong()),
            Some((host, rest)) => check_host(text, host, rest)?,
        }
        let reference = name.parse().map_err(|error| wrong().cause(error))?;
        Ok(Place::Registry(Box::new(reference)))
    }
}

/// Refuses a host that the syntax of references takes for a part of a name on Docker Hub, where an
/// export would go with the user's credentials.
fn check_host(text: &str, host: &str, rest: &str) -> Result<()> {
    match host == "localhost" || host.contains(['.', ':']) {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "`{host}` in `{text}` has no dot and no port, so it would be a name on Docker Hub"
        ))
        .hint(format!("write the port: oci://{host}:443/{rest}"))),
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Folder(path) => path.display().fmt(f),
            Place::Registry(name) => write!(f, "{OCI}{name}"),
        }
    }
}

/// A place that results are read from.
pub struct Source {
    place: Place,
    reader: Reader,
}

enum Reader {
    Folder(Folder),
    Registry(Box<Registry>),
}

impl Source {
    /// Opens a place.
    ///
    /// # Errors
    /// The client of a registry cannot start, or has malformed credentials.
    pub fn open(place: Place) -> Result<Self> {
        let reader = match &place {
            Place::Folder(path) => Reader::Folder(Folder::at(path)),
            Place::Registry(name) => Reader::Registry(Box::new(Registry::open(name)?)),
        };
        Ok(Source { place, reader })
    }

    /// The bytes of the artifact's manifest.
    ///
    /// # Errors
    /// There is no artifact, or it cannot be read.
    pub fn manifest(&self) -> Result<Vec<u8>> {
        match &self.reader {
            Reader::Folder(folder) => folder.manifest(),
            Reader::Registry(registry) => registry.manifest(),
        }
    }

    /// Writes the bytes of a blob, at most those that its digest counts and one more. The caller
    /// compares them with the digest.
    ///
    /// # Errors
    /// The blob is missing or cannot be read, or `to` cannot be written.
    pub fn read(&self, digest: &Digest, to: &mut dyn Write) -> Result<()> {
        match &self.reader {
            Reader::Registry(registry) => registry.read(digest, to),
            Reader::Folder(folder) => {
                let path = folder.file(digest);
                let missing = |error: &std::io::Error| error.kind() == ErrorKind::NotFound;
                let file = match File::open(&path) {
                    Err(error) if missing(&error) => {
                        return Err(Error::digest(format!("{self} lacks the blob {digest}")));
                    }
                    other => other.at("open", &path)?,
                };
                let (mut file, mut chunk) = (file.take(digest.size() + 1), vec![0; CHUNK]);
                loop {
                    match file.read(&mut chunk).at("read", &path)? {
                        0 => return Ok(()),
                        read => to.write_all(&chunk[..read]).at("copy", &path)?,
                    }
                }
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_a_dot_is_not_docker_hub() {
        let parsed = |text: &str| text.parse::<Place>().map(|place| place.to_string());
        for (text, hint) in [
            ("oci://registry/team/results", "write the port: oci://registry:443/team/results"),
            ("oci://registry/results:edge", "write the port: oci://registry:443/results:edge"),
            ("oci://results", "for example: oci://registry.example/team/results:edge"),
            ("oci:///results", "for example: oci://registry.example/team/results:edge"),
        ] {
            let problem = parsed(text).unwrap_err().problems.remove(0);
            assert_eq!(problem.hint.as_deref(), Some(hint), "{text}");
        }
        for host in ["registry:443", "registry.example", "localhost", "docker.io", "127.0.0.1:80"] {
            let text = format!("oci://{host}/team/results:edge");
            assert_eq!(parsed(&text).unwrap(), text);
        }
        assert_eq!(parsed("registry/team").unwrap(), "registry/team");
    }
}
