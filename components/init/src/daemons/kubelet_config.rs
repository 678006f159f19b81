//! The files that the child `init kubelet-config` makes before the kubelet is started on purpose:
//! the kubelet's configuration, and the name in its client certificate.

use std::path::Path;
use std::time::Duration;

use crate::name;

/// The file in memory with the name in the kubelet's client certificate; empty if there is none.
pub const CERTIFIED_NAME: &str = "/run/osbuild/kubelet/certified-name";
/// The kubelet's configuration without a cluster.
pub const STANDALONE: &str = "/run/osbuild/kubelet/config/standalone.json";
/// The kubelet's configuration with a cluster.
pub const JOINED: &str = "/run/osbuild/kubelet/config/joined.json";

/// The file in memory with the seconds for which the kubelet wants to delay a shutdown.
pub const SHUTDOWN_GRACE: &str = "/run/osbuild/kubelet/shutdown-grace";

/// The file in memory with what the node document adds to the kubelet's command line, a flag a
/// line. It is missing while a refused document keeps the node from joining.
pub const FLAGS: &str = "/run/osbuild/kubelet/flags";

/// The files in memory with the kubelet's [policies](super::kubelet_policies), one a line: without
/// the drop-ins, and with them.
pub const POLICIES: [&str; 2] =
    ["/run/osbuild/kubelet/policies", "/run/osbuild/kubelet/policies-with-drop-ins"];

/// The maximum time for which a shutdown waits for pods, even if the kubelet's configuration asks
/// for more.
pub const MAX_SHUTDOWN_GRACE: Duration = Duration::from_secs(1800);
/// The time without a configuration: the one of `components/kubelet/kubelet.yaml`.
pub const DEFAULT_SHUTDOWN_GRACE: Duration = Duration::from_secs(60);

/// For how long the kubelet wants to delay a shutdown, as the child has found it last.
pub fn shutdown_grace() -> Duration {
    let text = std::fs::read_to_string(SHUTDOWN_GRACE).unwrap_or_default();
    text.parse().map_or(DEFAULT_SHUTDOWN_GRACE, Duration::from_secs).min(MAX_SHUTDOWN_GRACE)
}

/// The kubelet's flags from the node document, as the child has found them last; none while a
/// refused document keeps the node from joining.
pub fn flags() -> Option<Vec<String>> {
    let text = std::fs::read_to_string(FLAGS).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}

/// The kubelet's policies, as the child has found them last; none if it has not.
pub fn policies(drop_ins: bool) -> Vec<String> {
    let text = std::fs::read_to_string(POLICIES[usize::from(drop_ins)]).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// The name in the kubelet's client certificate, as the child has found it last.
pub fn certified_name() -> Option<String> {
    name::read(Path::new(CERTIFIED_NAME))
}
