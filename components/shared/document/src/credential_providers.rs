//! `[kubelet.credential-providers]`: programs that give the kubelet the credentials of registries
//! (`https://kubernetes.io/docs/tasks/administer-cluster/kubelet-credential-provider/`).

use crate::path::AbsolutePath;
use serde::Deserialize;

/// Programs that give the kubelet the credentials of registries.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CredentialProviders {
    /// The file or the folder with their `CredentialProviderConfig`.
    pub config: AbsolutePath,
    /// The folder of the programs, which a pod delivers.
    pub folder: AbsolutePath,
}
