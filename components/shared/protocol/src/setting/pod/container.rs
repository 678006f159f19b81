//! The containers of a static pod.

use std::fmt;

use super::right::Capability;
use super::{ByteSize, CpuTime, PodName, PodText, Probe};
use crate::setting::MountPath;
use crate::{ImageName, Refusal};

/// The maximum bytes of the name of a variable.
const MAX_NAME: usize = 128;
/// The greatest number of a user or group that a container may have.
const MAX_ID: u32 = i32::MAX as u32;

/// A container. A field that is empty has the default of Kubernetes, unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodContainer {
    /// Its name.
    pub name: PodName,
    /// Its image.
    pub image: ImageName,
    /// When the image is pulled.
    pub pull: Option<PullPolicy>,
    /// The program and its first arguments, in place of the image's.
    pub command: Vec<PodText>,
    /// The arguments after them.
    pub arguments: Vec<PodText>,
    /// Its variables.
    pub environment: Vec<(VariableName, PodText)>,
    /// The amounts that it is sure to have.
    pub requests: Resources,
    /// The amounts that it has at most.
    pub limits: Resources,
    /// The ports on which it listens.
    pub ports: Vec<ContainerPort>,
    /// The volumes that it sees.
    pub mounts: Vec<VolumeMount>,
    /// Its rights.
    pub security: ContainerSecurity,
    /// Whether it has begun, runs well, and can serve: in the order of [`Probe::KINDS`].
    pub probes: [Option<Probe>; 3],
}

impl PodContainer {
    /// A container with nothing but these.
    pub fn new(name: PodName, image: ImageName) -> Self {
        Self {
            name,
            image,
            pull: None,
            command: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
            requests: Resources::default(),
            limits: Resources::default(),
            ports: Vec::new(),
            mounts: Vec::new(),
            security: ContainerSecurity::default(),
            probes: [None, None, None],
        }
    }
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// Each time that the container starts.
    Always,
    /// If the node does not have it.
    IfNotPresent,
    /// Never: the node has it.
    Never,
}

impl PullPolicy {
    const ALL: [PullPolicy; 3] = [Self::Always, Self::IfNotPresent, Self::Never];

    /// The word of Kubernetes.
    pub fn word(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }

    /// Reads the word.
    ///
    /// # Errors
    /// It is another one.
    pub fn parse(word: &str) -> Result<Self, Refusal> {
        Self::ALL.into_iter().find(|one| one.word() == word).ok_or_else(|| {
            Refusal::malformed("an image is pulled `Always`, `IfNotPresent` or `Never`")
        })
    }
}

/// The name of a variable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VariableName(String);

impl VariableName {
    /// Reads a name.
    ///
    /// # Errors
    /// It is not letters, digits, `_`, `-` and `.`, or begins with a digit.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let is_name = (1..=MAX_NAME).contains(&text.len())
            && text.bytes().all(is_known)
            && !text.starts_with(|first: char| first.is_ascii_digit());
        match is_name {
            true => Ok(Self(text.to_owned())),
            false => {
                let start: String = text.chars().take(MAX_NAME).collect();
                Err(Refusal::malformed(format!("`{start}` is not the name of a variable")))
            }
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VariableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Processor time and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Processor time.
    pub cpu: Option<CpuTime>,
    /// Memory.
    pub memory: Option<ByteSize>,
}

/// A port on which a container listens. It opens nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerPort {
    /// The number.
    pub port: u16,
    /// The protocol.
    pub protocol: PortProtocol,
}

/// The protocol of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortProtocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl PortProtocol {
    const ALL: [PortProtocol; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// The word of Kubernetes.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

impl ContainerPort {
    /// Reads a number and a protocol, which is `TCP` if it is empty.
    ///
    /// # Errors
    /// There is no such port or protocol.
    pub fn new(port: u32, protocol: &str) -> Result<Self, Refusal> {
        let known = PortProtocol::ALL.into_iter().find(|one| one.word() == protocol);
        let protocol = known.or_else(|| protocol.is_empty().then(PortProtocol::default));
        match (u16::try_from(port), protocol) {
            (Ok(port), Some(protocol)) if port > 0 => Ok(Self { port, protocol }),
            _ => Err(Refusal::malformed("a port is 1 to 65535, with `TCP`, `UDP` or `SCTP`")),
        }
    }
}

/// A volume in the file system of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeMount {
    /// The name of the volume.
    pub volume: PodName,
    /// Where it is.
    pub path: MountPath,
    /// Whether the container may only read it.
    pub read_only: bool,
}

impl VolumeMount {
    /// Reads a mount.
    ///
    /// # Errors
    /// A name or path is malformed, or the path has a `:`, which Kubernetes refuses.
    pub fn new(volume: &str, path: &str, read_only: bool) -> Result<Self, Refusal> {
        let (volume, path) = (PodName::parse(volume)?, MountPath::parse(path)?);
        match path.as_str().contains(':') {
            true => Err(Refusal::malformed(format!("the path `{path}` of a mount has a `:`"))),
            false => Ok(Self { volume, path, read_only }),
        }
    }
}

/// The rights of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerSecurity {
    /// The user, in place of the image's.
    pub run_as_user: Option<u32>,
    /// The group.
    pub run_as_group: Option<u32>,
    /// Whether it may only read its own root. It is so by default.
    pub read_only_root: bool,
    /// Whether it has all rights.
    pub privileged: bool,
    /// The capabilities that it has: none by default.
    pub capabilities: Vec<Capability>,
}

impl Default for ContainerSecurity {
    fn default() -> Self {
        Self {
            run_as_user: None,
            run_as_group: None,
            read_only_root: true,
            privileged: false,
            capabilities: Vec::new(),
        }
    }
}

/// Checks the number of a user or a group.
pub(super) fn check_id(id: Option<u32>) -> Result<(), Refusal> {
    match id.is_none_or(|id| id <= MAX_ID) {
        true => Ok(()),
        false => Err(Refusal::malformed(format!("a user or a group is 0 to {MAX_ID}"))),
    }
}
