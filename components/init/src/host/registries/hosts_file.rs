//! containerd's `hosts.toml` (`https://github.com/containerd/containerd/blob/main/docs/hosts.md`).
//! It is pure.

use std::fmt::Write as _;

use osbuild_protocol::{RegistryCredential, RegistryMirror, RegistryName, RegistryUrl};
use zeroize::Zeroizing;

use super::AUTHORITIES;

/// The registry whose images are on a host of another name.
const HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// The parts of the file of a registry.
pub struct Parts<'a> {
    /// The registry.
    pub registry: &'a RegistryName,
    /// Its mirrors.
    pub mirror: Option<&'a RegistryMirror>,
    /// The credentials of any hosts.
    pub credentials: Vec<&'a RegistryCredential>,
}

impl Parts<'_> {
    /// The text of the file. The URLs and headers have no character that TOML would read in another
    /// way. There are no settings for unverified connections, such as `skip_verify`.
    pub fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(self.server());
        for host in self.mirror.into_iter().flat_map(RegistryMirror::mirrors) {
            let (url, authorities) = (&host.url, self.authorities());
            let capabilities = host.capabilities().join("\", \"");
            let _ = write!(
                text,
                "[host.\"{url}\"]\ncapabilities = [\"{capabilities}\"]\n{authorities}"
            );
            if let Some(credential) = self.for_url(url) {
                header(&mut text, &format!("host.\"{url}\".header"), credential);
            }
        }
        text
    }

    /// Whether the file has a secret.
    pub fn has_secret(&self) -> bool {
        let mirrors = self.mirror.into_iter().flat_map(RegistryMirror::mirrors);
        self.for_server().is_some()
            || mirrors.map(|host| &host.url).any(|url| self.for_url(url).is_some())
    }

    /// The lines about the server that is asked after the mirrors.
    fn server(&self) -> String {
        let named = self.mirror.and_then(RegistryMirror::server);
        let credential = self.for_server();
        let mut text = match (named, credential) {
            // Without this line, the authorities would be those of the registry itself.
            (Some(server), _) => format!("server = \"{server}\"\n{}", self.authorities()),
            // containerd would use a host on the loopback without TLS, or without verifying it.
            (None, Some(credential)) => {
                let scheme = if credential.is_plain_http() { "http" } else { "https" };
                format!("server = \"{scheme}://{}\"\n", host_of(self.registry))
            }
            (None, None) => String::new(),
        };
        if let Some(credential) = credential {
            header(&mut text, "header", credential);
        }
        text
    }

    fn authorities(&self) -> String {
        match self.mirror.is_some_and(|mirror| !mirror.authorities().is_empty()) {
            true => format!("ca = \"{AUTHORITIES}\"\n"),
            false => String::new(),
        }
    }

    /// The credentials of the server.
    fn for_server(&self) -> Option<&RegistryCredential> {
        match self.mirror.and_then(RegistryMirror::server) {
            Some(url) => self.for_url(url),
            None => self.credentials().find(|one| one.registry() == self.registry),
        }
    }

    /// The credentials of the host of a URL, which is used over TLS.
    fn for_url(&self, url: &RegistryUrl) -> Option<&RegistryCredential> {
        self.credentials().find(|one| one.are_for(url))
    }

    fn credentials(&self) -> impl Iterator<Item = &RegistryCredential> {
        self.credentials.iter().copied()
    }
}

/// Adds the header of the requests to one host. Its name has the case of Go's, so that what a
/// registry asks for replaces it.
fn header(text: &mut String, table: &str, credential: &RegistryCredential) {
    let authorization = credential.login().authorization();
    let _ = write!(text, "[{table}]\nAuthorization = \"{}\"\n", *authorization);
}

fn host_of(registry: &RegistryName) -> &str {
    let (name, host) = HUB;
    if registry.as_str() == name { host } else { registry.as_str() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_protocol::Setting;

    /// The text for `registry` with these mirrors, if any, and the credentials of these hosts.
    fn text_with(registry: &str, words: &str, credentials: &[&str]) -> String {
        let mirror = match Setting::parse(&format!("registry-mirror {registry} {words}")) {
            Ok(Setting::RegistryMirror(mirror)) => Some(mirror),
            _ if words.is_empty() => None,
            other => panic!("{words}: {other:?}"),
        };
        let credentials: Vec<RegistryCredential> = credentials
            .iter()
            .map(|words| match Setting::parse(&format!("registry-credential {words}")) {
                Ok(Setting::RegistryCredential(one)) => one,
                other => panic!("{words}: {other:?}"),
            })
            .collect();
        let registry = RegistryName::parse(registry).unwrap();
        let (mirror, credentials) = (mirror.as_ref(), credentials.iter().collect());
        Parts { registry: &registry, mirror, credentials }.text().to_string()
    }

    fn text_of(words: &str) -> String {
        text_with("docker.io", words, &[])
    }

    #[test]
    fn mirrors_come_in_their_order_and_the_server_last() {
        assert_eq!(
            text_of("pull=https://b mirror=https://a:5000/v2/x server=https://c"),
            "server = \"https://c\"\n\
             [host.\"https://b\"]\ncapabilities = [\"pull\"]\n\
             [host.\"https://a:5000/v2/x\"]\ncapabilities = [\"pull\", \"resolve\"]\n"
        );
    }

    #[test]
    fn the_registry_itself_does_not_get_the_authorities_of_its_mirrors() {
        assert_eq!(
            text_of("mirror=https://a ca=MIIB"),
            "[host.\"https://a\"]\ncapabilities = [\"pull\", \"resolve\"]\nca = \"ca.crt\"\n"
        );
        assert_eq!(
            text_of("server=https://c ca=MIIB"),
            "server = \"https://c\"\nca = \"ca.crt\"\n"
        );
    }

    #[test]
    fn a_registry_gets_its_own_credentials_and_its_mirrors_do_not() {
        let mirrors = "mirror=https://a.example pull=https://a.example:5000 ca=MIIB";
        let hub = "docker.io user=b password=Yw==";
        assert_eq!(
            text_with("docker.io", mirrors, &[hub]),
            "server = \"https://registry-1.docker.io\"\n\
             [header]\nAuthorization = \"Basic Yjpj\"\n\
             [host.\"https://a.example\"]\ncapabilities = [\"pull\", \"resolve\"]\n\
             ca = \"ca.crt\"\n\
             [host.\"https://a.example:5000\"]\ncapabilities = [\"pull\"]\nca = \"ca.crt\"\n"
        );
        let text = text_with("docker.io", mirrors, &["a.example:5000 token=t"]);
        assert!(text.ends_with(
            "[host.\"https://a.example:5000\"]\ncapabilities = [\"pull\"]\nca = \"ca.crt\"\n\
             [host.\"https://a.example:5000\".header]\nAuthorization = \"Bearer t\"\n"
        ));
        assert_eq!(text.matches("Authorization").count(), 1);
        let elsewhere = text_with("docker.io", "server=https://c.example", &[hub]);
        assert_eq!(elsewhere, "server = \"https://c.example\"\n");
    }

    #[test]
    fn credentials_without_mirrors_are_sent_over_tls_unless_they_ask_for_plain_http() {
        for (registry, words, server) in [
            ("a.example:5000", "token=t", "https://a.example:5000"),
            ("localhost:5000", "token=t", "https://localhost:5000"),
            ("127.0.0.1:5000", "token=t plain-http", "http://127.0.0.1:5000"),
        ] {
            let expected =
                format!("server = \"{server}\"\n[header]\nAuthorization = \"Bearer t\"\n");
            assert_eq!(text_with(registry, "", &[&format!("{registry} {words}")]), expected);
        }
        assert_eq!(text_with("b.example", "", &["a.example token=t"]), "");
    }
}
