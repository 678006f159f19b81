//! Debug containers, of which `init` makes a pod from a template of its own.

use std::fmt;
use std::time::Duration;

use crate::Refusal;

/// The digits of a [`DebugId`], and how many of them the name of its pod has.
const DIGITS: usize = 32;
const DIGITS_IN_NAME: usize = 8;

/// The longest name of an image: a repository of 255 bytes, a tag of 128 and a digest.
const MAX_IMAGE: usize = 512;

/// How long a debug container lasts, in seconds.
const MIN_SECONDS: u32 = 10;
const MAX_SECONDS: u32 = 8 * 3600;

/// A debug container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugContainer {
    /// Its identifier.
    pub id: DebugId,
    /// Its rights.
    pub rights: DebugRights,
    /// How long it lasts at most.
    pub time: DebugTime,
    /// The image that it has.
    pub image: ImageName,
}

impl fmt::Display for DebugContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, rights, time, image } = self;
        write!(f, "{id} {rights} {} {image}", time.seconds())
    }
}

/// The identifier of a debug container, which its program shows to the client that has asked for
/// the container. Nobody can guess it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugId(String);

impl DebugId {
    /// The identifier with these random bytes.
    pub fn new(bytes: [u8; DIGITS / 2]) -> Self {
        Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Reads one.
    ///
    /// # Errors
    /// It is not 32 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match text.len() == DIGITS && text.bytes().all(is_digit) {
            true => Ok(Self(text.to_owned())),
            false => Err(Refusal::malformed(format!(
                "a debug container's identifier is {DIGITS} hexadecimal digits in lower case"
            ))),
        }
    }

    /// The name of its pod, which does not show all of it.
    pub fn pod(&self) -> String {
        format!("debug-{}", &self.0[..DIGITS_IN_NAME])
    }
}

impl fmt::Display for DebugId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The rights of a debug container, each with those of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DebugRights {
    /// It has namespaces of its own, no capability, and no path of the node.
    Restricted,
    /// It has the processes and the network of the node, capabilities to look at them, and the root
    /// of the node for reading.
    Node,
}

impl DebugRights {
    /// Both of them.
    pub const ALL: [DebugRights; 2] = [Self::Restricted, Self::Node];

    /// The word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Restricted => "restricted",
            Self::Node => "node",
        }
    }

    /// Reads the word.
    ///
    /// # Errors
    /// It is another one.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        Self::ALL.into_iter().find(|rights| rights.word() == word).ok_or_else(|| {
            Refusal::malformed("a debug container has the rights `restricted` or `node`")
        })
    }
}

impl fmt::Display for DebugRights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How long a debug container lasts at most: ten seconds at least, eight hours at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugTime(u32);

impl DebugTime {
    /// This number of seconds.
    ///
    /// # Errors
    /// It is less than ten, or more than eight hours.
    pub fn new(seconds: u32) -> Result<Self, Refusal> {
        match (MIN_SECONDS..=MAX_SECONDS).contains(&seconds) {
            true => Ok(Self(seconds)),
            false => Err(Refusal::malformed(format!(
                "a debug container lasts {MIN_SECONDS} to {MAX_SECONDS} seconds"
            ))),
        }
    }

    /// The seconds.
    pub fn seconds(self) -> u32 {
        self.0
    }

    /// The same as a duration.
    pub fn duration(self) -> Duration {
        Duration::from_secs(self.0.into())
    }
}

/// The name of an image as a pod has it: `[HOST[:PORT]/]REPOSITORY[:TAG][@DIGEST]`. It has letters,
/// digits and `._-/:@` only, so it is one word everywhere; the kubelet reads its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName(String);

impl ImageName {
    /// Reads one.
    ///
    /// # Errors
    /// It is empty or longer than 512 bytes, has other characters, or does not begin and end with a
    /// letter or digit.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
        let has_ends = [text.bytes().next(), text.bytes().last()]
            .into_iter()
            .all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()));
        match has_ends && text.len() <= MAX_IMAGE && text.bytes().all(is_allowed) {
            true => Ok(Self(text.to_owned())),
            false => Err(Refusal::malformed(
                "an image is `[HOST/]NAME[:TAG][@DIGEST]`, such as `docker.io/library/busybox:1`",
            )),
        }
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_name_of_the_pod_does_not_show_the_identifier() {
        let id = DebugId::new(*b"0123456789abcdef");
        assert_eq!(id.to_string(), "30313233343536373839616263646566");
        assert_eq!(
            (id.pod().as_str(), DebugId::parse(&id.to_string())),
            ("debug-30313233", Ok(id))
        );
        for wrong in
            ["", "3031", "3031323334353637383961626364656F", "3031323334353637383961626364656g"]
        {
            assert!(DebugId::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn images_of_registries_are_names() {
        for name in [
            "busybox",
            "docker.io/library/busybox:1.37",
            "10.0.2.2:5000/tools/Net:a_b",
            "registry.example/a/b@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        ] {
            assert_eq!(ImageName::parse(name).map(|name| name.to_string()).as_deref(), Ok(name));
        }
        for wrong in ["", "a b", "a\"", "a\nb", "-a", "a:", "a'", "a#b", "a{}", "\u{e4}"] {
            assert!(ImageName::parse(wrong).is_err(), "{wrong:?}");
        }
        assert!(ImageName::parse(&"a".repeat(MAX_IMAGE + 1)).is_err());
    }

    #[test]
    fn the_time_is_bounded() {
        assert_eq!(DebugTime::new(10).map(DebugTime::seconds), Ok(10));
        assert_eq!(DebugTime::new(28_800).map(DebugTime::seconds), Ok(28_800));
        assert!(DebugTime::new(9).is_err() && DebugTime::new(28_801).is_err());
    }

    proptest! {
        #[test]
        fn a_name_is_one_word_of_a_line_and_of_yaml(text in "(?s).{0,40}") {
            if let Ok(name) = ImageName::parse(&text) {
                let name = name.to_string();
                prop_assert!(!name.contains(['"', '\\', ' ', '\n', '#', '$']) && name == text);
            }
        }
    }
}
