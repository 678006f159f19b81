//! Static pods that settings ask for. They are a closed part of Kubernetes' `Pod`: what is not here
//! cannot be asked for. `init` writes the manifest.

mod container;
mod name;
mod probe;
mod quantity;
mod right;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod volume;
mod words;

pub use container::{
    ContainerPort, ContainerSecurity, PodContainer, PortProtocol, PullPolicy, Resources,
    VariableName, VolumeMount,
};
pub use name::{PodName, PodNamespace};
pub use probe::{Probe, ProbeAction, ProbeTiming};
pub use quantity::{ByteSize, CpuTime};
pub use right::{Capability, PodRight, PodRights};
pub use state::PodState;
pub use text::PodText;
pub use volume::{PodVolume, VolumeSource};

use std::collections::BTreeSet;

use self::container::check_id;
use crate::Refusal;

/// The maximum number of static pods that settings ask for.
pub const MAX_STATIC_PODS: usize = 16;
/// The maximum bytes of a pod's words, so that they fit in the line of a request or a reply.
const MAX_LENGTH: usize = 3584;
/// The maximum number of containers, of init containers, and of volumes.
const MAX_CONTAINERS: usize = 8;
const MAX_VOLUMES: usize = 16;
/// The maximum of entries in a list of a container.
const MAX_ENTRIES: usize = 64;
/// The longest time that a pod may take to end, in seconds.
const MAX_GRACE: u32 = 600;

/// When the kubelet starts a container again that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Always.
    Always,
    /// If it has failed.
    OnFailure,
    /// Never.
    Never,
}

impl RestartPolicy {
    const ALL: [RestartPolicy; 3] = [Self::Always, Self::OnFailure, Self::Never];

    /// The word of Kubernetes.
    pub fn word(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::OnFailure => "OnFailure",
            Self::Never => "Never",
        }
    }

    /// Reads the word.
    ///
    /// # Errors
    /// It is another one.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        Self::ALL.into_iter().find(|one| one.word() == word).ok_or_else(|| {
            Refusal::malformed("a pod starts again `Always`, `OnFailure` or `Never`")
        })
    }
}

/// The fields of a static pod, each of which is well-formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSpec {
    /// Its name. The kubelet adds the name of the node.
    pub name: PodName,
    /// Its namespace.
    pub namespace: PodNamespace,
    /// Whether it is in the network of the node.
    pub host_network: bool,
    /// Whether it sees the processes of the node.
    pub host_pid: bool,
    /// When its containers start again: always, if it says nothing.
    pub restart: Option<RestartPolicy>,
    /// How long it may take to end: 30 seconds, if it says nothing.
    pub grace_seconds: Option<u32>,
    /// Its volumes.
    pub volumes: Vec<PodVolume>,
    /// Containers that run before the others, one after the other.
    pub init_containers: Vec<PodContainer>,
    /// Its containers.
    pub containers: Vec<PodContainer>,
}

impl PodSpec {
    /// A pod with nothing but a name.
    pub fn new(name: PodName) -> Self {
        Self {
            name,
            namespace: PodNamespace::default(),
            host_network: false,
            host_pid: false,
            restart: None,
            grace_seconds: None,
            volumes: Vec::new(),
            init_containers: Vec::new(),
            containers: Vec::new(),
        }
    }

    fn all_containers(&self) -> impl Iterator<Item = &PodContainer> {
        self.init_containers.iter().chain(&self.containers)
    }
}

/// A static pod whose fields fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticPod(PodSpec);

impl StaticPod {
    /// Checks how the fields fit together.
    ///
    /// # Errors
    /// They do not, or there is too much: the reason names all mistakes.
    pub fn new(spec: PodSpec) -> Result<Self, Refusal> {
        let mut problems = problems(&spec);
        let length = words::write(&spec).len();
        if length > MAX_LENGTH {
            problems.push(format!("takes {length} bytes, and may take {MAX_LENGTH}"));
        }
        match problems.is_empty() {
            true => Ok(Self(spec)),
            false => {
                let problems = problems.join(", ");
                Err(Refusal::malformed(format!("the pod `{}` {problems}", spec.name)))
            }
        }
    }

    /// Reads the words after the name.
    pub(super) fn parse_words(name: PodName, words: &str) -> Result<Self, Refusal> {
        Self::new(words::read(name, words)?)
    }

    /// The words that [`Self::parse_words`] reads.
    pub(super) fn words(&self) -> String {
        words::write(&self.0)
    }

    /// The name.
    pub fn name(&self) -> &PodName {
        &self.0.name
    }

    /// The fields.
    pub fn spec(&self) -> &PodSpec {
        &self.0
    }

    /// The rights on the node that it needs.
    pub fn rights(&self) -> BTreeSet<PodRight> {
        let PodSpec { host_network, host_pid, volumes, .. } = &self.0;
        let mut rights = BTreeSet::new();
        rights.extend(host_network.then_some(PodRight::HostNetwork));
        rights.extend(host_pid.then_some(PodRight::HostPid));
        rights.extend(volumes.iter().filter_map(|volume| match &volume.source {
            VolumeSource::Host(path) => Some(PodRight::HostPath(path.clone())),
            VolumeSource::Empty { .. } => None,
        }));
        for ContainerSecurity { privileged, capabilities, .. } in
            self.0.all_containers().map(|one| &one.security)
        {
            rights.extend(privileged.then_some(PodRight::Privileged));
            let more = capabilities.iter().filter(|capability| !capability.is_ordinary());
            rights.extend(more.cloned().map(PodRight::Capability));
        }
        rights
    }
}

/// The mistakes, each as the rest of a sentence about the pod.
fn problems(spec: &PodSpec) -> Vec<String> {
    let mut problems = Vec::new();
    if !(1..=MAX_CONTAINERS).contains(&spec.containers.len())
        || spec.init_containers.len() > MAX_CONTAINERS
    {
        problems.push(format!("has not 1 to {MAX_CONTAINERS} containers"));
    }
    if spec.volumes.len() > MAX_VOLUMES {
        problems.push(format!("has more than {MAX_VOLUMES} volumes"));
    }
    if spec.grace_seconds.is_some_and(|seconds| seconds > MAX_GRACE) {
        problems.push(format!("may take {MAX_GRACE} seconds to end"));
    }
    let twice = twice(spec.all_containers().map(|one| one.name.as_str()));
    problems.extend(twice.map(|name| format!("has two containers `{name}`")));
    let twice = self::twice(spec.volumes.iter().map(|volume| volume.name.as_str()));
    problems.extend(twice.map(|name| format!("has two volumes `{name}`")));
    for one in spec.all_containers() {
        let found = container_problems(one, &spec.volumes).into_iter();
        problems.extend(found.map(|text| format!("has the container `{}` {text}", one.name)));
    }
    let probed = spec.init_containers.iter().filter(|one| one.probes.iter().any(Option::is_some));
    problems.extend(probed.map(|one| format!("has a probe of the init container `{}`", one.name)));
    problems
}

fn container_problems(one: &PodContainer, volumes: &[PodVolume]) -> Vec<String> {
    let mut problems = Vec::new();
    let lengths = [
        one.command.len(),
        one.arguments.len(),
        one.environment.len(),
        one.ports.len(),
        one.mounts.len(),
        one.security.capabilities.len(),
    ];
    if lengths.iter().any(|length| *length > MAX_ENTRIES) {
        problems.push(format!("with a list of more than {MAX_ENTRIES} entries"));
    }
    for mount in &one.mounts {
        if !volumes.iter().any(|volume| volume.name == mount.volume) {
            problems.push(format!("with a mount of the volume `{}`, which it lacks", mount.volume));
        }
    }
    let paths = one.mounts.iter().map(|mount| mount.path.as_str());
    problems.extend(twice(paths).map(|path| format!("with two mounts at `{path}`")));
    let names = one.environment.iter().map(|(name, _)| name.as_str());
    problems.extend(twice(names).map(|name| format!("with two variables `{name}`")));
    let (requests, limits) = (one.requests, one.limits);
    if limits.memory.is_some_and(|limit| requests.memory > Some(limit))
        || limits.cpu.is_some_and(|limit| requests.cpu > Some(limit))
    {
        problems.push("with requests above its limits".to_owned());
    }
    for id in [one.security.run_as_user, one.security.run_as_group] {
        problems.extend(check_id(id).err().map(|refusal| format!("where {}", refusal.reason)));
    }
    problems
}

/// The words that are there twice or more.
fn twice<'a>(words: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let mut known = BTreeSet::new();
    words.filter(move |word| !known.insert(*word))
}

/// Reads decimal digits.
fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}
