//! The list of declared pods: one line a pod, `NAME [-once] CONTAINER [CONTAINER …]`, in UTF-8.
//! The builder writes it from the manifests, so that the node needs no YAML.

use core::fmt;

/// The annotation of a manifest that sets how often the pod runs. Without it, the pod runs as long
/// as the node.
pub const RUNS: &str = "osbuild/runs";
/// Its only value: the pod runs once, and is done when its containers have exited with code 0.
pub const ONCE: &str = "once";
/// The prefix of this project's annotations.
pub const ANNOTATIONS: &str = "osbuild/";

/// Precedes the containers of a pod that runs once. It is not a valid container name.
const RUNS_ONCE: &str = "-once";

/// One declared static pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredPod<'a> {
    /// `metadata.name` of the manifest, without the node's name.
    pub name: &'a str,
    /// Whether it is done when its containers have exited with code 0. Otherwise they must run.
    pub runs_once: bool,
    containers: &'a str,
}

impl<'a> DeclaredPod<'a> {
    /// The names of its containers, without init containers.
    pub fn containers(&self) -> impl Iterator<Item = &'a str> {
        self.containers.split_ascii_whitespace()
    }
}

/// Reads a whole list. Empty lines are skipped.
pub fn parse(list: &str) -> impl Iterator<Item = DeclaredPod<'_>> {
    list.lines().filter_map(|line| {
        let line = line.trim_ascii();
        let (name, containers) = line.split_once(' ').unwrap_or((line, ""));
        let once = containers
            .strip_prefix(RUNS_ONCE)
            .filter(|rest| rest.is_empty() || rest.starts_with(' '));
        (!name.is_empty()).then_some(DeclaredPod {
            name,
            runs_once: once.is_some(),
            containers: once.unwrap_or(containers),
        })
    })
}

/// Writes the line of a pod, without a newline.
pub fn write(
    to: &mut impl fmt::Write,
    name: &str,
    runs_once: bool,
    containers: &[impl AsRef<str>],
) -> fmt::Result {
    to.write_str(name)?;
    if runs_once {
        write!(to, " {RUNS_ONCE}")?;
    }
    containers.iter().try_for_each(|container| write!(to, " {}", container.as_ref()))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;

    #[test]
    fn a_line_is_a_pod_and_its_containers() {
        let mut pods = parse("dhcp dhcp\n\nweb nginx side\n");
        assert_eq!(pods.next().unwrap().name, "dhcp");
        let web = pods.next().unwrap();
        assert!(web.containers().eq(["nginx", "side"]));
        assert_eq!(pods.next(), None);
    }

    #[test]
    fn a_pod_that_runs_once_reads_back() {
        let mut list = String::new();
        write(&mut list, "setup", true, &["first", "second"]).unwrap();
        list.push('\n');
        write(&mut list, "web", false, &["nginx"]).unwrap();
        let (setup, web) = (parse(&list).next().unwrap(), parse(&list).nth(1).unwrap());
        assert!(setup.runs_once && setup.containers().eq(["first", "second"]));
        assert!(!web.runs_once && web.containers().eq(["nginx"]));
        assert!(!parse("once once-more\n").next().unwrap().runs_once);
    }
}
