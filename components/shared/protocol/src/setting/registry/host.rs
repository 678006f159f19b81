//! The hosts from which images come.

use std::fmt;

use super::super::host::is_authority;
use crate::Refusal;

/// The maximum bytes of a URL.
const MAX_URL: usize = 512;
const SCHEME: &str = "https://";
/// The capabilities of a host that serves images, as containerd's `hosts.toml` names them.
const CAPABILITIES: [&str; 2] = ["pull", "resolve"];

/// The `https` URL of a host that serves images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryUrl(String);

/// A mirror of a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorHost {
    /// Where it is.
    pub url: RegistryUrl,
    /// Whether it may say which image a tag means. What it serves otherwise is compared with a
    /// hash.
    pub resolves: bool,
}

impl RegistryUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// It is not `https://HOST[:PORT][/PATH]` in at most 512 bytes, the host in lower case, and the
    /// path without a slash at its end.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_url = text.len() <= MAX_URL && text.strip_prefix(SCHEME).is_some_and(is_place);
        match is_url {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(64).collect();
                let reason =
                    format!("`{start}` is not the URL of a mirror: `https://HOST[:PORT][/PATH]`");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// The URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The host, and the port if there is one.
    pub fn authority(&self) -> &str {
        let place = self.0.strip_prefix(SCHEME).unwrap_or(&self.0);
        place.split_once('/').map_or(place, |(authority, _)| authority)
    }
}

impl fmt::Display for RegistryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl MirrorHost {
    /// Reads a URL, and for what the host may be asked: `pull`, and perhaps `resolve`. Both, if
    /// there is none of them.
    ///
    /// # Errors
    /// The URL is malformed, `pull` is missing, or something else is there.
    pub fn parse<'a>(
        url: &str,
        capabilities: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, Refusal> {
        let url = RegistryUrl::parse(url)?;
        match capabilities.into_iter().collect::<Vec<_>>().as_slice() {
            [] | ["pull", "resolve"] | ["resolve", "pull"] => Ok(Self { url, resolves: true }),
            ["pull"] => Ok(Self { url, resolves: false }),
            _ => {
                let reason = format!("`{url}` is a mirror for `pull`, or for `pull` and `resolve`");
                Err(Refusal::malformed(reason))
            }
        }
    }

    /// For what the host may be asked.
    pub fn capabilities(&self) -> &'static [&'static str] {
        match self.resolves {
            true => &CAPABILITIES,
            false => &CAPABILITIES[..1],
        }
    }
}

/// Whether this is what follows the scheme of a URL.
fn is_place(text: &str) -> bool {
    let (authority, path) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let is_part = |part: &str| !matches!(part, "" | "." | "..") && part.bytes().all(is_known);
    is_authority(authority) && path.is_none_or(|path| path.split('/').all(is_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_has_an_https_url_without_credentials_and_query() {
        for text in [
            "https://mirror.example",
            "https://192.0.2.7:5000",
            "https://[2001:db8::7]:5000/v2/docker",
            "https://a/b_c~d/e.f",
        ] {
            assert_eq!(RegistryUrl::parse(text).unwrap().as_str(), text);
        }
        let long = format!("https://a/{}", "b".repeat(MAX_URL));
        for text in [
            "",
            "mirror.example",
            "http://mirror.example",
            "https://",
            "https://u:p@a",
            "https://a?b",
            "https://a#b",
            "https://a/",
            "https://a//b",
            "https://a/../b",
            "https://a/%2e",
            "https://a:0",
            "https://a:5000x",
            "https://[a]",
            "https://[::1",
            "https://[::1]5000",
            "https://A",
            "https://a\"]\nserver = \"b",
            "https://a\\",
            &long,
        ] {
            assert!(RegistryUrl::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_mirror_is_never_pushed_to() {
        let read = |words: &[&str]| MirrorHost::parse("https://a", words.iter().copied());
        assert!(read(&[]).unwrap().resolves && read(&["resolve", "pull"]).unwrap().resolves);
        assert_eq!(read(&["pull"]).unwrap().capabilities(), ["pull"]);
        for words in [&["push"][..], &["pull", "push"], &["resolve"], &["pull", "pull"]] {
            assert!(read(words).is_err(), "{words:?}");
        }
    }
}
