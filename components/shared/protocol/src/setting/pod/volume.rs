//! The volumes of a static pod.

use super::{ByteSize, PodName};
use crate::Refusal;
use crate::setting::MountPath;

/// The size of a volume that names none.
const DEFAULT_SIZE: ByteSize = ByteSize::of(64 << 20);

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodVolume {
    /// Its name.
    pub name: PodName,
    /// Its contents.
    pub source: VolumeSource,
}

/// The contents of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    /// An empty folder, which goes with the pod.
    Empty {
        /// Whether it is in memory; otherwise it is on DATA.
        in_memory: bool,
        /// How much it has at most.
        size: ByteSize,
    },
    /// A folder of the node.
    Host(MountPath),
}

impl VolumeSource {
    /// An empty folder in memory or on DATA, of this size or 64 MiB.
    pub fn of_empty(in_memory: bool, size: Option<ByteSize>) -> Self {
        Self::Empty { in_memory, size: size.unwrap_or(DEFAULT_SIZE) }
    }

    /// Reads an empty folder by the medium and the size of Kubernetes. Without them it is on DATA,
    /// with 64 MiB.
    ///
    /// # Errors
    /// There is no such medium, or the size is malformed.
    pub fn empty(medium: &str, size: &str) -> Result<Self, Refusal> {
        let size = (!size.is_empty()).then(|| ByteSize::parse(size)).transpose()?;
        match medium {
            "" => Ok(Self::of_empty(false, size)),
            "Memory" => Ok(Self::of_empty(true, size)),
            _ => Err(Refusal::malformed("the `medium` of a volume is `Memory`, or none")),
        }
    }
}
