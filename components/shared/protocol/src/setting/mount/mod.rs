//! Mounts beyond those that every node has. Their fields are those of a `Mount` of COSI's engine.

mod options;
mod path;

pub use options::{MountOptions, TmpfsSize};
pub use path::MountPath;

use crate::Refusal;

/// The maximum number of mounts that `init` holds.
pub const MAX_MOUNTS: usize = 16;
/// The maximum bytes of the name of a tmpfs.
const MAX_NAME: usize = 32;

const TMPFS: &str = "tmpfs";
const BIND: &str = "bind";

/// A mount that the node shall have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    target: MountPath,
    source: MountSource,
    options: MountOptions,
}

/// The source of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountSource {
    /// An empty file system in memory.
    Tmpfs {
        /// Its name in the table of mounts, which nothing depends on.
        name: String,
        /// The memory that it takes at most.
        size: TmpfsSize,
    },
    /// A folder of the node.
    Bind(MountPath),
}

impl Mount {
    /// Reads its fields.
    ///
    /// # Errors
    /// One of them is malformed, or an option is not of this type.
    pub fn parse<'a>(
        target: &str,
        kind: &str,
        source: &str,
        options: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Refusal> {
        let target = MountPath::parse(target)?;
        let (options, size) = options::parse(options)?;
        let source = match (kind, size) {
            (TMPFS, size) => {
                MountSource::Tmpfs { name: name(source)?, size: size.unwrap_or_default() }
            }
            (BIND, None) => MountSource::Bind(MountPath::parse(source)?),
            (BIND, Some(_)) => {
                return Err(Refusal::malformed("only a mount of the type `tmpfs` has a size"));
            }
            _ => {
                let start: String = kind.chars().take(MAX_NAME).collect();
                let reason = format!("`{start}` is not a type of mounts: `tmpfs` and `bind` are");
                return Err(Refusal::malformed(reason));
            }
        };
        Ok(Self { target, source, options })
    }

    /// Reads the words after the target: `TYPE SOURCE [OPTION,…]`.
    pub(super) fn parse_words(target: &MountPath, words: &str) -> Result<Self, Refusal> {
        match words.split(' ').collect::<Vec<_>>().as_slice() {
            [kind, source] => Self::parse(target.as_str(), kind, source, []),
            [kind, source, options] => Self::parse(target.as_str(), kind, source, [*options]),
            _ => {
                let form = "a mount is `mount TARGET TYPE SOURCE [OPTION,…]`";
                Err(Refusal::malformed(form))
            }
        }
    }

    /// Where it is mounted.
    pub fn target(&self) -> &MountPath {
        &self.target
    }

    /// The source.
    pub fn source(&self) -> &MountSource {
        &self.source
    }

    /// The options.
    pub fn options(&self) -> MountOptions {
        self.options
    }

    /// The options that differ from those of a mount without any.
    pub fn option_words(&self) -> Vec<String> {
        let size = match &self.source {
            MountSource::Tmpfs { size, .. } => Some(*size),
            MountSource::Bind(_) => None,
        };
        options::words(self.options, size)
    }

    /// The words that [`Self::parse_words`] reads.
    pub(super) fn words(&self) -> String {
        let (kind, source) = (self.source.kind(), self.source.as_str());
        match self.option_words().join(",") {
            options if options.is_empty() => format!("{kind} {source}"),
            options => format!("{kind} {source} {options}"),
        }
    }
}

impl MountSource {
    /// The word for the type of the mount.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Tmpfs { .. } => TMPFS,
            Self::Bind(_) => BIND,
        }
    }

    /// The name or the path.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tmpfs { name, .. } => name,
            Self::Bind(path) => path.as_str(),
        }
    }
}

/// The name of a tmpfs.
fn name(text: &str) -> Result<String, Refusal> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_known) {
        true => Ok(text.to_owned()),
        false => Err(Refusal::malformed(format!(
            "the source of a tmpfs is a name of 1 to {MAX_NAME} letters, digits, `-`, `_` and `.`"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_options_and_those_that_change_nothing_make_no_difference() {
        let read = |options: &[&str]| {
            Mount::parse("/run/mnt/a", TMPFS, "a", options.iter().copied()).unwrap()
        };
        assert_eq!(read(&["size=65536k", "nosuid", "rw,noexec"]), read(&[]));
        assert_eq!(read(&["exec", "ro"]).words(), "tmpfs a ro,exec");
        assert_eq!(read(&["size=1m,exec"]).words(), "tmpfs a exec,size=1m");
    }

    #[test]
    fn each_type_has_its_own_source() {
        let read = |kind, source| Mount::parse("/run/mnt/a", kind, source, []).map(drop);
        assert!(read("bind", "/srv").is_ok());
        assert!(read("bind", "srv").is_err());
        assert!(read("bind", "/srv/../etc").is_err());
        assert!(read("tmpfs", "/srv").is_err());
        assert!(read("tmpfs", "").is_err());
        assert!(read("ext4", "/dev/sda").is_err());
        assert!(Mount::parse("/run/mnt/a", "bind", "/srv", ["size=1m"]).is_err());
    }
}
