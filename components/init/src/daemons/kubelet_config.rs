//! The files that the child `init kubelet-config` makes before the kubelet is started on purpose:
//! the kubelet's configuration, and the name in its client certificate.

use std::path::Path;

use crate::name;

/// The file in memory with the name in the kubelet's client certificate; empty if there is none.
pub const CERTIFIED_NAME: &str = "/run/osbuild/kubelet/certified-name";
/// The kubelet's configuration without a cluster.
pub const STANDALONE: &str = "/run/osbuild/kubelet/standalone.json";
/// The kubelet's configuration with a cluster.
pub const JOINED: &str = "/run/osbuild/kubelet/joined.json";

/// The name in the kubelet's client certificate, as the child has found it last.
pub fn certified_name() -> Option<String> {
    name::read(Path::new(CERTIFIED_NAME))
}
