//! The part of a static pod's manifest that the builder reads.

use osbuild_abi::pods::{ANNOTATIONS, RUNS, Runs};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Kubernetes' own priority classes with their numbers ("Guaranteed Scheduling For Critical Add-On
/// Pods" in its documentation).
const CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The part of a manifest that a plan uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// `metadata.name`.
    pub name: String,
    /// Names of the containers, without init containers.
    pub containers: Vec<String>,
    /// Every image, in order of name.
    pub images: Vec<String>,
    /// Whether it uses the node's network, and so needs no network plugin.
    pub host_network: bool,
    /// How it runs.
    pub runs: Runs,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodYaml {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    containers: Vec<Container>,
    #[serde(default)]
    init_containers: Vec<Container>,
    #[serde(default)]
    volumes: Vec<Volume>,
    #[serde(default)]
    host_network: bool,
    priority: Option<i64>,
    priority_class_name: Option<String>,
    restart_policy: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    name: String,
    image: String,
    image_pull_policy: Option<String>,
}

#[derive(Deserialize)]
struct Volume {
    name: String,
    image: Option<ImageVolume>,
}

/// A volume with the files of an image.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageVolume {
    reference: String,
    pull_policy: Option<String>,
}

/// The use of an image by a part of a pod.
struct Use<'a> {
    /// The part, for messages.
    part: String,
    image: &'a str,
    /// The field with the policy.
    field: &'static str,
    policy: Option<&'a str>,
}

impl Spec {
    /// All containers, those that run first included.
    fn all(&self) -> impl Iterator<Item = &Container> {
        self.init_containers.iter().chain(&self.containers)
    }

    fn uses(&self) -> impl Iterator<Item = Use<'_>> {
        let containers = self.all().map(|container| Use {
            part: format!("container `{}`", container.name),
            image: &container.image,
            field: "imagePullPolicy",
            policy: container.image_pull_policy.as_deref(),
        });
        let volumes = self.volumes.iter().filter_map(|volume| {
            let ImageVolume { reference, pull_policy } = volume.image.as_ref()?;
            let (part, policy) = (format!("volume `{}`", volume.name), pull_policy.as_deref());
            Some(Use { part, image: reference, field: "pullPolicy", policy })
        });
        containers.chain(volumes)
    }
}

/// Reads a manifest. An error has one line for each mistake.
pub fn read(text: &str) -> Result<Manifest, Vec<String>> {
    let pod: PodYaml =
        serde_saphyr::from_str(text).map_err(|error| vec![first_line(&error.to_string())])?;
    let mut wrong = Vec::new();
    if (pod.api_version.as_str(), pod.kind.as_str()) != ("v1", "Pod") {
        wrong.push(format!("it is `{}` `{}`, and must be `v1` `Pod`", pod.api_version, pod.kind));
    }
    if pod.spec.containers.is_empty() {
        wrong.push("it has no container".to_owned());
    }
    wrong.extend(not_a_label("the pod", &pod.metadata.name));
    let mut names = BTreeSet::new();
    for container in pod.spec.all() {
        wrong.extend(not_a_label("a container", &container.name));
        if !names.insert(&container.name) {
            wrong.push(format!("two containers are called `{}`", container.name));
        }
    }
    wrong.extend(pod.spec.uses().filter_map(|used| pull_policy(&used)));
    wrong.extend(priority(&pod.spec));
    wrong.extend(annotations(&pod));
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let images: BTreeSet<&str> = pod.spec.uses().map(|used| used.image).collect();
    let runs = pod.metadata.annotations.get(RUNS).and_then(|value| Runs::from_annotation(value));
    Ok(Manifest {
        name: pod.metadata.name,
        containers: pod.spec.containers.iter().map(|container| container.name.clone()).collect(),
        images: images.into_iter().map(str::to_owned).collect(),
        host_network: pod.spec.host_network,
        runs: runs.unwrap_or_default(),
    })
}

/// Refuses a critical class without its number, which no API server fills in for a static pod.
fn priority(spec: &Spec) -> Option<String> {
    let class = spec.priority_class_name.as_deref()?;
    let (_, number) = CLASSES.iter().find(|(name, _)| *name == class)?;
    (spec.priority != Some(*number)).then(|| {
        format!(
            "a pod with `priorityClassName: {class}` needs `priority: {number}`: without it the \
             kubelet ends the pod with the ordinary ones before a shutdown"
        )
    })
}

/// The mistakes in this project's annotations, which are checked as strictly as a recipe.
fn annotations(pod: &PodYaml) -> Vec<String> {
    let ours = pod.metadata.annotations.iter().filter(|(key, _)| key.starts_with(ANNOTATIONS));
    let wrong = ours.filter_map(|(key, value)| match key.as_str() {
        RUNS => match Runs::from_annotation(value) {
            Some(runs) => unfit(pod, runs),
            None => {
                let known = Runs::SET.iter().filter_map(|runs| runs.annotation());
                let known: Vec<String> = known.map(|value| format!("`{value}`")).collect();
                Some(format!("`{RUNS}` must be {}, and is `{value}`", known.join(" or ")))
            }
        },
        key => Some(format!(
            "unknown annotation `{key}`: `{RUNS}` is the only one that begins with `{ANNOTATIONS}`"
        )),
    });
    wrong.collect()
}

/// Refuses a network or a policy that does not fit how the pod runs.
fn unfit(pod: &PodYaml, runs: Runs) -> Option<String> {
    match (runs, pod.spec.restart_policy.as_deref()) {
        (Runs::Once, Some("OnFailure" | "Never")) => None,
        (Runs::Once, policy) => Some(format!(
            "a pod with `{RUNS}: once` needs `restartPolicy: OnFailure` or `Never`: with `{}` the \
             kubelet restarts it",
            policy.unwrap_or("Always")
        )),
        (Runs::First, _) if !pod.spec.host_network => Some(format!(
            "a pod with `{RUNS}: first` needs `hostNetwork: true`: the others wait until it gives \
             the node its network"
        )),
        (Runs::Always | Runs::First | Runs::Unawaited, _) => None,
    }
}

/// Refuses a name that the kubelet refuses: it is no label of DNS (RFC 1123).
fn not_a_label(part: &str, name: &str) -> Option<String> {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = (1..=63).contains(&name.len())
        && name.bytes().all(is_part)
        && !name.starts_with('-')
        && !name.ends_with('-');
    (!is_label).then(|| {
        format!(
            "{part} is called `{name}`, and must have a name of at most 63 small letters, digits \
             and hyphens"
        )
    })
}

/// Refuses a policy that makes the kubelet pull an image: the image is inside the node. Without a
/// policy the tag decides ("Default image pull policy" in
/// <https://kubernetes.io/docs/concepts/containers/images/>).
fn pull_policy(Use { part, image, field, policy }: &Use<'_>) -> Option<String> {
    let tag = image.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    match policy {
        Some("Never" | "IfNotPresent") => None,
        None if tag.is_some_and(|tag| tag != "latest") => None,
        None => Some(format!("{part} needs `{field}: Never`: the kubelet always pulls `{image}`")),
        Some(policy) => {
            Some(format!("{part} must have `{field}: Never` or `IfNotPresent`, and has `{policy}`"))
        }
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  initContainers: [{name: first, image: 'localhost/a:1'}]
  containers:
  - {name: web, image: 'localhost/b:1', imagePullPolicy: Never}
";

    #[test]
    fn init_containers_bring_images_and_are_no_containers_of_the_pod() {
        let manifest = read(POD).unwrap();
        assert_eq!(
            (manifest.containers, manifest.images),
            (vec!["web".to_owned()], vec!["localhost/a:1".to_owned(), "localhost/b:1".to_owned()])
        );
    }

    #[test]
    fn a_policy_that_pulls_is_refused_even_as_the_default() {
        assert!(read(&POD.replace("Never", "Always")).unwrap_err()[0].contains("has `Always`"));
        assert!(
            read(&POD.replace("localhost/a:1", "localhost/a")).unwrap_err()[0]
                .contains("always pulls")
        );
        assert!(read(&POD.replace("localhost/a:1", "localhost:5000/a:latest")).is_err());
    }

    #[test]
    fn the_image_of_a_volume_is_one_of_the_pods() {
        let volumes = "  volumes: [{name: data, image: {reference: 'localhost/c:1'}}]\n";
        let pod = format!("{POD}{volumes}");
        assert_eq!(read(&pod).unwrap().images, ["localhost/a:1", "localhost/b:1", "localhost/c:1"]);
        assert_eq!(
            read(&pod.replace("c:1", "c:latest")).unwrap_err(),
            ["volume `data` needs `pullPolicy: Never`: the kubelet always pulls \
                 `localhost/c:latest`"]
        );
    }

    #[test]
    fn a_name_that_the_kubelet_refuses_is_refused() {
        let wrong = read(&POD.replace("- {name: web", "- {name: Web_1")).unwrap_err();
        assert!(wrong[0].starts_with("a container is called `Web_1`, and must"), "{wrong:?}");
        let long = "a".repeat(64);
        let wrong =
            read(&POD.replace("metadata: {name: web}", &format!("metadata: {{name: {long}}}")));
        assert!(wrong.unwrap_err()[0].starts_with("the pod is called"));
    }

    #[test]
    fn a_repeated_container_name_and_another_kind_are_refused_together() {
        let wrong =
            read(&POD.replace("kind: Pod", "kind: Deployment").replace("name: first", "name: web"))
                .unwrap_err();
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }

    #[test]
    fn a_pod_that_runs_once_needs_a_policy_that_does_not_restart_it() {
        let once = POD.replace("{name: web}\n", "{name: web, annotations: {osbuild/runs: once}}\n");
        assert_eq!(read(POD).unwrap().runs, Runs::Always);
        let fails = once.replace("spec:\n", "spec:\n  restartPolicy: OnFailure\n");
        assert_eq!(read(&fails).unwrap().runs, Runs::Once);
        assert_eq!(read(&once.replace(": once", ": unawaited")).unwrap().runs, Runs::Unawaited);
        assert!(read(&once).unwrap_err()[0].contains("with `Always` the kubelet restarts it"));
        assert_eq!(
            read(&once.replace(": once", ": twice")).unwrap_err(),
            ["`osbuild/runs` must be `first` or `once` or `unawaited`, and is `twice`"]
        );
        assert!(
            read(&once.replace("osbuild/runs", "osbuild/run")).unwrap_err()[0]
                .starts_with("unknown annotation `osbuild/run`")
        );
        assert!(
            read(
                &POD.replace(
                    "{name: web}\n",
                    "{name: web, annotations: {example.com/runs: often}}\n"
                )
            )
            .is_ok()
        );
    }

    #[test]
    fn a_pod_that_runs_first_needs_the_network_of_the_node() {
        let first =
            POD.replace("{name: web}\n", "{name: web, annotations: {osbuild/runs: first}}\n");
        assert!(read(&first).unwrap_err()[0].contains("needs `hostNetwork: true`"));
        let on_host = first.replace("spec:\n", "spec:\n  hostNetwork: true\n");
        assert_eq!(read(&on_host).unwrap().runs, Runs::First);
    }

    #[test]
    fn a_critical_class_needs_its_number() {
        let with = |lines: &str| read(&POD.replace("spec:\n", &format!("spec:\n{lines}")));
        let class = "  priorityClassName: system-node-critical\n";
        assert!(with(class).unwrap_err()[0].contains("needs `priority: 2000001000`"));
        assert!(with(&format!("{class}  priority: 1000\n")).is_err());
        assert!(with(&format!("{class}  priority: 2000001000\n")).is_ok());
        assert!(with("  priorityClassName: mine\n").is_ok());
    }

    #[test]
    fn invalid_yaml_names_the_line() {
        assert!(read("apiVersion: v1\nkind: [Pod\n").unwrap_err()[0].contains("line"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in ".*") {
            let _ = read(&text);
        }
    }
}
