//! The clients that may use the node API over the network, the rights of debug containers and of
//! static pods that are settings, and whether a setting may name the node's cluster or configure
//! its control plane.

use super::{Content, RootFile};
use osbuild_abi::paths;

/// The section `[api]` of a recipe with the pod `osd`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Api {
    /// The CAs of the clients: a file of the project, which the plan does not read. `None` leaves
    /// the API closed.
    pub clients: Option<String>,
    /// The greatest rights of debug containers. `None` leaves the choice to `init`: `restricted`.
    pub debug: Option<DebugAccess>,
    /// The rights of static pods that are settings, each as a word of `init`. `None` leaves them
    /// none.
    pub static_pods: Option<Vec<String>>,
    /// Whether a setting may name the cluster that the node joins.
    pub cluster_join: bool,
    /// Whether a setting may configure the control plane that runs on the node.
    pub control_plane: bool,
}

/// The greatest rights of debug containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebugAccess {
    /// There are none.
    Off,
    /// They have no rights on the node.
    Restricted,
    /// They see the node.
    Node,
}

impl DebugAccess {
    /// The words of all of them.
    pub const NAMES: [&str; 3] = ["off", "restricted", "node"];

    /// The one with this word.
    pub fn named(word: &str) -> Option<DebugAccess> {
        let all = [Self::Off, Self::Restricted, Self::Node];
        all.into_iter().find(|debug| debug.name() == word)
    }

    /// Its word.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

impl Api {
    /// The files in the root of the node, or else the empty folder for them, which the pod mounts.
    pub fn files(&self) -> Vec<RootFile> {
        let file = |path: &str, mode, content| RootFile { path: path.to_owned(), mode, content };
        let clients = self
            .clients
            .iter()
            .map(|clients| file(paths::API_CLIENTS, 0o644, Content::File(clients.clone())));
        let debug = self.debug.iter().map(|debug| {
            file(paths::API_DEBUG, 0o644, Content::Text(format!("{}\n", debug.name())))
        });
        let pods = self.static_pods.iter().map(|rights| {
            let lines = rights.iter().map(|right| format!("{right}\n")).collect();
            file(paths::API_STATIC_PODS, 0o644, Content::Text(lines))
        });
        let allowed = [
            (self.cluster_join, paths::API_CLUSTER_JOIN),
            (self.control_plane, paths::API_CONTROL_PLANE),
        ];
        let allowed = allowed.into_iter().filter(|(is_allowed, _)| *is_allowed);
        let allowed = allowed.map(|(_, path)| file(path, 0o644, Content::Text(String::new())));
        let files: Vec<RootFile> = clients.chain(debug).chain(pods).chain(allowed).collect();
        match files.is_empty() {
            true => vec![file(paths::API, 0o755, Content::Directory)],
            false => files,
        }
    }
}
