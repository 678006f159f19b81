//! The containers of `[[static-pods]]`.

use osbuild_protocol::{
    ByteSize, Capability, ContainerPort, ContainerSecurity, CpuTime, ImageName, PodContainer,
    PodName, PodText, PullPolicy, Resources, VariableName, VolumeMount,
};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::probe::{Probe, optional};
use super::word;

/// A container as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Container {
    #[serde(deserialize_with = "super::name")]
    name: PodName,
    #[serde(deserialize_with = "image")]
    image: ImageName,
    #[serde(default, deserialize_with = "pull")]
    image_pull_policy: Option<PullPolicy>,
    #[serde(default)]
    command: Vec<Text>,
    #[serde(default)]
    args: Vec<Text>,
    #[serde(default)]
    env: Vec<Variable>,
    #[serde(default)]
    resources: ContainerResources,
    #[serde(default)]
    ports: Vec<Port>,
    #[serde(default)]
    volume_mounts: Vec<Mount>,
    #[serde(default)]
    security_context: SecurityContext,
    #[serde(default, deserialize_with = "optional")]
    startup_probe: Option<Probe>,
    #[serde(default, deserialize_with = "optional")]
    liveness_probe: Option<Probe>,
    #[serde(default, deserialize_with = "optional")]
    readiness_probe: Option<Probe>,
}

/// A text.
#[derive(Clone)]
pub(super) struct Text(pub PodText);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, PodText::new).map(Self)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variable {
    #[serde(deserialize_with = "variable_name")]
    name: VariableName,
    value: Text,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContainerResources {
    #[serde(default)]
    requests: Amounts,
    #[serde(default)]
    limits: Amounts,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Amounts {
    #[serde(default, deserialize_with = "cpu")]
    cpu: Option<CpuTime>,
    #[serde(default, deserialize_with = "super::size")]
    memory: Option<ByteSize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct PortEntry {
    container_port: u32,
    #[serde(default)]
    protocol: String,
}

#[derive(Deserialize)]
#[serde(try_from = "PortEntry")]
struct Port(ContainerPort);

impl TryFrom<PortEntry> for Port {
    type Error = String;

    fn try_from(PortEntry { container_port, protocol }: PortEntry) -> Result<Self, String> {
        let port = ContainerPort::new(container_port, &protocol);
        port.map(Self).map_err(|refusal| refusal.reason)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct MountEntry {
    name: String,
    mount_path: String,
    #[serde(default)]
    read_only: bool,
}

#[derive(Deserialize)]
#[serde(try_from = "MountEntry")]
struct Mount(VolumeMount);

impl TryFrom<MountEntry> for Mount {
    type Error = String;

    fn try_from(MountEntry { name, mount_path, read_only }: MountEntry) -> Result<Self, String> {
        let mount = VolumeMount::new(&name, &mount_path, read_only);
        mount.map(Self).map_err(|refusal| refusal.reason)
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct SecurityContext {
    run_as_user: Option<u32>,
    run_as_group: Option<u32>,
    read_only_root_filesystem: Option<bool>,
    #[serde(default)]
    privileged: bool,
    #[serde(default)]
    capabilities: Capabilities,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Capabilities {
    #[serde(default)]
    add: Vec<CapabilityName>,
}

struct CapabilityName(Capability);

impl<'de> Deserialize<'de> for CapabilityName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, Capability::parse).map(Self)
    }
}

impl Container {
    /// The container of the protocol.
    pub(super) fn pod(self) -> PodContainer {
        let texts = |texts: Vec<Text>| texts.into_iter().map(|Text(text)| text).collect();
        let resources = |Amounts { cpu, memory }: Amounts| Resources { cpu, memory };
        let variables = self.env.into_iter();
        let security = self.security_context;
        let capabilities = security.capabilities.add.into_iter();
        PodContainer {
            pull: self.image_pull_policy,
            command: texts(self.command),
            arguments: texts(self.args),
            environment: variables.map(|one| (one.name, one.value.0)).collect(),
            requests: resources(self.resources.requests),
            limits: resources(self.resources.limits),
            ports: self.ports.into_iter().map(|Port(port)| port).collect(),
            mounts: self.volume_mounts.into_iter().map(|Mount(mount)| mount).collect(),
            security: ContainerSecurity {
                run_as_user: security.run_as_user,
                run_as_group: security.run_as_group,
                read_only_root: security.read_only_root_filesystem.unwrap_or(true),
                privileged: security.privileged,
                capabilities: capabilities.map(|CapabilityName(name)| name).collect(),
            },
            probes: [self.startup_probe, self.liveness_probe, self.readiness_probe]
                .map(|probe| probe.map(|Probe(probe)| probe)),
            ..PodContainer::new(self.name, self.image)
        }
    }
}

fn image<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ImageName, D::Error> {
    word(deserializer, ImageName::parse)
}

fn pull<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PullPolicy>, D::Error> {
    word(deserializer, PullPolicy::parse).map(Some)
}

fn variable_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<VariableName, D::Error> {
    word(deserializer, VariableName::parse)
}

/// Reads processor time, which may be a whole number of processors.
fn cpu<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CpuTime>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "processor time is a number or a text, such as `100m`")]
    enum Amount {
        Number(u32),
        Text(String),
    }
    let text = match Amount::deserialize(deserializer)? {
        Amount::Number(number) => number.to_string(),
        Amount::Text(text) => text,
    };
    CpuTime::parse(&text).map(Some).map_err(|refusal| D::Error::custom(refusal.reason))
}
