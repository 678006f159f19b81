//! Images of containers that the node keeps: it pulls them by itself, and the kubelet does not
//! remove them, so pods start from them when their registry is away.

use std::fmt;

use crate::Refusal;

/// The maximum number of such settings.
pub const MAX_SYSTEM_IMAGES: usize = 32;
/// The only value.
const KEPT: &str = "kept";

/// The maximum bytes of the part before tag and digest (`RepositoryNameTotalLengthMax` of the
/// reference grammar of `distribution`).
const MAX_REPOSITORY: usize = 255;
/// The maximum bytes of a tag.
const MAX_TAG: usize = 128;
/// The host of the images that come with the node.
const OWN: &str = "localhost";
/// The host that containerd takes for images without one, and the folder that it adds there.
const DOCKER: &str = "docker.io";
/// Another name of it, which containerd replaces.
const INDEX: &str = "index.docker.io";
const DIGEST: &str = "sha256:";
/// The hexadecimal digits of a digest.
const DIGITS: usize = 64;

/// An image that the node keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemImage(SystemImageName);

/// The full name of an image of a registry, as containerd has it: `HOST/PATH:TAG` or
/// `HOST/PATH@sha256:DIGEST`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SystemImageName(String);

/// The image that containerd has under such a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemImageState {
    /// The digest of its manifest or index, with its algorithm.
    pub digest: String,
    /// The bytes that its layers and its configuration take in containerd's store.
    pub bytes: u64,
}

impl SystemImage {
    /// The image of this name.
    pub fn new(name: SystemImageName) -> Self {
        Self(name)
    }

    /// Reads the value.
    pub(super) fn parse_word(name: SystemImageName, word: &str) -> Result<Self, Refusal> {
        match word {
            KEPT => Ok(Self(name)),
            _ => Err(Refusal::malformed(format!("an image can only be `{KEPT}`"))),
        }
    }

    /// The name.
    pub fn name(&self) -> &SystemImageName {
        &self.0
    }

    /// The value.
    pub(super) fn word(&self) -> &'static str {
        KEPT
    }
}

impl SystemImageName {
    /// Reads a full name. If it has a tag and a digest, the digest alone counts, as for pods.
    ///
    /// # Errors
    /// It lacks its host, its tag or digest, or is not a name in the reference grammar of
    /// `distribution`; or the node itself has such an image.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let refuse = |reason: &str| {
            let start: String = text.chars().take(MAX_REPOSITORY).collect();
            Err(Refusal::malformed(format!("`{start}` {reason}")))
        };
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (text, None),
        };
        let Some((host, path)) = rest.split_once('/').filter(|(host, _)| is_host(host)) else {
            return refuse(
                "lacks its registry: a full name is such as `docker.io/library/busybox`",
            );
        };
        let (path, tag) = match path.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (path, None),
        };
        let repository = format!("{host}/{path}");
        let is_long = repository.len() > MAX_REPOSITORY;
        if is_long || !path.split('/').all(is_component) || !tag.is_none_or(is_tag) {
            return refuse("is not the name of an image");
        }
        if !digest.is_none_or(is_digest) {
            return refuse("has another digest than `sha256:` and 64 digits of 0-9 and a-f");
        }
        match (host, digest, tag) {
            (OWN, ..) => refuse("is not pulled: images of `localhost` come with the node"),
            (INDEX, ..) => refuse("is not pulled: the host of these images is `docker.io`"),
            (DOCKER, ..) if !path.contains('/') => {
                refuse(&format!("lacks a folder: it is `{DOCKER}/library/{path}`"))
            }
            (_, Some(digest), _) => Ok(Self(format!("{repository}@{digest}"))),
            (_, None, Some(tag)) => Ok(Self(format!("{repository}:{tag}"))),
            (_, None, None) => refuse("lacks its tag or digest, such as `:1.37`"),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether the text is a host, optionally with a port, which has to differ from the first folder of
/// a path.
fn is_host(text: &str) -> bool {
    let (name, port) = text.split_once(':').unwrap_or((text, "1"));
    let is_part = |part: &str| {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        part.bytes().all(inside)
            && !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    let is_port = (1..=5).contains(&port.len()) && port.bytes().all(|one| one.is_ascii_digit());
    let differs = name == OWN || text.contains(['.', ':']);
    differs && is_port && name.split('.').all(is_part)
}

/// Whether the text is one folder of a path: words of small letters and digits, with `.`, `_`, `__`
/// or dashes between them.
fn is_component(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut between = text.split(|one: char| one.is_ascii() && is_word(one as u8));
    let ends = [text.bytes().next(), text.bytes().last()];
    ends.into_iter().all(|end| end.is_some_and(is_word))
        && between.all(|one| matches!(one, "" | "." | "_" | "__") || one.bytes().all(|b| b == b'-'))
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=MAX_TAG).contains(&text.len())
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

fn is_digest(text: &str) -> bool {
    let digits = text.strip_prefix(DIGEST).unwrap_or_default();
    digits.len() == DIGITS && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl SystemImageState {
    /// Reads the words that its `Display` writes. `None` if they are others.
    pub fn parse(words: &str) -> Option<Self> {
        let (digest, bytes) = words.split_once(' ')?;
        let digest = digest.strip_prefix("digest=").filter(|digest| is_digest(digest))?.to_owned();
        let bytes = bytes.strip_prefix("bytes=")?;
        let bytes = bytes.parse().ok().filter(|_| !bytes.starts_with('+'))?;
        Some(Self { digest, bytes })
    }
}

impl fmt::Display for SystemImageState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { digest, bytes } = self;
        write!(f, "digest={digest} bytes={bytes}")
    }
}

impl fmt::Display for SystemImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHA: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn read(text: &str) -> Result<String, String> {
        SystemImageName::parse(text).map(|name| name.to_string()).map_err(|error| error.reason)
    }

    #[test]
    fn a_full_name_is_that_of_containerd() {
        for name in [
            "docker.io/library/busybox:1.37",
            "registry.k8s.io/kube-proxy:v1.35.0",
            "10.0.2.2:5000/a:b",
            "localhost:5000/tools/a__b.c-d--e_f:_A.b-c",
            &format!("registry.example/a@{SHA}"),
        ] {
            assert_eq!(read(name).as_deref(), Ok(name));
        }
        let both = format!("registry.example/a:1@{SHA}");
        assert_eq!(read(&both), Ok(format!("registry.example/a@{SHA}")));
    }

    #[test]
    fn a_name_that_leaves_its_image_open_is_refused_with_the_reason() {
        for (name, reason) in [
            ("busybox", "lacks its registry"),
            ("busybox:1", "lacks its registry"),
            ("library/busybox:1", "lacks its registry"),
            ("docker.io/busybox:1", "it is `docker.io/library/busybox`"),
            ("index.docker.io/library/busybox:1", "is `docker.io`"),
            ("localhost/pause:1", "come with the node"),
            ("docker.io/library/busybox", "lacks its tag or digest"),
            ("a.example/b@sha256:ab", "another digest"),
            ("a.example/b@sha512:ab", "another digest"),
        ] {
            let found = read(name).unwrap_err();
            assert!(found.contains(reason), "{name}: {found}");
        }
    }

    #[test]
    fn what_no_registry_has_is_refused() {
        let (long, tag) = ("a".repeat(246), "a".repeat(129));
        for name in [
            "",
            "/",
            "a.example/",
            "a.example/:1",
            "a.example/B:1",
            "a.example//b:1",
            "a.example/b/:1",
            "a.example/b..c:1",
            "a.example/___:1",
            "a.example/b___c:1",
            "a.example/.b:1",
            "a.example/../b:1",
            "a.example/b:",
            "a.example/b:-1",
            "a.example/b:1:2",
            "a.example/b:1 --all",
            "a.example/b:1\n",
            "a.example/\u{e4}:1",
            "a.example:/b:1",
            "a.example:123456/b:1",
            ".example/b:1",
            "-a.example/b:1",
            "https://a.example/b:1",
            "user@a.example/b:1",
            &format!("a.example/{long}:1"),
            &format!("a.example/b:{tag}"),
        ] {
            assert!(read(name).is_err(), "{name:?}");
        }
        for word in ["", "pulled", "kept kept"] {
            let name = SystemImageName::parse("a.example/b:1").unwrap();
            assert!(SystemImage::parse_word(name, word).is_err(), "{word}");
        }
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let state = SystemImageState { digest: SHA.to_owned(), bytes: 1 << 40 };
        assert_eq!(SystemImageState::parse(&state.to_string()), Some(state));
        for words in ["", "digest=", "digest=sha256:ab bytes=1", &format!("digest={SHA} bytes=+1")]
        {
            assert_eq!(SystemImageState::parse(words), None, "{words}");
        }
    }

    proptest! {
        #[test]
        fn a_name_that_was_read_is_read_again(
            name in "([a-z]{1,3}[.:]?){1,3}(/[a-zA-Z0-9._-]{0,4}){0,3}(:[a-zA-Z0-9._-]{0,3})?",
        ) {
            if let Ok(name) = SystemImageName::parse(&name) {
                prop_assert_eq!(SystemImageName::parse(name.as_str()), Ok(name));
            }
        }
    }
}
