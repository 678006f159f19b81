//! Pods that the node runs by itself: `[[static-pods]]`. Their keys are the fields of a `Pod` of
//! Kubernetes, in kebab-case; their values are those of the specs of `osbuild.v1`.

mod container;
mod probe;

use osbuild_protocol::{
    ByteSize, MAX_STATIC_PODS, MountPath, PodName, PodNamespace, PodSpec, PodVolume, Refusal,
    RestartPolicy, StaticPod, VolumeSource,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use self::container::Container;
use crate::bounded::bounded;

/// A pod as it is written, each of whose values is well-formed.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    #[serde(deserialize_with = "pod_name")]
    name: PodName,
    #[serde(default, deserialize_with = "namespace")]
    namespace: PodNamespace,
    #[serde(default)]
    host_network: bool,
    #[serde(default)]
    host_pid: bool,
    #[serde(default, deserialize_with = "restart")]
    restart_policy: Option<RestartPolicy>,
    termination_grace_period_seconds: Option<u32>,
    #[serde(default)]
    volumes: Vec<Volume>,
    #[serde(default)]
    init_containers: Vec<Container>,
    containers: Vec<Container>,
}

/// A volume as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct VolumeEntry {
    #[serde(deserialize_with = "name")]
    name: PodName,
    empty_dir: Option<EmptyDir>,
    host_path: Option<HostPath>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct EmptyDir {
    #[serde(default)]
    medium: Medium,
    #[serde(default, deserialize_with = "size")]
    size_limit: Option<ByteSize>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
enum Medium {
    #[default]
    #[serde(rename = "")]
    Disk,
    Memory,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostPath {
    #[serde(deserialize_with = "path")]
    path: MountPath,
}

/// A volume with one source.
#[derive(Deserialize)]
#[serde(try_from = "VolumeEntry")]
struct Volume(PodVolume);

impl TryFrom<VolumeEntry> for Volume {
    type Error = String;

    fn try_from(VolumeEntry { name, empty_dir, host_path }: VolumeEntry) -> Result<Self, String> {
        let source = match (empty_dir, host_path) {
            (Some(EmptyDir { medium, size_limit }), None) => {
                VolumeSource::of_empty(medium == Medium::Memory, size_limit)
            }
            (None, Some(HostPath { path })) => VolumeSource::Host(path),
            _ => {
                let reason = format!("the volume `{name}` has one of `empty-dir` and `host-path`");
                return Err(reason);
            }
        };
        Ok(Self(PodVolume { name, source }))
    }
}

/// A pod whose values fit together.
#[derive(Deserialize)]
#[serde(try_from = "Entry")]
struct Pod(StaticPod);

impl TryFrom<Entry> for Pod {
    type Error = String;

    fn try_from(entry: Entry) -> Result<Self, String> {
        let spec = PodSpec {
            namespace: entry.namespace,
            host_network: entry.host_network,
            host_pid: entry.host_pid,
            restart: entry.restart_policy,
            grace_seconds: entry.termination_grace_period_seconds,
            volumes: entry.volumes.into_iter().map(|Volume(volume)| volume).collect(),
            init_containers: entry.init_containers.into_iter().map(Container::pod).collect(),
            containers: entry.containers.into_iter().map(Container::pod).collect(),
            ..PodSpec::new(entry.name)
        };
        StaticPod::new(spec).map(Self).map_err(|refusal| refusal.reason)
    }
}

/// Reads pods, of which no two have the same name.
pub fn pods<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<StaticPod>, D::Error> {
    let mut pods: Vec<StaticPod> = Vec::new();
    for Pod(pod) in Vec::<Pod>::deserialize(deserializer)? {
        if pods.iter().any(|other| other.name() == pod.name()) {
            let name = pod.name();
            return Err(D::Error::custom(format!("the static pod `{name}` is there twice")));
        }
        pods.push(pod);
    }
    bounded(pods, MAX_STATIC_PODS, "static pods")
}

/// Reads a text as a type of the protocol, whose refusals are the messages.
fn word<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, Refusal>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    read(&text).map_err(|refusal| D::Error::custom(refusal.reason))
}

fn pod_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PodName, D::Error> {
    word(deserializer, PodName::of_pod)
}

fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PodName, D::Error> {
    word(deserializer, PodName::parse)
}

fn namespace<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PodNamespace, D::Error> {
    word(deserializer, PodNamespace::parse)
}

fn restart<'de, D: Deserializer<'de>>(d: D) -> Result<Option<RestartPolicy>, D::Error> {
    word(d, RestartPolicy::parse).map(Some)
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ByteSize>, D::Error> {
    word(deserializer, ByteSize::parse).map(Some)
}

fn path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MountPath, D::Error> {
    word(deserializer, MountPath::parse)
}

#[cfg(test)]
mod tests {
    use crate::Document;

    const MISTAKES: &str = "\
[[static-pods]]
name = \"Web\"
namespace = \"kube-system\"

[[static-pods.volumes]]
name = \"a\"
secret = { secret-name = \"b\" }

[[static-pods.containers]]
name = \"web\"
image = \"a b\"
env = [{ name = \"7\", value = \"x\" }]
resources = { limits = { memory = \"64mb\" } }
security-context = { capabilities = { add = [\"CAP_CHOWN\"] } }

[[static-pods]]
name = \"two\"

[[static-pods.containers]]
name = \"web\"
image = \"a\"
volume-mounts = [{ name = \"b\", mount-path = \"/b\" }]
";

    #[test]
    fn all_mistakes_of_pods_are_named_at_once_each_at_its_value() {
        let mistakes = Document::mistakes(MISTAKES);
        let places: Vec<&str> = mistakes.iter().map(|one| &MISTAKES[one.span.clone()]).collect();
        let reasons: Vec<&str> = mistakes.iter().map(|one| one.reason.as_str()).collect();
        for (place, reason) in [
            ("\"Web\"", "`Web` is not a name in a static pod"),
            ("\"kube-system\"", "has the node's own pods"),
            ("secret", "unknown field `secret`, expected one of `name`, `empty-dir`, `host-path`"),
            ("\"a b\"", "an image is `[HOST/]NAME[:TAG][@DIGEST]`"),
            ("\"7\"", "`7` is not the name of a variable"),
            ("\"64mb\"", "`64mb` is not a size"),
            ("[\"CAP_CHOWN\"]", "`CAP_CHOWN` is not a capability"),
        ] {
            let at = places.iter().position(|found| *found == place);
            let at = at.unwrap_or_else(|| panic!("{place}: {places:?} {reasons:?}"));
            assert!(reasons[at].contains(reason), "{place}: {}", reasons[at]);
        }
        let mount = "with a mount of the volume `b`, which it lacks";
        assert!(reasons.iter().any(|reason| reason.contains(mount)), "{reasons:?}");
    }

    #[test]
    fn a_pod_that_no_node_can_have_is_refused() {
        let pod = |more: &str, container: &str| {
            format!(
                "[[static-pods]]\nname = \"web\"\n{more}\n[[static-pods.containers]]\n\
                 name = \"web\"\nimage = \"a\"\n{container}\n"
            )
        };
        assert!(Document::parse(&pod("", "")).is_ok());
        for (more, container, reason) in [
            ("host-ipc = true", "", "unknown field `host-ipc`"),
            ("service-account-name = \"a\"", "", "unknown field `service-account-name`"),
            ("priority = 7", "", "unknown field `priority`"),
            ("namespace = \"kube-public\"", "", "has the node's own pods"),
            ("restart-policy = \"never\"", "", "starts again"),
            ("volumes = [{ name = \"a\" }]", "", "one of `empty-dir` and `host-path`"),
            ("", "host-port = 80", "unknown field `host-port`"),
            ("", "ports = [{ container-port = 65536 }]", "65535"),
            ("", "liveness-probe = { tcp-socket = { port = 0 } }", "a probe has a command"),
            ("", "liveness-probe = { period-seconds = 7 }", "one of `exec`"),
            ("", "volume-mounts = [{ name = \"a\", mount-path = \"a\" }]", "not an absolute path"),
            ("", "[[static-pods]]\nname = \"a\"", "missing field `containers`"),
        ] {
            let text = pod(more, container);
            let refusal = Document::parse(&text).unwrap_err();
            assert!(refusal.reason.contains(reason), "{text}: {refusal}");
        }
        let twice = pod("", "").repeat(2);
        assert!(Document::parse(&twice).unwrap_err().reason.contains("`web` is there twice"));
    }
}
