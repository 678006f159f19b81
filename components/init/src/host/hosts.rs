//! The names that the node resolves without a name server (hosts(5)). `/etc/hosts` is a link to the
//! file that is written here, which containerd copies into every pod of the host's network.
//!
//! The kubelet looks up the node's name at each start, before its pods. Without a line for it, a
//! name server that does not answer delays each start by a minute.

use osbuild_abi::paths::HOSTS;
use osbuild_failure::Outcome;

use super::run_files;

/// The lines that every node has.
const LOCALHOST: &str = "127.0.0.1 localhost\n::1 localhost\n";
/// The address of the node's own names. The kubelet does not take a loopback address for the
/// node's, and goes on to the interface of the default route. `127.0.0.1` stays `localhost` when a
/// program asks for its name.
const OWN: &str = "127.0.1.1";

/// Writes the file with the node's own names. One that is empty or `localhost` adds none.
pub fn apply(host_name: &str, node_name: &str) -> Outcome {
    let wanted = text(host_name, node_name);
    match observe() {
        Some(found) if found == wanted => Ok(()),
        _ => run_files::write(HOSTS, &wanted),
    }
}

/// The text of the file, if it can be read.
pub fn observe() -> Option<String> {
    run_files::read(HOSTS)
}

fn text(host_name: &str, node_name: &str) -> String {
    let mut names = vec![host_name, node_name];
    names.dedup();
    names.retain(|name| !["", "localhost"].contains(name));
    if names.is_empty() {
        return LOCALHOST.to_owned();
    }
    format!("{LOCALHOST}{OWN} {}\n", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_name_and_the_name_in_the_cluster_are_on_one_line() {
        let own = |host, node| text(host, node).strip_prefix(LOCALHOST).map(str::to_owned);
        assert_eq!(own("edge-7", "node-1").as_deref(), Some("127.0.1.1 edge-7 node-1\n"));
        assert_eq!(own("node-1", "node-1").as_deref(), Some("127.0.1.1 node-1\n"));
        assert_eq!(own("node-1", "").as_deref(), Some("127.0.1.1 node-1\n"));
        assert_eq!(own("", "").as_deref(), Some(""));
        assert_eq!(own("localhost", "").as_deref(), Some(""));
    }
}
