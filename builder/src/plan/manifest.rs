//! What the builder has to know of a static pod's manifest.

use serde::Deserialize;
use std::collections::BTreeSet;

/// The part of a manifest that a plan looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    /// `metadata.name`.
    pub name: String,
    /// Names of the containers, without init containers.
    pub containers: Vec<String>,
    /// Every image, in order of name.
    pub images: Vec<String>,
    /// Whether it has the node's network, and so needs no network plugin.
    pub host_network: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    containers: Vec<Container>,
    #[serde(default)]
    init_containers: Vec<Container>,
    #[serde(default)]
    host_network: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    name: String,
    image: String,
    image_pull_policy: Option<String>,
}

/// Reads a manifest. Everything that is wrong with it comes back, a line each.
pub(super) fn read(text: &str) -> Result<Manifest, Vec<String>> {
    let pod: Written = serde_saphyr::from_str(text).map_err(|error| vec![first_line(&error.to_string())])?;
    let mut wrong = Vec::new();
    if (pod.api_version.as_str(), pod.kind.as_str()) != ("v1", "Pod") {
        wrong.push(format!("it is `{}` `{}`, and must be `v1` `Pod`", pod.api_version, pod.kind));
    }
    if pod.spec.containers.is_empty() {
        wrong.push("it has no container".to_owned());
    }
    let all = || pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let mut names = BTreeSet::new();
    for container in all() {
        if !names.insert(&container.name) {
            wrong.push(format!("two containers are called `{}`", container.name));
        }
        wrong.extend(pull_policy(container));
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let images: BTreeSet<&String> = all().map(|container| &container.image).collect();
    Ok(Manifest {
        name: pod.metadata.name,
        containers: pod.spec.containers.iter().map(|container| container.name.clone()).collect(),
        images: images.into_iter().cloned().collect(),
        host_network: pod.spec.host_network,
    })
}

/// The image is inside the node, so nothing may make the kubelet fetch it. Without a policy the tag decides
/// (<https://kubernetes.io/docs/concepts/containers/images/#imagepullpolicy-defaulting>).
fn pull_policy(container: &Container) -> Option<String> {
    let Container { name, image, image_pull_policy } = container;
    let tag = image.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    match image_pull_policy.as_deref() {
        Some("Never" | "IfNotPresent") => None,
        None if tag.is_some_and(|tag| tag != "latest") => None,
        None => Some(format!("container `{name}` needs `imagePullPolicy: Never`: the kubelet always fetches `{image}`")),
        Some(policy) => {
            Some(format!("container `{name}` must have `imagePullPolicy: Never` or `IfNotPresent`, and has `{policy}`"))
        }
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  initContainers: [{name: first, image: 'localhost/a:1'}]\n  containers:\n  - {name: web, image: 'localhost/b:1', imagePullPolicy: Never}\n";

    #[test]
    fn init_containers_bring_images_and_are_not_waited_for() {
        let manifest = read(POD).unwrap();
        assert_eq!(
            (manifest.containers, manifest.images),
            (vec!["web".to_owned()], vec!["localhost/a:1".to_owned(), "localhost/b:1".to_owned()])
        );
    }

    #[test]
    fn a_policy_that_fetches_is_refused_also_when_it_is_the_default() {
        assert!(read(&POD.replace("Never", "Always")).unwrap_err()[0].contains("has `Always`"));
        assert!(read(&POD.replace("localhost/a:1", "localhost/a")).unwrap_err()[0].contains("always fetches"));
        assert!(read(&POD.replace("localhost/a:1", "localhost:5000/a:latest")).is_err());
    }

    #[test]
    fn two_containers_of_one_name_and_another_kind_are_refused_together() {
        let wrong = read(&POD.replace("kind: Pod", "kind: Deployment").replace("name: first", "name: web")).unwrap_err();
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }

    #[test]
    fn yaml_that_is_none_names_the_line() {
        assert!(read("apiVersion: v1\nkind: [Pod\n").unwrap_err()[0].contains("line"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in ".*") {
            let _ = read(&text);
        }
    }
}
