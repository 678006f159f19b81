//! The kubelet's configuration that kubeadm writes is for a whole kubelet on a host with systemd.
//! The node has its own, and takes from kubeadm's what belongs to the cluster or was set on
//! purpose.

use osbuild_failure::{Explain, Failure, Outcome};
use serde_json::{Map, Value};

/// The fields that the node decides about: who may ask the kubelet, and where containerd, static
/// pods and control groups are. kubeadm fills them all in.
const OF_THE_NODE: [&str; 5] = [
    "authentication",
    "authorization",
    "cgroupDriver",
    "containerRuntimeEndpoint",
    "staticPodPath",
];

/// The drop-in (`https://kubernetes.io/docs/tasks/administer-cluster/kubelet-config-file/`) with
/// the fields of kubeadm's configuration that count for the node. It is JSON, which YAML contains.
///
/// # Errors
/// The text is not a `KubeletConfiguration`.
pub fn drop_in(configuration: &str) -> Outcome<String> {
    let value: Value =
        serde_saphyr::from_str(configuration).explain("read the kubelet's configuration")?;
    let Value::Object(mut fields) = value else {
        return Err(Failure::new("the kubelet's configuration has no fields"));
    };
    fields.retain(|name, value| !OF_THE_NODE.contains(&name.as_str()) && is_set(value));
    let text = serde_json::to_string_pretty(&fields).explain("write the drop-in")?;
    Ok(text + "\n")
}

/// Whether a field has a value. kubeadm writes a zero for each that its configuration leaves out,
/// which means the kubelet's default: as a drop-in it would override the node's.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(_) => true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !["", "0", "0s"].contains(&text.as_str()),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => has_set(fields),
    }
}

fn has_set(fields: &Map<String, Value>) -> bool {
    fields.values().any(is_set)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Of kubeadm 1.35.8, with `maxPods: 50` in its configuration.
    const KUBEADM: &str = include_str!("../tests/kubelet.yaml");

    #[test]
    fn only_fields_of_the_cluster_and_those_set_on_purpose_are_taken() {
        let drop_in: Value = serde_json::from_str(&drop_in(KUBEADM).unwrap()).unwrap();
        let expected = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "clusterDNS": ["10.96.0.10"],
            "clusterDomain": "cluster.local",
            "healthzBindAddress": "127.0.0.1",
            "healthzPort": 10248,
            "maxPods": 50,
            "rotateCertificates": true,
        });
        assert_eq!(drop_in, expected);
    }

    #[test]
    fn a_field_that_switches_something_off_is_taken() {
        let drop_in = drop_in("enforceNodeAllocatable: [none]\nseccompDefault: false\n").unwrap();
        assert!(drop_in.contains("\"seccompDefault\": false") && drop_in.contains("\"none\""));
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        for text in ["", "- a\n", "{"] {
            assert!(drop_in(text).is_err(), "{text}");
        }
    }
}
