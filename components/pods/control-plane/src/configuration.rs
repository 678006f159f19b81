//! kubeadm's configuration: the file that the node's owner places on DATA, and the
//! `ClusterConfiguration` of settings, which counts in the place of the file's.

use std::path::Path;
use std::{fs, io};

use osbuild_failure::{Explain, Outcome};
use serde_json::{Map, Value, json};

use crate::role::Role;

/// The kind of the configuration of a whole cluster.
const CLUSTER: &str = "ClusterConfiguration";
/// The fields of a `JoinConfiguration` that an `InitConfiguration` has, too
/// (`https://kubernetes.io/docs/reference/config-api/kubeadm-config.v1beta4/`).
const OF_BOTH: [&str; 3] = ["nodeRegistration", "patches", "timeouts"];

/// The configuration of the node.
#[derive(Debug, PartialEq)]
pub struct Configuration {
    /// The role of the node.
    pub role: Role,
    /// The objects of the file. Empty if there is none.
    objects: Vec<Value>,
    /// The `ClusterConfiguration` of settings.
    setting: Option<Value>,
}

impl Configuration {
    /// Reads the file, and takes the text of settings. `None` if there is neither.
    ///
    /// # Errors
    /// The file cannot be read, one of them is not YAML, or they make no control plane.
    pub fn read(file: &Path, setting: Option<&str>) -> Outcome<Option<Self>> {
        match fs::read_to_string(file) {
            Ok(text) => Self::of(Some(&text), setting),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::of(None, setting),
            Err(error) => Err(error).explain("read it"),
        }
    }

    fn of(file: Option<&str>, setting: Option<&str>) -> Outcome<Option<Self>> {
        if file.is_none() && setting.is_none() {
            return Ok(None);
        }
        let objects: Vec<Value> =
            serde_saphyr::from_multiple(file.unwrap_or_default()).explain("parse its YAML")?;
        let setting: Option<Value> =
            setting.map(serde_saphyr::from_str).transpose().explain("parse that of settings")?;
        let role = Role::of(&objects, setting.is_some())?;
        Ok(Some(Self { role, objects, setting }))
    }

    /// The text with which kubeadm makes the control plane, if it is not that of the file.
    pub fn to_make(&self) -> Option<String> {
        let setting = self.setting.as_ref().filter(|_| self.role == Role::First)?;
        let others = self.objects.iter().filter(|object| !is_of(object, CLUSTER));
        Some(text(others.chain([setting])))
    }

    /// The text with which kubeadm changes what it has made. `None` if neither the file nor a
    /// setting has the configuration of the cluster.
    pub fn to_change(&self) -> Option<String> {
        let cluster = self.cluster()?;
        let node = self.objects.iter().find_map(init_configuration);
        Some(text(node.iter().chain([cluster])))
    }

    /// The version of Kubernetes in the configuration of the cluster, if it has one.
    pub fn version(&self) -> Option<&str> {
        self.cluster()?["kubernetesVersion"].as_str()
    }

    /// The configuration of the cluster, if the file or a setting has one.
    fn cluster(&self) -> Option<&Value> {
        let of_file = || self.objects.iter().find(|object| is_of(object, CLUSTER));
        self.setting.as_ref().or_else(of_file)
    }
}

fn is_of(object: &Value, kind: &str) -> bool {
    object["kind"] == kind
}

/// The part of the object that is about the node, as an `InitConfiguration`.
fn init_configuration(object: &Value) -> Option<Value> {
    if is_of(object, "InitConfiguration") {
        return Some(object.clone());
    }
    let join = object.as_object().filter(|_| is_of(object, "JoinConfiguration"))?;
    let of_both = OF_BOTH.iter().filter_map(|name| join.get_key_value(*name));
    let mut init: Map<String, Value> =
        of_both.map(|(name, value)| (name.clone(), value.clone())).collect();
    init.insert("apiVersion".to_owned(), join["apiVersion"].clone());
    init.insert("kind".to_owned(), json!("InitConfiguration"));
    if let Some(endpoint) = object.pointer("/controlPlane/localAPIEndpoint") {
        init.insert("localAPIEndpoint".to_owned(), endpoint.clone());
    }
    Some(Value::Object(init))
}

/// The objects as documents of YAML, which contains JSON.
fn text<'a>(objects: impl Iterator<Item = &'a Value>) -> String {
    objects.map(|object| format!("---\n{object:#}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "apiVersion: kubeadm.k8s.io/v1beta4";

    fn object(kind: &str, rest: &str) -> String {
        format!("{VERSION}\nkind: {kind}\n{rest}")
    }

    fn read(file: Option<&str>, setting: Option<&str>) -> Configuration {
        Configuration::of(file, setting).unwrap().unwrap()
    }

    /// The objects of a text.
    fn objects(text: Option<String>) -> Vec<Value> {
        serde_saphyr::from_multiple(&text.unwrap()).unwrap()
    }

    #[test]
    fn a_setting_replaces_the_cluster_of_the_file_and_nothing_else() {
        let file = format!(
            "{}---\n{}",
            object("InitConfiguration", "patches: { directory: /p }\n"),
            object("ClusterConfiguration", "clusterName: file\n")
        );
        let setting =
            object("ClusterConfiguration", "clusterName: setting\nkubernetesVersion: v1.35.8\n");
        assert_eq!(read(Some(&file), None).to_make(), None, "the file is whole");
        assert_eq!(read(Some(&file), None).version(), None);
        assert_eq!(read(Some(&file), Some(&setting)).version(), Some("v1.35.8"));
        let both = read(Some(&file), Some(&setting));
        for text in [both.to_make(), both.to_change()] {
            let found = objects(text);
            assert_eq!(found.len(), 2);
            assert_eq!(found[0]["patches"]["directory"], "/p");
            assert_eq!(found[1]["clusterName"], "setting");
        }
        let before = objects(read(Some(&file), None).to_change());
        assert_eq!(before[1]["clusterName"], "file");
    }

    #[test]
    fn a_setting_alone_makes_the_first_node_of_a_cluster() {
        let alone = read(None, Some(&object("ClusterConfiguration", "clusterName: a\n")));
        assert_eq!(alone.role, Role::First);
        assert_eq!(objects(alone.to_make())[0]["clusterName"], "a");
        assert_eq!(Configuration::of(None, None).unwrap(), None);
    }

    #[test]
    fn a_further_node_joins_by_its_file_and_changes_by_the_setting() {
        let join = "nodeRegistration: { taints: [] }\ndiscovery: { bootstrapToken: { token: a } }\n\
                    controlPlane: { localAPIEndpoint: { bindPort: 7443 } }\n";
        let file = object("JoinConfiguration", join);
        let setting = object("ClusterConfiguration", "clusterName: a\n");
        let both = read(Some(&file), Some(&setting));
        assert_eq!((both.role, both.to_make()), (Role::Further, None));
        let found = objects(both.to_change());
        assert_eq!(found[0]["kind"], "InitConfiguration");
        assert_eq!(found[0]["localAPIEndpoint"]["bindPort"], 7443);
        assert_eq!(found[0]["nodeRegistration"]["taints"], json!([]));
        assert_eq!(found[0].get("discovery"), None);
        assert_eq!(found[1]["clusterName"], "a");
        assert_eq!(read(Some(&file), None).to_change(), None);
    }

    #[test]
    fn what_is_not_yaml_is_refused() {
        let failure = Configuration::of(Some("kind: ["), None).unwrap_err().to_string();
        assert!(failure.contains("parse its YAML"), "{failure}");
        let failure = Configuration::of(None, Some("kind: [")).unwrap_err().to_string();
        assert!(failure.contains("parse that of settings"), "{failure}");
    }

    #[test]
    fn a_node_without_a_file_and_a_setting_has_no_configuration() {
        let nowhere = Path::new("/nonexistent/kubeadm.yaml");
        assert_eq!(Configuration::read(nowhere, None).unwrap(), None);
    }
}
