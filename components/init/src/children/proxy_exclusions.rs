//! The proxy exclusions that the node's cluster adds: the API server, which the kubelet must reach
//! even if the proxy fails, the domain of Services, and the node's own addresses.

use std::path::Path;

use osbuild_document::Kubelet;
use osbuild_kubeconfig::Kubeconfig;
use osbuild_protocol::{ClusterJoin, ProxyExclusion};

/// The entries of the cluster, of the node's addresses and of these kubeconfig files, of which some
/// may be missing. Entries that programs would read differently are left out.
pub fn all(
    cluster: Option<&ClusterJoin>,
    kubelet: &Kubelet,
    kubeconfigs: &[&Path],
) -> Vec<ProxyExclusion> {
    let addresses = kubelet.node_ip.as_ref();
    // The kubelet reports a file that cannot be read.
    let files = kubeconfigs.iter().filter_map(|path| Kubeconfig::read(path).ok()?);
    let servers = files.filter_map(|config| ProxyExclusion::of_url(config.server()?));
    let domain = cluster.map(|cluster| format!(".{}", cluster.domain().as_str()));
    let addresses = addresses.map(ToString::to_string).unwrap_or_default();
    let words = domain.iter().map(String::as_str).chain(addresses.split(','));
    let mut all: Vec<ProxyExclusion> = Vec::new();
    let server = cluster.and_then(|cluster| ProxyExclusion::of_url(cluster.server().as_str()));
    let entries = server.into_iter().chain(servers);
    for entry in entries.chain(words.filter_map(|word| ProxyExclusion::parse(word).ok())) {
        if !all.contains(&entry) {
            all.push(entry);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_document::Document;

    const EXAMPLE: &str = include_str!("../../../shared/document/example.toml");

    fn names(document: &Document, kubeconfigs: &[&Path]) -> Vec<String> {
        let Document { cluster, kubelet, .. } = document;
        all(cluster.as_ref(), kubelet, kubeconfigs).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_api_server_of_the_cluster_is_reached_without_the_proxy() {
        let document = Document::parse(EXAMPLE).unwrap();
        let expected = ["api.example.org", ".cluster.local", "192.0.2.7", "2001:db8::7"];
        assert_eq!(names(&document, &[]), expected);
        assert_eq!(names(&Document::default(), &[]), [""; 0]);
    }

    #[test]
    fn the_api_server_of_a_kubeconfig_is_reached_without_the_proxy() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other, damaged] =
            ["one", "other", "damaged"].map(|name| folder.path().join(name));
        let text = |server: &str| {
            format!(
                "current-context: a\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\n\
                 clusters: [{{name: a, cluster: {{server: '{server}'}}}}]\n\
                 users: [{{name: a, user: {{token: a}}}}]\n"
            )
        };
        std::fs::write(&one, text("https://192.0.2.10:6443")).unwrap();
        std::fs::write(&other, text("https://api.example.org")).unwrap();
        std::fs::write(&damaged, "clusters: [").unwrap();
        let missing = folder.path().join("missing");
        let all = [&one, &other, &one, &damaged, &missing].map(std::path::PathBuf::as_path);
        assert_eq!(names(&Document::default(), &all), ["192.0.2.10", "api.example.org"]);
    }
}
