//! The message of a static pod, and the pod of the protocol.

use osbuild_cosi::v1::{
    PodAmounts, PodCapabilities, PodContainer as Container, PodEmptyDir, PodExec, PodHostPath,
    PodHttpGet, PodMount, PodPort, PodProbe, PodResources, PodSecurity, PodTcpSocket, PodVariable,
    PodVolume as Volume, StaticPodSpec,
};
use osbuild_protocol::{
    ByteSize, Capability, ContainerPort, ContainerSecurity, CpuTime, ImageName, MountPath,
    PodContainer, PodName, PodNamespace, PodSpec, PodText, PodVolume, PortProtocol, Probe,
    ProbeAction, ProbeTiming, PullPolicy, Refusal, RefusalCode, Resources, RestartPolicy,
    VariableName, VolumeMount, VolumeSource,
};

/// Reads a message.
///
/// # Errors
/// A field is malformed: the reason names a mistake of the pod, of each volume and of each
/// container.
pub fn read(message: &StaticPodSpec) -> Result<PodSpec, Refusal> {
    let mut problems = Vec::new();
    let pod = keep(pod(message), &mut problems);
    let volumes = all(&message.volumes, volume, &mut problems);
    let init_containers = all(&message.init_containers, container, &mut problems);
    let containers = all(&message.containers, container, &mut problems);
    match pod.filter(|_| problems.is_empty()) {
        Some(pod) => Ok(PodSpec { volumes, init_containers, containers, ..pod }),
        None => Err(malformed(problems.join("; "))),
    }
}

fn malformed(reason: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Malformed, reason)
}

fn keep<T>(read: Result<T, Refusal>, problems: &mut Vec<String>) -> Option<T> {
    read.map_err(|refusal| problems.push(refusal.reason)).ok()
}

fn all<M, T>(
    messages: &[M],
    read: fn(&M) -> Result<T, Refusal>,
    problems: &mut Vec<String>,
) -> Vec<T> {
    messages.iter().filter_map(|message| keep(read(message), problems)).collect()
}

/// Reads a text, if there is one.
fn given<T>(text: &str, read: fn(&str) -> Result<T, Refusal>) -> Result<Option<T>, Refusal> {
    (!text.is_empty()).then(|| read(text)).transpose()
}

fn pod(message: &StaticPodSpec) -> Result<PodSpec, Refusal> {
    Ok(PodSpec {
        namespace: PodNamespace::parse(&message.namespace)?,
        host_network: message.host_network,
        host_pid: message.host_pid,
        restart: given(&message.restart_policy, RestartPolicy::parse)?,
        grace_seconds: message.termination_grace_period_seconds,
        ..PodSpec::new(PodName::of_pod(&message.name)?)
    })
}

fn volume(Volume { name, empty_dir, host_path }: &Volume) -> Result<PodVolume, Refusal> {
    let source = match (empty_dir, host_path) {
        (Some(PodEmptyDir { medium, size_limit }), None) => {
            VolumeSource::empty(medium, size_limit)?
        }
        (None, Some(PodHostPath { path })) => VolumeSource::Host(MountPath::parse(path)?),
        _ => {
            let reason = format!("the volume `{name}` has one of `emptyDir` and `hostPath`");
            return Err(malformed(reason));
        }
    };
    Ok(PodVolume { name: PodName::parse(name)?, source })
}

fn container(message: &Container) -> Result<PodContainer, Refusal> {
    let texts = |words: &[String]| -> Result<Vec<PodText>, Refusal> {
        words.iter().map(|word| PodText::new(word)).collect()
    };
    let environment = message
        .env
        .iter()
        .map(|PodVariable { name, value }| Ok((VariableName::parse(name)?, PodText::new(value)?)));
    let ports = message
        .ports
        .iter()
        .map(|PodPort { container_port, protocol }| ContainerPort::new(*container_port, protocol));
    let mounts = message.volume_mounts.iter().map(|PodMount { name, mount_path, read_only }| {
        VolumeMount::new(name, mount_path, *read_only)
    });
    let resources = message.resources.clone().unwrap_or_default();
    let Container { startup_probe, liveness_probe, readiness_probe, .. } = message;
    let probe = |message: &Option<PodProbe>| message.as_ref().map(probe).transpose();
    Ok(PodContainer {
        pull: given(&message.image_pull_policy, PullPolicy::parse)?,
        command: texts(&message.command)?,
        arguments: texts(&message.args)?,
        environment: environment.collect::<Result<_, Refusal>>()?,
        requests: amounts(resources.requests.as_ref())?,
        limits: amounts(resources.limits.as_ref())?,
        ports: ports.collect::<Result<_, _>>()?,
        mounts: mounts.collect::<Result<_, _>>()?,
        security: security(message.security_context.as_ref())?,
        probes: [probe(startup_probe)?, probe(liveness_probe)?, probe(readiness_probe)?],
        ..PodContainer::new(PodName::parse(&message.name)?, ImageName::parse(&message.image)?)
    })
}

fn amounts(message: Option<&PodAmounts>) -> Result<Resources, Refusal> {
    let Some(PodAmounts { cpu, memory }) = message else { return Ok(Resources::default()) };
    Ok(Resources { cpu: given(cpu, CpuTime::parse)?, memory: given(memory, ByteSize::parse)? })
}

fn security(message: Option<&PodSecurity>) -> Result<ContainerSecurity, Refusal> {
    let Some(message) = message else { return Ok(ContainerSecurity::default()) };
    let names = message.capabilities.iter().flat_map(|capabilities| &capabilities.add);
    Ok(ContainerSecurity {
        run_as_user: message.run_as_user,
        run_as_group: message.run_as_group,
        read_only_root: message.read_only_root_filesystem.unwrap_or(true),
        privileged: message.privileged,
        capabilities: names.map(|name| Capability::parse(name)).collect::<Result<_, _>>()?,
    })
}

fn probe(message: &PodProbe) -> Result<Probe, Refusal> {
    let port = |port: u32| u16::try_from(port).map_err(|_| malformed("a port is 1 to 65535"));
    let action = match (&message.exec, &message.http_get, &message.tcp_socket) {
        (Some(PodExec { command }), None, None) => {
            let words = command.iter().map(|word| PodText::new(word));
            ProbeAction::Exec(words.collect::<Result<_, _>>()?)
        }
        (None, Some(get), None) => {
            let path = if get.path.is_empty() { "/" } else { &get.path };
            ProbeAction::HttpGet { port: port(get.port)?, path: PodText::new(path)? }
        }
        (None, None, Some(socket)) => ProbeAction::TcpSocket { port: port(socket.port)? },
        _ => return Err(malformed("a probe has one of `exec`, `httpGet` and `tcpSocket`")),
    };
    let timing = ProbeTiming {
        initial_delay: message.initial_delay_seconds,
        period: message.period_seconds,
        timeout: message.timeout_seconds,
        failures: message.failure_threshold,
    };
    Probe::new(action, timing)
}

/// The message of a pod.
pub fn write(pod: &PodSpec) -> StaticPodSpec {
    let namespace = (!pod.namespace.is_default()).then(|| pod.namespace.as_str().to_owned());
    StaticPodSpec {
        name: pod.name.to_string(),
        namespace: namespace.unwrap_or_default(),
        host_network: pod.host_network,
        host_pid: pod.host_pid,
        restart_policy: pod.restart.map_or("", RestartPolicy::word).to_owned(),
        termination_grace_period_seconds: pod.grace_seconds,
        volumes: pod.volumes.iter().map(write_volume).collect(),
        init_containers: pod.init_containers.iter().map(write_container).collect(),
        containers: pod.containers.iter().map(write_container).collect(),
    }
}

fn write_volume(PodVolume { name, source }: &PodVolume) -> Volume {
    let (empty_dir, host_path) = match source {
        VolumeSource::Empty { in_memory, size } => {
            let medium = if *in_memory { "Memory" } else { "" };
            let size_limit = size.to_string();
            (Some(PodEmptyDir { medium: medium.to_owned(), size_limit }), None)
        }
        VolumeSource::Host(path) => (None, Some(PodHostPath { path: path.to_string() })),
    };
    Volume { name: name.to_string(), empty_dir, host_path }
}

fn write_container(one: &PodContainer) -> Container {
    let texts = |words: &[PodText]| words.iter().map(|word| word.as_str().to_owned()).collect();
    let variables = one.environment.iter().map(|(name, value)| PodVariable {
        name: name.to_string(),
        value: value.as_str().to_owned(),
    });
    let ports = one.ports.iter().map(|port| PodPort {
        container_port: port.port.into(),
        protocol: match port.protocol {
            PortProtocol::Tcp => String::new(),
            other => other.word().to_owned(),
        },
    });
    let mounts = one.mounts.iter().map(|VolumeMount { volume, path, read_only }| PodMount {
        name: volume.to_string(),
        mount_path: path.to_string(),
        read_only: *read_only,
    });
    let [startup_probe, liveness_probe, readiness_probe] =
        one.probes.each_ref().map(|probe| probe.as_ref().map(write_probe));
    let (requests, limits) = (write_amounts(one.requests), write_amounts(one.limits));
    let has_some = requests.is_some() || limits.is_some();
    Container {
        name: one.name.to_string(),
        image: one.image.to_string(),
        image_pull_policy: one.pull.map_or("", PullPolicy::word).to_owned(),
        command: texts(&one.command),
        args: texts(&one.arguments),
        env: variables.collect(),
        resources: has_some.then_some(PodResources { requests, limits }),
        ports: ports.collect(),
        volume_mounts: mounts.collect(),
        security_context: write_security(&one.security),
        startup_probe,
        liveness_probe,
        readiness_probe,
    }
}

fn write_amounts(resources: Resources) -> Option<PodAmounts> {
    let Resources { cpu, memory } = resources;
    (resources != Resources::default()).then(|| PodAmounts {
        cpu: cpu.map(|cpu| cpu.to_string()).unwrap_or_default(),
        memory: memory.map(|memory| memory.to_string()).unwrap_or_default(),
    })
}

fn write_security(security: &ContainerSecurity) -> Option<PodSecurity> {
    let names = security.capabilities.iter().map(|one| one.as_str().to_owned());
    let add: Vec<String> = names.collect();
    (*security != ContainerSecurity::default()).then(|| PodSecurity {
        run_as_user: security.run_as_user,
        run_as_group: security.run_as_group,
        read_only_root_filesystem: (!security.read_only_root).then_some(false),
        privileged: security.privileged,
        capabilities: (!add.is_empty()).then_some(PodCapabilities { add }),
    })
}

fn write_probe(probe: &Probe) -> PodProbe {
    let ProbeTiming { initial_delay, period, timeout, failures } = probe.timing();
    let mut message = PodProbe {
        initial_delay_seconds: initial_delay,
        period_seconds: period,
        timeout_seconds: timeout,
        failure_threshold: failures,
        ..PodProbe::default()
    };
    match probe.action() {
        ProbeAction::Exec(words) => {
            let command = words.iter().map(|word| word.as_str().to_owned()).collect();
            message.exec = Some(PodExec { command });
        }
        ProbeAction::HttpGet { port, path } => {
            let path = path.as_str().to_owned();
            message.http_get = Some(PodHttpGet { path, port: (*port).into() });
        }
        ProbeAction::TcpSocket { port } => {
            message.tcp_socket = Some(PodTcpSocket { port: (*port).into() });
        }
    }
    message
}
