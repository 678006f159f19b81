//! From where containerd pulls the images of a registry: mirrors in their order, and then a server;
//! and the credentials of such hosts.

mod credential;
mod host;
mod name;

pub use credential::{MAX_CREDENTIALS, RegistryCredential, RegistryLogin};
pub use host::{MirrorHost, RegistryUrl};
pub use name::RegistryName;

use super::Authorities;
use crate::Refusal;

/// The maximum number of registries whose mirrors `init` holds.
pub const MAX_REGISTRIES: usize = 8;
/// The maximum number of mirrors of a registry.
const MAX_MIRRORS: usize = 8;
/// The maximum bytes of a value, so that it fits in the line of a request or a reply.
const MAX_LENGTH: usize = 3584;

/// A mirror that may be asked for what a tag means, and one that may not.
const MIRROR: &str = "mirror";
const PULL: &str = "pull";
const SERVER: &str = "server";
const AUTHORITIES: &str = "ca";

/// From where the images of one registry come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryMirror {
    registry: RegistryName,
    mirrors: Vec<MirrorHost>,
    server: Option<RegistryUrl>,
    authorities: Authorities,
}

impl RegistryMirror {
    /// Combines what was read.
    ///
    /// # Errors
    /// There is neither a mirror nor a server, a mirror is there twice, there are more than 8, or
    /// all of it is too long.
    pub fn new(
        registry: RegistryName,
        mirrors: Vec<MirrorHost>,
        server: Option<RegistryUrl>,
        authorities: Authorities,
    ) -> Result<Self, Refusal> {
        if mirrors.is_empty() && server.is_none() {
            let reason = format!("`{registry}` has neither a mirror nor a server");
            return Err(Refusal::malformed(reason));
        }
        if mirrors.len() > MAX_MIRRORS {
            let reason = format!("`{registry}` has more than {MAX_MIRRORS} mirrors");
            return Err(Refusal::malformed(reason));
        }
        let is_twice = |(index, host): (usize, &MirrorHost)| {
            mirrors[..index].iter().any(|other| other.url == host.url)
        };
        if let Some(index) = mirrors.iter().enumerate().position(is_twice) {
            let reason = format!("the mirror `{}` is there twice", mirrors[index].url);
            return Err(Refusal::malformed(reason));
        }
        let whole = Self { registry, mirrors, server, authorities };
        match whole.words().len() <= MAX_LENGTH {
            true => Ok(whole),
            false => Err(Refusal::malformed(format!(
                "the mirrors and certificates of `{}` take more than {MAX_LENGTH} bytes",
                whole.registry
            ))),
        }
    }

    /// Reads the words after the registry: `[mirror=URL|pull=URL …] [server=URL] [ca=BASE64,…]`.
    pub(super) fn parse_words(registry: RegistryName, words: &str) -> Result<Self, Refusal> {
        let (mut mirrors, mut server, mut authorities) = (Vec::new(), None, None);
        for word in words.split(' ') {
            let is_new = match word.split_once('=').unwrap_or((word, "")) {
                (key @ (MIRROR | PULL), url) => {
                    let url = RegistryUrl::parse(url)?;
                    mirrors.push(MirrorHost { url, resolves: key == MIRROR });
                    true
                }
                (SERVER, url) => server.replace(RegistryUrl::parse(url)?).is_none(),
                (AUTHORITIES, text) => authorities.replace(Authorities::parse(text)?).is_none(),
                _ => false,
            };
            if !is_new {
                let form = "mirrors are `registry-mirror REGISTRY [mirror=URL|pull=URL …] \
                            [server=URL] [ca=BASE64,…]`";
                return Err(Refusal::malformed(form));
            }
        }
        Self::new(registry, mirrors, server, authorities.unwrap_or_default())
    }

    /// The registry.
    pub fn registry(&self) -> &RegistryName {
        &self.registry
    }

    /// Its mirrors, in the order in which they are asked.
    pub fn mirrors(&self) -> &[MirrorHost] {
        &self.mirrors
    }

    /// The server that is asked after them, if it is not the registry itself.
    pub fn server(&self) -> Option<&RegistryUrl> {
        self.server.as_ref()
    }

    /// The certificate authorities of the mirrors and of that server, beside the usual ones.
    pub fn authorities(&self) -> &Authorities {
        &self.authorities
    }

    /// The words that [`Self::parse_words`] reads.
    pub(super) fn words(&self) -> String {
        let mirrors = self.mirrors.iter().map(|MirrorHost { url, resolves }| match resolves {
            true => format!("{MIRROR}={url}"),
            false => format!("{PULL}={url}"),
        });
        let server = self.server.iter().map(|url| format!("{SERVER}={url}"));
        let authorities = match self.authorities.is_empty() {
            true => None,
            false => Some(format!("{AUTHORITIES}={}", self.authorities)),
        };
        mirrors.chain(server).chain(authorities).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<RegistryMirror, Refusal> {
        RegistryMirror::parse_words(RegistryName::parse("docker.io").unwrap(), words)
    }

    #[test]
    fn mirrors_keep_their_order_and_the_rest_has_one_place() {
        let words = "ca=MIIB server=https://c pull=https://b mirror=https://a";
        let expected = "pull=https://b mirror=https://a server=https://c ca=MIIB";
        assert_eq!(read(words).unwrap().words(), expected);
    }

    #[test]
    fn a_registry_has_a_server_or_some_mirrors_each_of_them_once() {
        assert!(read("server=https://a").is_ok());
        let many = |count| (0..count).map(|n| format!("mirror=https://m{n}")).collect::<Vec<_>>();
        assert!(read(&many(MAX_MIRRORS).join(" ")).is_ok());
        for words in [
            "",
            "ca=MIIB",
            "mirror=https://a pull=https://a",
            "server=https://a server=https://b",
            "mirror=https://a ca=MIIB ca=MIIB",
            "mirror=https://a  server=https://b",
            "mirror=https://a skip_verify=true",
            "mirror=https://a header=x",
            &many(MAX_MIRRORS + 1).join(" "),
            &format!("mirror=https://a ca=MI{}", "A".repeat(MAX_LENGTH - 2)),
        ] {
            assert!(read(words).is_err(), "{words}");
        }
    }
}
