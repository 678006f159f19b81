//! The logs of pods, as the kubelet keeps them.

use std::fs;
use std::io;
use std::path::Path;

/// The lines of all containers of a static pod.
pub fn of_pod(host: &Path, name: &str) -> io::Result<String> {
    let mut lines = String::new();
    // `NAMESPACE_NAME-NODE_UID/CONTAINER/COUNT.log`
    for pod in fs::read_dir(host.join("var/log/pods"))? {
        let pod = pod?;
        let is_it = |folder: &str| {
            let named = folder.split_once('_').map(|(_, named)| named);
            named.and_then(|named| named.strip_prefix(name)).is_some_and(|end| end.starts_with('-'))
        };
        if !pod.file_name().to_str().is_some_and(is_it) {
            continue;
        }
        for container in fs::read_dir(pod.path())? {
            for log in fs::read_dir(container?.path())? {
                lines.push_str(&fs::read_to_string(log?.path())?);
            }
        }
    }
    Ok(lines)
}
