//! The list of declared pods: one line a pod, `NAME CONTAINER [CONTAINER …]`, in UTF-8.
//! The builder writes it from the manifests, so that the node needs no YAML.

/// One declared static pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeclaredPod<'a> {
    /// `metadata.name` of the manifest, without the node's name.
    pub name: &'a str,
    containers: &'a str,
}

impl<'a> DeclaredPod<'a> {
    /// The names of its containers, which all have to run. Init containers are not among them.
    pub fn containers(&self) -> impl Iterator<Item = &'a str> {
        self.containers.split_ascii_whitespace()
    }
}

/// Reads a whole list. Empty lines are passed over.
pub fn parse(list: &str) -> impl Iterator<Item = DeclaredPod<'_>> {
    list.lines().filter_map(|line| {
        let line = line.trim_ascii();
        let (name, containers) = line.split_once(' ').unwrap_or((line, ""));
        (!name.is_empty()).then_some(DeclaredPod { name, containers })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_pod_and_its_containers() {
        let mut pods = parse("dhcp dhcp\n\nweb nginx side\n");
        assert_eq!(pods.next().unwrap().name, "dhcp");
        let web = pods.next().unwrap();
        assert!(web.containers().eq(["nginx", "side"]));
        assert_eq!(pods.next(), None);
    }
}
