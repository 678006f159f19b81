//! containerd's `hosts.toml` (`https://github.com/containerd/containerd/blob/main/docs/hosts.md`).
//! It is pure.

use std::fmt::Write as _;

use osbuild_protocol::RegistryMirror;

use super::AUTHORITIES;

/// The text of the file. The URLs have no character that TOML would read in another way. There are
/// no settings for unverified connections, such as `skip_verify` and plain HTTP.
pub fn text(mirror: &RegistryMirror) -> String {
    let authorities = match mirror.authorities().is_empty() {
        true => String::new(),
        false => format!("ca = \"{AUTHORITIES}\"\n"),
    };
    let mut text = String::new();
    if let Some(server) = mirror.server() {
        // Without this line, the authorities would be those of the registry itself.
        let _ = write!(text, "server = \"{server}\"\n{authorities}");
    }
    for host in mirror.mirrors() {
        let capabilities = host.capabilities().join("\", \"");
        let _ = write!(
            text,
            "[host.\"{}\"]\ncapabilities = [\"{capabilities}\"]\n{authorities}",
            host.url
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_protocol::Setting;

    fn text_of(words: &str) -> String {
        match Setting::parse(&format!("registry-mirror docker.io {words}")) {
            Ok(Setting::RegistryMirror(mirror)) => text(&mirror),
            other => panic!("{words}: {other:?}"),
        }
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
}
