//! The name servers of running pods. containerd copies the node's resolv.conf into each sandbox
//! when it makes it, so a pod that starts beside `dhcp` would keep an empty one. A child, `init
//! resolver`, updates each copy of a file that the node had in this boot: containers see the change
//! at once, as the file is mounted into them. A pod with the resolver of its cluster or of its
//! manifest keeps it.

use osbuild_failure::Outcome;

use super::resolver::{self, Resolver};
use super::run_files;

/// The resolvers that the node had before in this boot, one on each line, oldest first.
pub const HISTORY: &str = "/run/osbuild/resolvers";
/// How many of them are kept: a lease that changes more often than this within the life of a pod is
/// not followed.
const MAX_HISTORY: usize = 64;

/// Adds the resolver that is about to change to the history.
pub fn note() -> Outcome {
    let history = run_files::read(HISTORY).unwrap_or_default();
    let old = resolver::observe().unwrap_or_default();
    run_files::write(HISTORY, &with(&history, &old.to_line()))
}

/// The history with this line as the newest.
fn with(history: &str, line: &str) -> String {
    let lines: Vec<&str> = history.lines().filter(|old| *old != line).chain([line]).collect();
    let newest = &lines[lines.len().saturating_sub(MAX_HISTORY)..];
    newest.iter().map(|line| format!("{line}\n")).collect()
}

/// Whether a pod's resolv.conf is a copy of one of the node's: of one in `history`, or of the empty
/// one that every node starts with.
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
    fn a_copy_of_an_earlier_file_is_recognized_in_containerds_order_too() {
        let history = with("", &Resolver::parse(OLD).to_line());
        assert!(is_copy(OLD, &history) && is_copy(COPY, &history) && is_copy("", &history));
    }

    #[test]
    fn the_resolver_of_a_cluster_or_a_manifest_is_not_a_copy() {
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
    fn the_history_has_each_resolver_once_and_is_bounded() {
        assert_eq!(with("a\nb\n", "a"), "b\na\n");
        let long: String = (0..100).map(|number| format!("{number}\n")).collect();
        let kept = with(&long, "new");
        assert_eq!((kept.lines().count(), kept.lines().last()), (MAX_HISTORY, Some("new")));
    }
}
