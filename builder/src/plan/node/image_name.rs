//! The names of images as containerd looks them up.

use oci_client::{ParseError, Reference};

/// The name under which containerd looks for an image that a pod calls `name`: it has a registry,
/// and a tag or a digest but not both (`ParseDockerRef` in `github.com/distribution/reference`).
/// The node stores images by the name in the manifest, so a name must be its own normal form.
///
/// # Errors
/// It is not the name of an image.
pub fn normal_form(name: &str) -> Result<String, ParseError> {
    let reference: Reference = name.parse()?;
    // A first part with a capital letter is a registry.
    let (registry, repository) = match reference.repository().split_once('/') {
        Some((first, rest)) if first.contains(|one: char| one.is_ascii_uppercase()) => {
            (first, rest)
        }
        _ => (reference.registry(), reference.repository()),
    };
    Ok(match (reference.digest(), reference.tag()) {
        (Some(digest), _) => format!("{registry}/{repository}@{digest}"),
        (None, tag) => format!("{registry}/{repository}:{}", tag.unwrap_or("latest")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:c3839dd800b9eb7603340509769c43e146a74c63dca3045a8e7dc8ee07e53966";

    #[test]
    fn a_short_name_gets_its_registry_and_its_tag() {
        for (name, normal) in [
            ("nginx", "docker.io/library/nginx:latest".to_owned()),
            ("nginx:1.29", "docker.io/library/nginx:1.29".to_owned()),
            ("docker.io/nginx:1.29", "docker.io/library/nginx:1.29".to_owned()),
            ("index.docker.io/nginx:1.29", "docker.io/library/nginx:1.29".to_owned()),
            ("grafana/agent:1", "docker.io/grafana/agent:1".to_owned()),
            ("localhost/hello", "localhost/hello:latest".to_owned()),
            (&format!("example.org/a:1@{DIGEST}"), format!("example.org/a@{DIGEST}")),
        ] {
            assert_eq!(normal_form(name).unwrap(), normal, "{name}");
        }
    }

    #[test]
    fn a_whole_name_is_its_own_normal_form() {
        for name in [
            "localhost/hello:1",
            "docker.io/library/nginx:1.29",
            "registry:5000/a/b:1",
            "Registry/a:1",
            &format!("example.org/a@{DIGEST}"),
        ] {
            assert_eq!(normal_form(name).unwrap(), name);
        }
        assert!(normal_form("example.org/a:").is_err());
    }
}
