//! A static pod as the words of a line. Words of the pod come first; `container=NAME` and
//! `init-container=NAME` begin a container, whose words follow. An unknown word is refused.

use super::container::check_id;
use super::right::Capability;
use super::{
    ByteSize, ContainerPort, CpuTime, MAX_CONTAINERS, MAX_VOLUMES, PodContainer, PodName,
    PodNamespace, PodSpec, PodText, PodVolume, Probe, PullPolicy, RestartPolicy, VariableName,
    VolumeMount, VolumeSource, number,
};
use crate::setting::MountPath;
use crate::{ImageName, Refusal};

/// The words of a pod after its name.
pub(super) fn write(pod: &PodSpec) -> String {
    let PodSpec { name: _, namespace, host_network, host_pid, restart, grace_seconds, .. } = pod;
    let mut words = Vec::new();
    if !namespace.is_default() {
        words.push(format!("namespace={}", namespace.as_str()));
    }
    words.extend(host_network.then(|| "host-network".to_owned()));
    words.extend(host_pid.then(|| "host-pid".to_owned()));
    words.extend(restart.map(|restart| format!("restart={}", restart.word())));
    words.extend(grace_seconds.map(|seconds| format!("grace={seconds}")));
    words.extend(pod.volumes.iter().map(volume));
    for (word, containers) in
        [("init-container", &pod.init_containers), ("container", &pod.containers)]
    {
        for one in containers {
            words.push(format!("{word}={}", one.name));
            container(one, &mut words);
        }
    }
    words.join(" ")
}

fn volume(PodVolume { name, source }: &PodVolume) -> String {
    match source {
        VolumeSource::Empty { in_memory: true, size } => format!("volume={name}:memory:{size}"),
        VolumeSource::Empty { in_memory: false, size } => format!("volume={name}:disk:{size}"),
        VolumeSource::Host(path) => format!("volume={name}:host:{path}"),
    }
}

fn container(one: &PodContainer, words: &mut Vec<String>) {
    words.push(format!("image={}", one.image));
    words.extend(one.pull.map(|pull| format!("pull={}", pull.word())));
    words.extend(one.command.iter().map(|text| format!("command={}", text.escaped())));
    words.extend(one.arguments.iter().map(|text| format!("arg={}", text.escaped())));
    let variables = one.environment.iter();
    words.extend(variables.map(|(name, text)| format!("env={name}={}", text.escaped())));
    for (kind, resources) in [("request", one.requests), ("limit", one.limits)] {
        words.extend(resources.cpu.map(|cpu| format!("{kind}-cpu={cpu}")));
        words.extend(resources.memory.map(|memory| format!("{kind}-memory={memory}")));
    }
    let ports = one.ports.iter();
    words.extend(ports.map(|port| format!("port={}/{}", port.port, port.protocol.word())));
    words.extend(one.mounts.iter().map(|VolumeMount { volume, path, read_only }| {
        format!("mount={volume}:{}:{path}", if *read_only { "ro" } else { "rw" })
    }));
    let security = &one.security;
    words.extend(security.run_as_user.map(|user| format!("user={user}")));
    words.extend(security.run_as_group.map(|group| format!("group={group}")));
    words.extend((!security.read_only_root).then(|| "writable-root".to_owned()));
    words.extend(security.privileged.then(|| "privileged".to_owned()));
    words.extend(security.capabilities.iter().map(|one| format!("capability={}", one.as_str())));
    for (kind, probe) in Probe::KINDS.into_iter().zip(&one.probes) {
        words.extend(probe.as_ref().map(|probe| format!("{kind}={}", probe.word())));
    }
}

/// Reads what [`write`] writes.
pub(super) fn read(name: PodName, words: &str) -> Result<PodSpec, Refusal> {
    let mut pod = PodSpec::new(name);
    let mut current = Current::Pod;
    for word in words.split(' ') {
        let (key, value) =
            word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
        match (key, value) {
            ("container" | "init-container", Some(name)) => {
                current.end(&mut pod)?;
                current = Current::Container {
                    is_init: key == "init-container",
                    name: PodName::parse(name)?,
                    container: None,
                };
            }
            _ => match &mut current {
                Current::Pod => read_pod(&mut pod, key, value)?,
                Current::Container { name, container: None, .. } => {
                    let ("image", Some(image)) = (key, value) else { return Err(unknown(word)) };
                    let container = PodContainer::new(name.clone(), ImageName::parse(image)?);
                    current.set(container);
                }
                Current::Container { container: Some(one), .. } => {
                    read_container(one, key, value)?;
                }
            },
        }
    }
    current.end(&mut pod)?;
    Ok(pod)
}

/// The part of a pod whose words are being read.
enum Current {
    Pod,
    /// A container, which exists once its image is known.
    Container {
        is_init: bool,
        name: PodName,
        container: Option<Box<PodContainer>>,
    },
}

impl Current {
    fn set(&mut self, new: PodContainer) {
        if let Self::Container { container, .. } = self {
            *container = Some(Box::new(new));
        }
    }

    fn end(&mut self, pod: &mut PodSpec) -> Result<(), Refusal> {
        let Self::Container { is_init, name, container } = self else { return Ok(()) };
        let Some(container) = container.take() else {
            return Err(Refusal::malformed(format!("the container `{name}` has no image")));
        };
        // One more than there may be is a problem of the pod; others take no memory.
        if pod.all_containers().count() > 2 * MAX_CONTAINERS {
            return Err(Refusal::malformed("the pod has too many containers"));
        }
        match is_init {
            true => pod.init_containers.push(*container),
            false => pod.containers.push(*container),
        }
        Ok(())
    }
}

fn read_pod(pod: &mut PodSpec, key: &str, value: Option<&str>) -> Result<(), Refusal> {
    match (key, value) {
        ("namespace", Some(namespace)) => pod.namespace = PodNamespace::parse(namespace)?,
        ("host-network", None) => pod.host_network = true,
        ("host-pid", None) => pod.host_pid = true,
        ("restart", Some(word)) => pod.restart = Some(RestartPolicy::parse(word)?),
        ("grace", Some(seconds)) => {
            pod.grace_seconds = Some(number(seconds).ok_or_else(|| unknown(key))?);
        }
        ("volume", Some(_)) if pod.volumes.len() > MAX_VOLUMES => {
            return Err(Refusal::malformed("the pod has too many volumes"));
        }
        ("volume", Some(value)) => pod.volumes.push(read_volume(value)?),
        _ => return Err(unknown(key)),
    }
    Ok(())
}

fn read_volume(value: &str) -> Result<PodVolume, Refusal> {
    let parts: Vec<&str> = value.splitn(3, ':').collect();
    let [name, kind, rest] = parts[..] else { return Err(unknown("volume")) };
    let source = match kind {
        "memory" => VolumeSource::empty("Memory", rest)?,
        "disk" => VolumeSource::empty("", rest)?,
        "host" => VolumeSource::Host(MountPath::parse(rest)?),
        _ => return Err(unknown("volume")),
    };
    Ok(PodVolume { name: PodName::parse(name)?, source })
}

fn read_container(one: &mut PodContainer, key: &str, value: Option<&str>) -> Result<(), Refusal> {
    let id = |value: &str| number(value).ok_or_else(|| unknown(key));
    match (key, value) {
        ("pull", Some(word)) => one.pull = Some(PullPolicy::parse(word)?),
        ("command", Some(text)) => one.command.push(PodText::unescape(text)?),
        ("arg", Some(text)) => one.arguments.push(PodText::unescape(text)?),
        ("env", Some(pair)) => {
            let (name, text) = pair.split_once('=').ok_or_else(|| unknown(key))?;
            one.environment.push((VariableName::parse(name)?, PodText::unescape(text)?));
        }
        ("request-cpu", Some(text)) => one.requests.cpu = Some(CpuTime::parse(text)?),
        ("request-memory", Some(text)) => one.requests.memory = Some(ByteSize::parse(text)?),
        ("limit-cpu", Some(text)) => one.limits.cpu = Some(CpuTime::parse(text)?),
        ("limit-memory", Some(text)) => one.limits.memory = Some(ByteSize::parse(text)?),
        ("port", Some(text)) => {
            let (port, protocol) = text.split_once('/').ok_or_else(|| unknown(key))?;
            one.ports.push(ContainerPort::new(id(port)?, protocol)?);
        }
        ("mount", Some(text)) => one.mounts.push(read_mount(text)?),
        ("user", Some(text)) => one.security.run_as_user = Some(id(text)?),
        ("group", Some(text)) => one.security.run_as_group = Some(id(text)?),
        ("writable-root", None) => one.security.read_only_root = false,
        ("privileged", None) => one.security.privileged = true,
        ("capability", Some(name)) => one.security.capabilities.push(Capability::parse(name)?),
        (_, Some(probe)) => {
            let kind = Probe::KINDS.iter().position(|kind| *kind == key);
            one.probes[kind.ok_or_else(|| unknown(key))?] = Some(Probe::of_word(probe)?);
        }
        _ => return Err(unknown(key)),
    }
    check_id(one.security.run_as_user).and_then(|()| check_id(one.security.run_as_group))
}

fn read_mount(text: &str) -> Result<VolumeMount, Refusal> {
    let parts: Vec<&str> = text.splitn(3, ':').collect();
    match parts[..] {
        [volume, "ro", path] => VolumeMount::new(volume, path, true),
        [volume, "rw", path] => VolumeMount::new(volume, path, false),
        _ => Err(unknown("mount")),
    }
}

fn unknown(word: &str) -> Refusal {
    let start: String = word.chars().take(32).collect();
    Refusal::malformed(format!("`{start}` is not a word of a static pod here"))
}
