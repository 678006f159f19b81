//! Volumes on which a node document may come, in cloud-init's forms.

/// The label of a NoCloud volume. Case does not matter: some tools write labels in capitals.
pub const NO_CLOUD: &str = "cidata";
/// The label of OpenStack's config drive.
pub const CONFIG_DRIVE: &str = "config-2";
/// The labels of volumes that `init` opens for the pod `bootstrap`.
pub const LABELS: [&str; 2] = [NO_CLOUD, CONFIG_DRIVE];

/// The component of the pod that reads them.
pub const COMPONENT: &str = "bootstrap-volume";
