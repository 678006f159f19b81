//! The list of declared pods: one line a pod, `NAME [-first|-once|-unawaited] CONTAINER
//! [CONTAINER …]`, in UTF-8. The builder writes it from the manifests, so that the node needs no
//! YAML.

use core::fmt;

/// The annotation of a manifest that sets how the pod runs: one of [`Runs::annotation`].
pub const RUNS: &str = "osbuild/runs";
/// The prefix of this project's annotations.
pub const ANNOTATIONS: &str = "osbuild/";

/// How a pod runs, and what its containers must have reached for the node to be READY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runs {
    /// As long as the node: its containers must run.
    #[default]
    Always,
    /// As long as the node, and ahead of the pods that need the network, which it gives the node.
    First,
    /// Once: its containers must have exited with code 0.
    Once,
    /// As long as the node, which is READY without it. A slot on trial needs it to become good.
    Unawaited,
}

impl Runs {
    /// Those that a manifest sets.
    pub const SET: [Runs; 3] = [Self::First, Self::Once, Self::Unawaited];

    /// The value of the annotation [`RUNS`], if it has to be there.
    pub const fn annotation(self) -> Option<&'static str> {
        match self {
            Self::Always => None,
            Self::First => Some("first"),
            Self::Once => Some("once"),
            Self::Unawaited => Some("unawaited"),
        }
    }

    /// Reads the value of the annotation.
    pub fn from_annotation(value: &str) -> Option<Runs> {
        Self::SET.into_iter().find(|runs| runs.annotation() == Some(value))
    }
}

/// One declared static pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredPod<'a> {
    /// `metadata.name` of the manifest, without the node's name.
    pub name: &'a str,
    /// How it runs.
    pub runs: Runs,
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
        // No name of a container begins with `-`.
        let (first, rest) = containers.split_once(' ').unwrap_or((containers, ""));
        let set = first.strip_prefix('-').and_then(Runs::from_annotation);
        (!name.is_empty()).then_some(DeclaredPod {
            name,
            runs: set.unwrap_or_default(),
            containers: if set.is_some() { rest } else { containers },
        })
    })
}

/// Writes the line of a pod, without a newline.
pub fn write(
    to: &mut impl fmt::Write,
    name: &str,
    runs: Runs,
    containers: &[impl AsRef<str>],
) -> fmt::Result {
    to.write_str(name)?;
    if let Some(set) = runs.annotation() {
        write!(to, " -{set}")?;
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
    fn a_pod_reads_back_as_it_runs() {
        for runs in [Runs::Always, Runs::First, Runs::Once, Runs::Unawaited] {
            let mut list = String::new();
            write(&mut list, "web", runs, &["first", "second"]).unwrap();
            let pod = parse(&list).next().unwrap();
            assert!(pod.containers().eq(["first", "second"]), "{list}");
            assert_eq!((pod.name, pod.runs), ("web", runs));
        }
        assert_eq!(parse("once once-more\n").next().unwrap().runs, Runs::Always);
        assert_eq!(parse("bare\n").next().unwrap().containers().count(), 0);
    }
}
