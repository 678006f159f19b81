//! The clients that may use the node API over the network, and the rights of debug containers. The
//! recipe must also have the pod that serves the API.

use super::Resolver;
use crate::error::Problem;
use crate::plan::Api;
use crate::plan::keys::RecipeFile;
use osbuild_abi::osd::COMPONENT;

impl Resolver<'_> {
    /// The API of a node that has its pod.
    pub(super) fn api(&mut self, recipe: &RecipeFile) -> Option<Api> {
        let mut pods = recipe.pods.iter().flat_map(|pods| pods.values());
        let is_served =
            pods.any(|entry| entry.component().is_some_and(|named| *named.value == *COMPONENT));
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
        let clients = section.clients.as_ref().map(|clients| clients.value.to_string());
        Some(Api { clients, debug: section.debug.as_ref().map(|debug| debug.value) })
    }
}
