//! The clients that may use the node API over the network, the rights of debug containers and of
//! static pods that are settings, and whether a setting may name the node's cluster or configure
//! its control plane. The recipe must also have the pod that serves the API, and the one that makes
//! the control plane.

use super::Resolver;
use crate::error::Problem;
use crate::plan::Api;
use crate::plan::document::Located;
use crate::plan::keys::{List, PodRight, RecipeFile};
use osbuild_abi::osd::COMPONENT;

/// The component of the pod that makes the control plane.
const CONTROL_PLANE: &str = "control-plane";
/// The start of the right to a capability.
const CAPABILITY: &str = "capability=";
/// The word for no static pods.
const OFF: &str = "off";

impl Resolver<'_> {
    /// The API of a node that has its pod.
    pub(super) fn api(&mut self, recipe: &RecipeFile) -> Option<Api> {
        let has_pod = |component: &str| {
            let mut pods = recipe.pods.iter().flat_map(|pods| pods.values());
            pods.any(|entry| entry.component().is_some_and(|named| *named.value == *component))
        };
        let is_served = has_pod(COMPONENT);
        let Some(section) = &recipe.api else { return is_served.then(Api::default) };
        if !is_served {
            let message = format!("`[api]` has no effect without the pod `{COMPONENT}`");
            let entry = format!("{COMPONENT} = {{ component = \"{COMPONENT}\" }}");
            let problem = Problem::new(message).at(section.spot.place());
            self.problems.push(problem.hint(format!("add `{entry}` to `[pods]`")));
        }
        if let Some(clients) = &section.clients {
            self.note("api.clients", &clients.spot);
        }
        if let Some(debug) = &section.debug {
            self.note("api.debug", &debug.spot);
        }
        if let Some(cluster_join) = &section.cluster_join {
            self.note("api.cluster-join", &cluster_join.spot);
        }
        if let Some(control_plane) = &section.control_plane {
            self.note("api.control-plane", &control_plane.spot);
            if control_plane.value && !has_pod(CONTROL_PLANE) {
                let message = format!("it has no effect without the pod `{CONTROL_PLANE}`");
                self.problem(&control_plane.spot, message);
            }
        }
        let static_pods = section.static_pods.as_ref().map(|rights| self.pod_rights(rights));
        let clients = section.clients.as_ref().map(|clients| clients.value.to_string());
        let debug = section.debug.as_ref().map(|debug| debug.value);
        let is_allowed = |key: &Option<Located<bool>>| key.as_ref().is_some_and(|key| key.value);
        let cluster_join = is_allowed(&section.cluster_join);
        let control_plane = is_allowed(&section.control_plane);
        Some(Api { clients, debug, static_pods, cluster_join, control_plane })
    }

    /// The rights of static pods. One that `init` would not know is a problem.
    fn pod_rights(&mut self, rights: &Located<List<PodRight>>) -> Vec<String> {
        self.note("api.static-pods", &rights.spot);
        for right in &rights.value {
            let text = &*right.value;
            let problem = match text.strip_prefix(CAPABILITY) {
                Some("ALL") => format!("`{text}` is no capability: `privileged` has all of them"),
                Some(name) if name.starts_with("CAP_") => {
                    let name = name.trim_start_matches("CAP_");
                    format!("the name of a capability is without `CAP_`: `{CAPABILITY}{name}`")
                }
                _ if text == OFF && rights.value.len() > 1 => {
                    format!("`{OFF}` is alone, as it leaves no static pods that could have rights")
                }
                _ => continue,
            };
            self.problem(&right.spot, problem);
        }
        rights.value.iter().map(|right| right.value.to_string()).collect()
    }
}
