//! The configuration file of a user: `osbuild/config.toml` in `$XDG_CONFIG_HOME` or `~/.config`.
//! Its settings never change the bytes of an image: only recipes do.

use crate::engine::fs_error::IoContext;
use crate::engine::remote::Mode;
use crate::error::{Error, Kind, Result};
use crate::plan::parse_as;
use osbuild_remote::{Access, Address};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The contents of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    remote: Option<Section>,
}

/// The section `[remote]`. Relative paths start at the folder of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Section {
    url: String,
    mode: Option<Mode>,
    roots: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    platform: Option<BTreeMap<String, String>>,
    token_file: Option<PathBuf>,
    header_file: Option<PathBuf>,
    credential_helper: Option<PathBuf>,
}

/// A shared cache, what it asks for, and what builds do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteConfig {
    /// Its address.
    pub address: Address,
    /// Certificates and headers.
    pub access: Access,
    /// The mode in which builds use it.
    pub mode: Mode,
    /// The properties of the workers that may execute steps.
    pub platform: BTreeMap<String, String>,
}

/// The folder of the file, from the values of `XDG_CONFIG_HOME` and `HOME`; `None` if neither is an
/// absolute path.
pub fn folder(config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let set = |path: Option<PathBuf>| path.filter(|path| path.is_absolute());
    let config = set(config_home).or_else(|| Some(set(home)?.join(".config")));
    Some(config?.join("osbuild"))
}

/// The shared cache of a command: the one of `url`, or else the one in the file in `folder`.
/// `mode` replaces the mode in the file. `None` if there is none, or if the mode is `off`.
///
/// Credentials and settings in the file are for the cache that it names, and are never sent to
/// another one.
///
/// # Errors
/// The file, a file that it names, or `url` cannot be read or is invalid.
pub fn remote(
    folder: Option<&Path>,
    url: Option<&str>,
    mode: Option<Mode>,
) -> Result<Option<RemoteConfig>> {
    if mode == Some(Mode::Off) {
        return Ok(None);
    }
    let section = folder.map(read).transpose()?.flatten();
    let own = section.as_ref().filter(|section| url.is_none_or(|url| url == section.url));
    let Some(url) = url.or(own.map(|section| section.url.as_str())) else { return Ok(None) };
    let mode = mode.or(own.and_then(|section| section.mode)).unwrap_or(Mode::Cache);
    if mode == Mode::Off {
        return Ok(None);
    }
    let address = address(url)?;
    let access = match own.zip(folder) {
        Some((section, folder)) => access(section, folder, &address)?,
        None => Access::default(),
    };
    let platform = own.and_then(|section| section.platform.clone()).unwrap_or_default();
    Ok(Some(RemoteConfig { address, access, mode, platform }))
}

fn read(folder: &Path) -> Result<Option<Section>> {
    let path = folder.join("config.toml");
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        text => {
            let text = text.at("read", &path).map_err(Error::of_usage)?;
            Ok(parse_as::<File>(Kind::Usage, &path.display().to_string(), &text)?.remote)
        }
    }
}

fn address(url: &str) -> Result<Address> {
    url.parse().map_err(|error| {
        // The URL may contain a password.
        Error::usage("the URL of the cache is invalid").cause(error)
    })
}

fn access(section: &Section, folder: &Path, address: &Address) -> Result<Access> {
    let file = |path: &PathBuf| {
        let path = folder.join(path);
        fs::read(&path).at("read", &path).map_err(Error::of_usage)
    };
    let text = |path: &PathBuf| {
        String::from_utf8(file(path)?)
            .map_err(|_| Error::usage(format!("`{}` is not UTF-8", folder.join(path).display())))
    };
    let identity = match (&section.certificate, &section.key) {
        (Some(certificate), Some(key)) => Some((file(certificate)?, file(key)?)),
        (None, None) => None,
        _ => return Err(Error::usage("`[remote]` has only one of `certificate` and `key`")),
    };
    let mut headers = Vec::new();
    if let Some(path) = &section.token_file {
        headers.push(("authorization".to_owned(), format!("Bearer {}", text(path)?.trim())));
    }
    if let Some(path) = &section.header_file {
        let name = folder.join(path);
        headers.extend(parse_headers(&text(path)?).ok_or_else(|| {
            Error::usage(format!("`{}` has a line that is not `NAME: VALUE`", name.display()))
        })?);
    }
    let credential_helper = section.credential_helper.as_ref().map(|program| {
        // A name without a slash is found on `PATH`.
        let is_name = program.components().count() == 1 && program.is_relative();
        if is_name { program.clone() } else { folder.join(program) }
    });
    let is_secret = !headers.is_empty() || credential_helper.is_some();
    if is_secret && !address.is_private() {
        return Err(Error::usage(format!("`{address}` would send a secret without encryption"))
            .hint("use `grpcs://` or `https://`"));
    }
    let roots = section.roots.as_ref().map(file).transpose()?;
    Ok(Access { roots, identity, headers, credential_helper })
}

/// The headers in a text, a line each; `None` if a line is something else.
fn parse_headers(text: &str) -> Option<Vec<(String, String)>> {
    let one = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let name = name.trim().to_ascii_lowercase();
        (!name.is_empty()).then(|| (name, value.trim().to_owned()))
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "grpcs://cache.example:443/main";

    fn folder_with(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.toml"), text).unwrap();
        fs::write(folder.path().join("token"), "t0ken-of-ours\n").unwrap();
        folder
    }

    #[test]
    fn the_file_names_the_cache_and_its_token() {
        let folder = folder_with(&format!(
            "[remote]\nurl = \"{OWN}\"\nmode = \"cache-write\"\ntoken-file = \"token\"\n"
        ));
        let found = remote(Some(folder.path()), None, None).unwrap().unwrap();
        assert_eq!((found.address.to_string().as_str(), found.mode), (OWN, Mode::CacheWrite));
        assert_eq!(found.access.headers, [("authorization".into(), "Bearer t0ken-of-ours".into())]);
        assert!(!format!("{found:?}").contains("t0ken-of-ours"));
    }

    #[test]
    fn the_file_names_the_workers_that_may_execute_steps() {
        let folder = folder_with(&format!(
            "[remote]\nurl = \"{OWN}\"\nmode = \"execute\"\nplatform = {{ OSFamily = \"linux\" }}\n"
        ));
        let found = remote(Some(folder.path()), None, None).unwrap().unwrap();
        assert_eq!(found.mode, Mode::Execute);
        assert_eq!(found.platform, BTreeMap::from([("OSFamily".into(), "linux".into())]));
        let other = remote(Some(folder.path()), Some("grpcs://other.example"), None);
        assert_eq!(other.unwrap().unwrap().platform, BTreeMap::new());
    }

    #[test]
    fn a_token_is_never_sent_to_another_cache() {
        let folder = folder_with(&format!("[remote]\nurl = \"{OWN}\"\ntoken-file = \"token\"\n"));
        let found = remote(Some(folder.path()), Some("grpcs://other.example"), None);
        assert_eq!(found.unwrap().unwrap().access, Access::default());
    }

    #[test]
    fn a_token_is_never_sent_without_encryption() {
        let folder =
            folder_with("[remote]\nurl = \"grpc://cache.example:1\"\ntoken-file = \"token\"\n");
        let error = remote(Some(folder.path()), None, None).unwrap_err();
        assert!(error.to_string().contains("without encryption"), "{error}");
        assert!(!error.to_string().contains("t0ken-of-ours"));
    }

    #[test]
    fn without_a_flag_and_a_file_there_is_no_cache_and_reading_is_the_default() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(remote(Some(folder.path()), None, None).unwrap(), None);
        assert_eq!(remote(None, None, Some(Mode::CacheWrite)).unwrap(), None);
        assert_eq!(remote(None, Some(OWN), Some(Mode::Off)).unwrap(), None);
        assert_eq!(remote(None, Some(OWN), None).unwrap().unwrap().mode, Mode::Cache);
    }

    #[test]
    fn an_unknown_key_and_half_a_certificate_are_errors() {
        for text in ["[remote]\nurl = \"grpcs://a\"\ntoken = \"x\"\n", "[cache]\n"] {
            let folder = folder_with(text);
            assert_eq!(remote(Some(folder.path()), None, None).unwrap_err().kind, Kind::Usage);
        }
        let folder = folder_with("[remote]\nurl = \"grpcs://a\"\ncertificate = \"token\"\n");
        assert!(remote(Some(folder.path()), None, None).is_err());
    }

    #[test]
    fn headers_are_lines_of_name_and_value() {
        let read = parse_headers("X-Key: a:b\n\nother:c\n").unwrap();
        assert_eq!(read, [("x-key".into(), "a:b".into()), ("other".into(), "c".into())]);
        assert_eq!(parse_headers("no header"), None);
    }
}
