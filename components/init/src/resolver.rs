//! The name servers of pods that run. containerd writes a resolv.conf for each pod's sandbox when
//! it makes it, and pods that start beside `dhcp` would keep an empty one. A child, `init
//! resolver`, brings those up to date that are a copy of one that the node had in this boot:
//! containers see the change at once, as the file is mounted into them. What a pod has of its
//! cluster or of its manifest stays.

use osbuild_abi::paths::{INIT, RESOLV_CONF};
use osbuild_failure::Outcome;

use crate::node::Node;
use crate::process::Life;
use crate::run_files;
use crate::uptime::uptime;

/// The name of the job and of the subcommand.
pub const NAME: &str = "resolver";

/// The resolvers that the node had before in this boot, one a line, oldest first.
pub const HISTORY: &str = "/run/osbuild/resolvers";
/// How many of them are kept: a lease that changes more often than that within the life of a pod is
/// not followed any further.
const MAX_HISTORY: usize = 64;

/// Notes what the node has now as what it had before, as it is about to change.
pub fn note() -> Outcome {
    let now = Resolver::parse(&std::fs::read_to_string(RESOLV_CONF).unwrap_or_default());
    let history = std::fs::read_to_string(HISTORY).unwrap_or_default();
    run_files::write(HISTORY, &with(&history, &now.to_line()))
}

/// Brings the pods that run up to date.
pub fn renew(node: &mut Node) {
    if let Some(child) = node.process(NAME) {
        return child.again(uptime());
    }
    if let Err(failure) = node.run(NAME, Life::Job, |_| [INIT, NAME].map(str::to_owned).to_vec()) {
        node.console.say(NAME, failure);
    }
}

/// The history with this line as the newest.
fn with(history: &str, line: &str) -> String {
    let lines: Vec<&str> = history.lines().filter(|old| *old != line).chain([line]).collect();
    lines[lines.len().saturating_sub(MAX_HISTORY)..]
        .iter()
        .map(|line| format!("{line}\n"))
        .collect()
}

/// What a resolv.conf says of the node's network.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Resolver {
    servers: Vec<String>,
    search: Vec<String>,
    /// Lines of other kinds, which `init` does not write: the file is no copy of its own then.
    others: Vec<String>,
}

impl Resolver {
    /// Reads a resolv.conf(5).
    pub fn parse(text: &str) -> Self {
        let mut resolver = Resolver::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace().map(str::to_owned);
            match words.next().as_deref() {
                Some("nameserver") => resolver.servers.extend(words),
                Some("search") => resolver.search = words.collect(),
                None => {}
                Some(_) => resolver.others.push(line.to_owned()),
            }
        }
        resolver
    }

    /// One line that no other resolver has.
    pub fn to_line(&self) -> String {
        format!(
            "{} | {} | {}",
            self.servers.join(" "),
            self.search.join(" "),
            self.others.join(" ")
        )
    }
}

/// Whether a pod's resolv.conf is a copy of one that the node had: `history` has those of this
/// boot, and all pods may have got an empty one.
pub fn is_copy(pod: &str, history: &str) -> bool {
    let pod = Resolver::parse(pod);
    let line = pod.to_line();
    pod == Resolver::default() || history.lines().any(|old| old == line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "nameserver 10.0.2.3\nsearch example.org example.com\n";
    /// The same as containerd writes it.
    const COPY: &str = "search example.org example.com\nnameserver 10.0.2.3\n";

    #[test]
    fn a_copy_of_an_earlier_file_of_the_node_is_known_in_containerds_order_too() {
        let history = with("", &Resolver::parse(OLD).to_line());
        assert!(is_copy(OLD, &history) && is_copy(COPY, &history) && is_copy("", &history));
    }

    #[test]
    fn what_a_pod_has_of_its_cluster_or_its_manifest_is_no_copy() {
        let history = with("", &Resolver::parse(OLD).to_line());
        for own in [
            "nameserver 10.96.0.10\n",
            "nameserver 10.0.2.3\n",
            &format!("{COPY}options ndots:5\n"),
            "options ndots:5\n",
        ] {
            assert!(!is_copy(own, &history), "{own}");
        }
    }

    #[test]
    fn the_history_has_each_resolver_once_and_an_end() {
        assert_eq!(with("a\nb\n", "a"), "b\na\n");
        let long: String = (0..100).map(|number| format!("{number}\n")).collect();
        let kept = with(&long, "new");
        assert_eq!((kept.lines().count(), kept.lines().last()), (MAX_HISTORY, Some("new")));
    }
}
