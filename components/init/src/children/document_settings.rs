//! What the node document means for the kubelet: its configuration, its flags, and its two
//! kubeconfig files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use osbuild_document::{CloudProvider, Cluster, Document, Kubelet, Taint};
use osbuild_protocol::{KubeletField, KubeletValue};
use serde_json::{Map, Value, json};

/// The part of the kubelet's configuration (`KubeletConfiguration`).
pub fn configuration(document: &Document) -> Value {
    let mut settings = Map::new();
    if let Some(cluster) = &document.cluster {
        settings.insert("clusterDomain".to_owned(), json!(cluster.domain.as_str()));
        // A node of a cluster serves with a certificate of the cluster.
        settings.insert("serverTLSBootstrap".to_owned(), json!(true));
        if !cluster.dns.is_empty() {
            settings.insert("clusterDNS".to_owned(), json!(cluster.dns));
        }
    }
    let Kubelet { taints, provider_id, .. } = &document.kubelet;
    if !taints.is_empty() {
        let taints: Vec<Value> = taints.iter().map(taint).collect();
        settings.insert("registerWithTaints".to_owned(), json!(taints));
    }
    if let Some(id) = provider_id {
        settings.insert("providerID".to_owned(), json!(id));
    }
    Value::Object(settings)
}

/// The part of the kubelet's configuration with these fields.
pub fn fields<'a>(fields: impl IntoIterator<Item = &'a KubeletField>) -> Value {
    let mut settings = json!({});
    for field in fields {
        let value = match field.scalar() {
            KubeletValue::Number(number) => json!(number),
            KubeletValue::Flag(flag) => json!(flag),
            KubeletValue::Text(text) => json!(text),
        };
        match field.key().parts() {
            (name, Some(key)) => settings[name][key] = value,
            (name, None) => settings[name] = value,
        }
    }
    settings
}

fn taint(taint: &Taint) -> Value {
    json!({ "key": taint.key, "value": taint.value, "effect": taint.effect.word() })
}

/// The settings that the kubelet takes as flags only.
pub fn flags(kubelet: &Kubelet) -> Vec<String> {
    let mut flags = Vec::new();
    if let Some(addresses) = &kubelet.node_ip {
        flags.push(format!("--node-ip={addresses}"));
    }
    if !kubelet.labels.is_empty() {
        let labels = kubelet.labels.iter();
        let labels = labels.map(|(key, value)| format!("{}={}", key.as_str(), value.as_str()));
        flags.push(format!("--node-labels={}", labels.collect::<Vec<_>>().join(",")));
    }
    if let Some(CloudProvider::External) = kubelet.cloud_provider {
        flags.push("--cloud-provider=external".to_owned());
    }
    if let Some(providers) = &kubelet.credential_providers {
        let (config, folder) = (providers.config.as_str(), providers.folder.as_str());
        flags.push(format!("--image-credential-provider-config={config}"));
        flags.push(format!("--image-credential-provider-bin-dir={folder}"));
    }
    flags
}

/// The kubeconfig with which the kubelet requests its certificate, if the document has a token.
pub fn bootstrap_kubeconfig(cluster: &Cluster) -> Option<Value> {
    let token = cluster.token.as_ref()?;
    Some(kubeconfig(cluster, &json!({ "token": token.as_str() })))
}

/// The kubeconfig with the certificate and the key in the file `pair`.
pub fn certified_kubeconfig(cluster: &Cluster, pair: &str) -> Value {
    kubeconfig(cluster, &json!({ "client-certificate": pair, "client-key": pair }))
}

fn kubeconfig(cluster: &Cluster, user: &Value) -> Value {
    let authority = STANDARD.encode(cluster.certificate_authority.as_str());
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "node",
        "clusters": [{
            "name": "node",
            "cluster": {
                "server": cluster.server.as_str(),
                "certificate-authority-data": authority,
            },
        }],
        "users": [{ "name": "node", "user": user }],
        "contexts": [{ "name": "node", "context": { "cluster": "node", "user": "node" } }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_kubeconfig::Kubeconfig;

    const EXAMPLE: &str = include_str!("../../../shared/document/example.toml");

    fn example() -> Document {
        Document::parse(EXAMPLE).unwrap()
    }

    #[test]
    fn an_empty_document_leaves_the_kubelets_defaults() {
        assert_eq!(configuration(&Document::default()), json!({}));
        assert_eq!(flags(&Kubelet::default()), [""; 0]);
    }

    #[test]
    fn the_cluster_and_the_taints_are_in_the_configuration() {
        assert_eq!(
            configuration(&example()),
            json!({
                "clusterDNS": ["10.96.0.10"],
                "clusterDomain": "cluster.local",
                "serverTLSBootstrap": true,
                "registerWithTaints": [
                    { "key": "dedicated", "value": "database", "effect": "NoSchedule" },
                ],
                "providerID": "example://zone-a/7",
            })
        );
    }

    #[test]
    fn fields_have_their_place_and_their_kind_in_the_configuration() {
        assert_eq!(fields([]), json!({}));
        assert_eq!(
            fields(&example().kubelet.config),
            json!({
                "maxPods": 50,
                "serializeImagePulls": true,
                "evictionHard": { "memory.available": "200Mi" },
            })
        );
    }

    #[test]
    fn what_the_kubelet_has_no_setting_for_is_a_flag() {
        assert_eq!(
            flags(&example().kubelet),
            [
                "--node-ip=192.0.2.7,2001:db8::7",
                "--node-labels=example.org/rack=7,topology.kubernetes.io/zone=zone-a",
                "--cloud-provider=external",
                "--image-credential-provider-config=/etc/kubernetes/credential-providers.yaml",
                "--image-credential-provider-bin-dir=/opt/credential-providers/bin",
            ]
        );
    }

    #[test]
    fn the_bootstrap_kubeconfig_has_the_server_its_authority_and_the_token() {
        let cluster = example().cluster.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bootstrap");
        std::fs::write(&path, bootstrap_kubeconfig(&cluster).unwrap().to_string()).unwrap();
        let config = Kubeconfig::read(&path).unwrap().unwrap();
        assert_eq!(config.server(), Some("https://api.example.org:6443"));
        assert_eq!(config.token(), Ok(Some("abcdef.0123456789abcdef".to_owned())));
        let authority = config.certificate_authority().unwrap().unwrap();
        assert_eq!(authority, cluster.certificate_authority.as_str());
        assert_eq!(bootstrap_kubeconfig(&Cluster { token: None, ..cluster }), None);
    }
}
