//! The names of images as containerd looks them up.

/// The registry of a name without one.
const REGISTRY: &str = "docker.io";
/// Its folder for a name of one part.
const FOLDER: &str = "library/";

/// The name under which containerd looks for an image that a pod calls `name`: it has a registry,
/// and a tag or a digest but not both (`ParseDockerRef` in `github.com/distribution/reference`).
/// The node stores images by the name in the manifest, so a name must be its own normal form.
pub fn normal_form(name: &str) -> String {
    let (name, digest) = match name.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (name, None),
    };
    // A colon before the last slash belongs to the registry's port.
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match name[last..].split_once(':') {
        Some((part, tag)) => (&name[..last + part.len()], tag),
        None => (name, "latest"),
    };
    let end = digest.map_or_else(|| format!(":{tag}"), |digest| format!("@{digest}"));
    let is_registry = |first: &str| {
        first == "localhost"
            || first.contains(['.', ':'])
            || first.contains(|letter: char| letter.is_ascii_uppercase())
    };
    let (registry, path) = match name.split_once('/') {
        Some(("index.docker.io", path)) => (REGISTRY, path),
        Some((first, path)) if is_registry(first) => (first, path),
        _ => (REGISTRY, name),
    };
    let folder = if registry == REGISTRY && !path.contains('/') { FOLDER } else { "" };
    format!("{registry}/{folder}{path}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_name_gets_its_registry_and_its_tag() {
        for (name, normal) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1.29", "docker.io/library/nginx:1.29"),
            ("docker.io/nginx:1.29", "docker.io/library/nginx:1.29"),
            ("index.docker.io/nginx:1.29", "docker.io/library/nginx:1.29"),
            ("grafana/agent:1", "docker.io/grafana/agent:1"),
            ("localhost/hello", "localhost/hello:latest"),
            ("example.org/a:1@sha256:00", "example.org/a@sha256:00"),
        ] {
            assert_eq!(normal_form(name), normal, "{name}");
        }
    }

    #[test]
    fn a_whole_name_is_its_own_normal_form() {
        for name in [
            "localhost/hello:1",
            "docker.io/library/nginx:1.29",
            "registry:5000/a/b:1",
            "example.org/a@sha256:00",
        ] {
            assert_eq!(normal_form(name), name);
        }
    }
}
