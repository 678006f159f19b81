//! The nodes that the user has added, each a file `NAME.toml`.

use crate::address::Address;
use crate::credentials::Credentials;
use crate::error::{Error, Malformed, Result};
use osbuild_protocol::Fingerprint;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The folder of the nodes. The link [`DEFAULT`] in it leads to the file of the default node.
pub struct KnownNodes {
    folder: PathBuf,
    /// The file with the token that is shown to all of them in the place of their own credentials.
    token_file: Option<PathBuf>,
}

/// The name of that link, which is the name of no node.
const DEFAULT: &str = ".default";

/// A node that the user has added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownNode {
    /// Where it listens.
    pub address: Address,
    /// The fingerprint that its certificate must have.
    pub fingerprint: Fingerprint,
    /// The user's credentials for it.
    pub credentials: Credentials,
}

/// The same as it is written.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    address: String,
    fingerprint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_file: Option<PathBuf>,
}

impl KnownNodes {
    /// Those of this user: `osctl/nodes` in `$XDG_CONFIG_HOME` or `~/.config`.
    pub fn of_user() -> Result<KnownNodes> {
        let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
        let configuration =
            set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
        let configuration = configuration.ok_or_else(|| {
            Error::usage("there is no folder for known nodes")
                .cause("neither XDG_CONFIG_HOME nor HOME is an absolute path")
        })?;
        Ok(KnownNodes { folder: configuration.join("osctl/nodes"), token_file: None })
    }

    /// The same nodes, to which the token in this file is shown, if there is one.
    pub fn with_token(self, token_file: Option<&Path>) -> KnownNodes {
        KnownNodes { token_file: token_file.map(Path::to_owned), ..self }
    }

    /// The names of all nodes, sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| cannot("read", &self.folder, &error))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| cannot("read", &self.folder, &error))?;
            let name = entry.file_name().into_string().ok();
            names.extend(name.and_then(|name| Some(name.strip_suffix(".toml")?.to_owned())));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The default node, if there is one.
    pub fn default(&self) -> Option<String> {
        let target = fs::read_link(self.folder.join(DEFAULT)).ok()?;
        let name = target.to_str()?.strip_suffix(".toml")?.to_owned();
        self.names().ok()?.contains(&name).then_some(name)
    }

    /// Makes a node the default.
    pub fn set_default(&self, name: &str) -> Result<()> {
        self.get(Some(name))?;
        let (new, link) = (self.folder.join(".default-new"), self.folder.join(DEFAULT));
        // One that was interrupted has left it.
        let _ = fs::remove_file(&new);
        let replaced = symlink(format!("{name}.toml"), &new).and_then(|()| fs::rename(&new, &link));
        replaced.map_err(|error| cannot("write", &link, &error))
    }

    /// The nodes in this folder.
    #[cfg(test)]
    pub fn of_folder(folder: &Path) -> KnownNodes {
        KnownNodes { folder: folder.to_owned(), token_file: None }
    }

    /// The name of the node that [`KnownNodes::get`] returns.
    pub fn chosen(&self, name: Option<&str>) -> Result<String> {
        let mut names = self.names()?;
        let add = "osctl node add NAME ADDRESS --certificate FILE";
        let known = || format!("the known nodes are {}", names.join(", "));
        match (name.map(str::to_owned).or_else(|| self.default()), names.len()) {
            (Some(name), _) if names.contains(&name) => Ok(name),
            (Some(name), count) => {
                let error = Error::usage(format!("there is no node `{name}`"));
                Err(if count == 0 { error.hint(add) } else { error.cause(known()) })
            }
            (None, 0) => Err(Error::usage("no node is known yet").hint(add)),
            (None, 1) => Ok(names.remove(0)),
            (None, _) => Err(Error::usage("which node?")
                .cause(known())
                .hint("name one with `--node`, in OSCTL_NODE or with `osctl node use`")),
        }
    }

    /// The node with this name; without one, the default node, or else the only node there is.
    pub fn get(&self, name: Option<&str>) -> Result<KnownNode> {
        let path = self.path(&self.chosen(name)?)?;
        let text = fs::read_to_string(&path).map_err(|error| cannot("read", &path, &error))?;
        let written: Written =
            toml::from_str(&text).map_err(|error| malformed(&path, &in_line(&text, &error)))?;
        Ok(KnownNode {
            address: written
                .address
                .parse()
                .map_err(|error: Malformed| malformed(&path, &error))?,
            fingerprint: Fingerprint::parse(&written.fingerprint)
                .map_err(|refusal| malformed(&path, &refusal))?,
            credentials: self.credentials(&path, written.certificate, written.token_file)?,
        })
    }

    /// The credentials for the node whose file is at the path.
    fn credentials(
        &self,
        path: &Path,
        certificate: Option<PathBuf>,
        token_file: Option<PathBuf>,
    ) -> Result<Credentials> {
        match (&self.token_file, certificate, token_file) {
            (Some(file), ..) => Ok(Credentials::TokenFile(file.clone())),
            (None, Some(file), None) => Ok(Credentials::Certificate(file)),
            (None, None, Some(file)) => Ok(Credentials::TokenFile(file)),
            (None, ..) => {
                let wrong = Malformed("it has `certificate` or `token-file`, and not both");
                Err(malformed(path, &wrong))
            }
        }
    }

    /// All nodes in order of name, or what is wrong with the file of each.
    pub fn all(&self) -> Result<Vec<(String, Result<KnownNode>)>> {
        let named = |name: String| {
            let node = self.get(Some(&name));
            (name, node)
        };
        Ok(self.names()?.into_iter().map(named).collect())
    }

    /// Refuses a name that a node has already, or that none can have.
    pub fn check_new(&self, name: &str) -> Result<()> {
        match self.path(name)?.exists() {
            false => Ok(()),
            true => Err(Error::usage(format!("there is a node `{name}` already"))
                .hint(format!("osctl node remove {name}"))),
        }
    }

    /// Adds a node.
    pub fn add(&self, name: &str, node: &KnownNode) -> Result<()> {
        self.check_new(name)?;
        let path = self.path(name)?;
        let (certificate, token_file) = match &node.credentials {
            Credentials::Certificate(file) => (Some(file.clone()), None),
            Credentials::TokenFile(file) => (None, Some(file.clone())),
        };
        let (address, fingerprint) = (node.address.to_string(), node.fingerprint.to_string());
        let written = Written { address, fingerprint, certificate, token_file };
        let text = toml::to_string(&written)
            .map_err(|error| Error::failed("cannot write TOML").caused_by(&error))?;
        let write = || {
            fs::create_dir_all(&self.folder)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            file.write_all(text.as_bytes())?;
            file.persist_noclobber(&path).map_err(|error| error.error)
        };
        write().map(drop).map_err(|error| cannot("write", &path, &error))
    }

    /// Removes a node.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name)?;
        fs::remove_file(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::usage(format!("there is no node `{name}`")),
            _ => cannot("remove", &path, &error),
        })
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_plain) {
            return Err(Error::usage(format!("`{name}` is not a name for a node"))
                .hint("use letters, digits and `-_.`"));
        }
        Ok(self.folder.join(format!("{name}.toml")))
    }
}

fn cannot(what: &str, path: &Path, error: &dyn std::error::Error) -> Error {
    Error::failed(format!("cannot {what} `{}`", path.display())).caused_by(error)
}

/// The error of a node's file that the user has to correct.
fn malformed(path: &Path, why: &dyn Display) -> Error {
    Error::usage(format!("`{}` is not the file of a node", path.display())).cause(why.to_string())
}

/// The mistake in a text of TOML, in one line: the library's own text has a picture of several.
fn in_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitCode;

    #[test]
    fn a_node_is_known_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let nodes = KnownNodes { folder: folder.path().join("nodes"), token_file: None };
        let node = |port| KnownNode {
            address: format!("[fe80::1%eth0]:{port}").parse().unwrap(),
            fingerprint: Fingerprint::of(&[0x0a; 32]),
            credentials: Credentials::Certificate("/keys/admin.pem".into()),
        };
        assert!(nodes.get(None).is_err());
        nodes.add("first", &node(1)).unwrap();
        assert_eq!(nodes.get(None).unwrap(), node(1));
        assert!(nodes.add("first", &node(2)).is_err());
        nodes.add("second", &node(2)).unwrap();
        assert_eq!(nodes.names().unwrap(), ["first", "second"]);
        assert!(nodes.get(None).is_err(), "there are two");
        assert_eq!(nodes.get(Some("second")).unwrap(), node(2));
        fs::write(nodes.folder.join("damaged.toml"), "address = 1").unwrap();
        fs::write(nodes.folder.join("a b.toml"), "").unwrap();
        let all = nodes.all().unwrap();
        let readable =
            all.iter().filter_map(|(name, node)| Some((name.as_str(), node.as_ref().ok()?)));
        assert_eq!(readable.collect::<Vec<_>>(), [("first", &node(1)), ("second", &node(2))]);
        assert_eq!(all.len(), 4);
        for name in ["damaged.toml", "a b.toml"] {
            fs::remove_file(nodes.folder.join(name)).unwrap();
        }
        nodes.set_default("first").unwrap();
        assert_eq!(nodes.get(None).unwrap(), node(1));
        nodes.set_default("second").unwrap();
        assert_eq!(nodes.get(None).unwrap(), node(2));
        assert_eq!(nodes.names().unwrap(), ["first", "second"]);
        assert!(nodes.set_default("third").is_err());
        nodes.set_default("first").unwrap();
        nodes.remove("first").unwrap();
        assert_eq!((nodes.default(), nodes.get(None).unwrap()), (None, node(2)));
        for name in ["", ".", "..", "a/b", ".toml"] {
            assert!(nodes.add(name, &node(3)).is_err(), "{name}");
            assert!(nodes.remove(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_malformed_node_is_a_wrong_file_in_one_readable_line() {
        let folder = tempfile::tempdir().unwrap();
        let nodes = KnownNodes { folder: folder.path().into(), token_file: None };
        let path = folder.path().join("edge-7.toml");
        let address = "address = \"edge-7\"\n";
        for (text, why) in [
            ("address = 1", "line 1: invalid type: integer `1`, expected a string"),
            ("\n\naddres = \"a\"", "line 3: unknown field `addres`"),
            (&format!("{address}fingerprint = \"sha256:0\""), ""),
            ("= \n", "line 1: "),
        ] {
            fs::write(&path, text).unwrap();
            let error = nodes.get(None).unwrap_err();
            assert_eq!(error.exit_code(), ExitCode::from(2), "{error}");
            let error = error.to_string();
            let start = format!("error: `{}` is not the file of a node\n", path.display());
            assert!(error.starts_with(&format!("{start}  caused by: {why}")), "{error}");
            assert!(error.lines().count() == 2 && !error.contains("\\n"), "{error}");
        }
    }

    #[test]
    fn a_node_is_shown_its_own_credentials_or_the_token_of_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let nodes = || KnownNodes { folder: folder.path().into(), token_file: None };
        let fingerprint = Fingerprint::of(&[0x0a; 32]);
        let token = |path: &str| Credentials::TokenFile(path.into());
        let node = KnownNode {
            address: "10.0.2.15:50000".parse().unwrap(),
            fingerprint: fingerprint.clone(),
            credentials: token("/run/token"),
        };
        nodes().add("edge-7", &node).unwrap();
        assert_eq!(nodes().get(None).unwrap(), node);
        let written = |more: &str| {
            let text = format!("address = \"a\"\nfingerprint = \"{fingerprint}\"\n{more}");
            fs::write(folder.path().join("edge-7.toml"), text).unwrap();
        };
        written("certificate = \"/keys/admin.pem\"");
        let own = Credentials::Certificate("/keys/admin.pem".into());
        assert_eq!(nodes().get(None).unwrap().credentials, own);
        let others = nodes().with_token(Some(Path::new("/other/token")));
        assert_eq!(others.get(None).unwrap().credentials, token("/other/token"));
        for more in ["", "certificate = \"a\"\ntoken-file = \"b\""] {
            written(more);
            let error = nodes().get(None).unwrap_err().to_string();
            assert!(error.contains("`certificate` or `token-file`"), "{error}");
        }
    }
}
