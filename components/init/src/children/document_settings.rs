//! The settings of the kubelet that follow from the node document and from the cluster: its
//! configuration, its flags, and its two kubeconfig files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use osbuild_abi::paths::CREDENTIAL_PROVIDERS;
use osbuild_document::{CloudProvider, Kubelet, Taint};
use osbuild_protocol::{
    ClusterJoin, KubeletField, KubeletValue, LabelKey, NodeLabel, NodeTaint, Setting, Swap,
    TaintName,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use crate::host::credential_providers::CONFIGURATION;

/// The part of the kubelet's configuration (`KubeletConfiguration`).
pub fn configuration(
    cluster: Option<&ClusterJoin>,
    kubelet: &Kubelet,
    registered: &Registered,
) -> Value {
    let mut settings = Map::new();
    if let Some(cluster) = cluster {
        settings.insert("clusterDomain".to_owned(), json!(cluster.domain().as_str()));
        // A node of a cluster serves with a certificate of the cluster.
        settings.insert("serverTLSBootstrap".to_owned(), json!(true));
        if !cluster.dns().is_empty() {
            settings.insert("clusterDNS".to_owned(), json!(cluster.dns()));
        }
    }
    if !registered.taints.is_empty() {
        let taints: Vec<Value> = registered.taints.values().map(taint).collect();
        settings.insert("registerWithTaints".to_owned(), json!(taints));
    }
    if let Some(id) = &kubelet.provider_id {
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

/// The part of the kubelet's configuration that gives pods a part of the swap: of the one that
/// requests ask for, or else of the document's, or else of the image's.
pub fn swap(of_image: &[Setting], of_document: Option<Swap>, requested: &[Setting]) -> Value {
    let swap_of = |settings: &[Setting]| {
        settings.iter().find_map(|setting| match setting {
            Setting::Swap(swap) => Some(*swap),
            _ => None,
        })
    };
    let effective = swap_of(requested).or(of_document).or_else(|| swap_of(of_image));
    match effective.is_some_and(|swap| swap.pods()) {
        true => json!({ "memorySwap": { "swapBehavior": "LimitedSwap" } }),
        false => json!({}),
    }
}

fn taint(taint: &NodeTaint) -> Value {
    let NodeTaint { name, value } = taint;
    json!({ "key": name.key(), "value": value.as_str(), "effect": name.effect().word() })
}

/// The labels and taints with which the kubelet registers its node.
#[derive(Default)]
pub struct Registered {
    labels: BTreeMap<LabelKey, NodeLabel>,
    taints: BTreeMap<TaintName, NodeTaint>,
}

impl Registered {
    /// The labels and taints of the image, those of the document in their place, and those that
    /// requests ask for in the place of both.
    pub fn new(of_image: &[Setting], kubelet: &Kubelet, requested: &[Setting]) -> Self {
        let mut registered = Registered::default();
        let labels = kubelet.labels.iter().map(Setting::NodeLabel);
        let taints = kubelet.taints.iter().map(|Taint(taint)| Setting::NodeTaint(taint.clone()));
        let of_document = labels.chain(taints);
        let all = of_image.iter().cloned().chain(of_document).chain(requested.iter().cloned());
        for setting in all {
            match setting {
                Setting::NodeLabel(label) => {
                    registered.labels.insert(label.key.clone(), label);
                }
                Setting::NodeTaint(taint) => {
                    registered.taints.insert(taint.name.clone(), taint);
                }
                _ => {}
            }
        }
        registered
    }
}

/// The settings that the kubelet takes as flags only. Credential providers of settings, if it
/// `has_providers`, are in effect in place of the document's file of its own form.
pub fn flags(kubelet: &Kubelet, registered: &Registered, has_providers: bool) -> Vec<String> {
    let mut flags = Vec::new();
    if let Some(addresses) = &kubelet.node_ip {
        flags.push(format!("--node-ip={addresses}"));
    }
    if !registered.labels.is_empty() {
        let labels: Vec<String> = registered.labels.values().map(ToString::to_string).collect();
        flags.push(format!("--node-labels={}", labels.join(",")));
    }
    if let Some(CloudProvider::External) = kubelet.cloud_provider {
        flags.push("--cloud-provider=external".to_owned());
    }
    let own = has_providers.then_some((CONFIGURATION, CREDENTIAL_PROVIDERS));
    let of_document = kubelet.credential_providers.as_ref();
    let of_document = of_document.map(|one| (one.config.as_str(), one.folder.as_str()));
    if let Some((config, folder)) = own.or(of_document) {
        flags.push(format!("--image-credential-provider-config={config}"));
        flags.push(format!("--image-credential-provider-bin-dir={folder}"));
    }
    flags
}

/// The kubeconfig with which the kubelet requests its certificate, if there is a token.
pub fn bootstrap_kubeconfig(cluster: &ClusterJoin) -> Option<Value> {
    let token = cluster.token()?;
    Some(kubeconfig(cluster, &json!({ "token": token.reveal() })))
}

/// The kubeconfig with the certificate and the key in the file `pair`.
pub fn certified_kubeconfig(cluster: &ClusterJoin, pair: &str) -> Value {
    kubeconfig(cluster, &json!({ "client-certificate": pair, "client-key": pair }))
}

fn kubeconfig(cluster: &ClusterJoin, user: &Value) -> Value {
    let authority = STANDARD.encode(cluster.authority().to_pem());
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "node",
        "clusters": [{
            "name": "node",
            "cluster": {
                "server": cluster.server().as_str(),
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
    use osbuild_document::Document;
    use osbuild_kubeconfig::Kubeconfig;

    const EXAMPLE: &str = include_str!("../../../shared/document/example.toml");

    fn example() -> Document {
        Document::parse(EXAMPLE).unwrap()
    }

    fn without_token(cluster: &ClusterJoin) -> ClusterJoin {
        let (server, authority) = (cluster.server().clone(), cluster.authority().clone());
        let (dns, domain) = (cluster.dns().to_vec(), cluster.domain().clone());
        ClusterJoin::new(server, authority, None, dns, domain).unwrap()
    }

    #[test]
    fn an_empty_document_leaves_the_kubelets_defaults() {
        let found = configuration(None, &Kubelet::default(), &Registered::default());
        assert_eq!(found, json!({}));
        assert_eq!(flags(&Kubelet::default(), &Registered::default(), false), [""; 0]);
    }

    #[test]
    fn the_cluster_and_the_taints_are_in_the_configuration() {
        let Document { cluster, kubelet, .. } = example();
        assert_eq!(
            configuration(cluster.as_ref(), &kubelet, &Registered::new(&[], &kubelet, &[])),
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
    fn pods_get_swap_if_the_document_or_a_setting_in_its_place_gives_it() {
        let limited = json!({ "memorySwap": { "swapBehavior": "LimitedSwap" } });
        let [with, without] =
            ["swap size=1Mi pods", "swap size=1Mi"].map(|line| [Setting::parse(line).unwrap()]);
        assert_eq!(swap(&[], example().swap, &[]), limited);
        assert_eq!(swap(&[], example().swap, &without), json!({}));
        assert_eq!(swap(&[], None, &with), limited);
        assert_eq!(swap(&with, None, &[]), limited);
        assert_eq!(swap(&with, None, &without), json!({}));
        assert_eq!(swap(&without, example().swap, &[]), limited);
        assert_eq!(swap(&[], None, &[]), json!({}));
    }

    #[test]
    fn what_the_kubelet_has_no_setting_for_is_a_flag() {
        assert_eq!(
            flags(&example().kubelet, &Registered::new(&[], &example().kubelet, &[]), false),
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
    fn credential_providers_of_settings_replace_the_file_of_the_document() {
        let flags = flags(&example().kubelet, &Registered::default(), true);
        let [.., config, folder] = flags.as_slice() else { panic!("{flags:?}") };
        assert_eq!(config, &format!("--image-credential-provider-config={CONFIGURATION}"));
        assert_eq!(folder, &format!("--image-credential-provider-bin-dir={CREDENTIAL_PROVIDERS}"));
        assert_eq!(flags.join(" ").matches("credential-provider-config").count(), 1);
    }

    #[test]
    fn what_requests_ask_for_outranks_the_document_and_that_the_image() {
        let of_image = ["node-label example.org/rack 6", "node-label example.org/image a"]
            .map(|line| Setting::parse(line).unwrap());
        let lines = [
            "node-label example.org/rack 8",
            "node-label edge -",
            "node-taint dedicated:NoSchedule -",
            "node-taint dedicated:NoExecute a",
        ];
        let requested = lines.map(|line| Setting::parse(line).unwrap());
        let registered = Registered::new(&of_image, &example().kubelet, &requested);
        assert_eq!(
            flags(&Kubelet::default(), &registered, false),
            ["--node-labels=edge=,example.org/image=a,example.org/rack=8,\
              topology.kubernetes.io/zone=zone-a"]
        );
        assert_eq!(
            configuration(None, &Kubelet::default(), &registered)["registerWithTaints"],
            json!([
                { "key": "dedicated", "value": "", "effect": "NoSchedule" },
                { "key": "dedicated", "value": "a", "effect": "NoExecute" },
            ])
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
        assert_eq!(authority, cluster.authority().to_pem());
        assert_eq!(bootstrap_kubeconfig(&without_token(&cluster)), None);
    }
}
