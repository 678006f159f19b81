//! The clients that may use the node API over the network.

use super::{Content, RootFile};
use osbuild_abi::paths;

/// The section `[api]` of a recipe with the pod `osd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Api {
    /// The CAs of the clients: a file of the project, which the plan does not read. `None` leaves
    /// the API closed.
    pub clients: Option<String>,
}

impl Api {
    /// The file with the CAs in the root of the node, or else the empty folder of that file, which
    /// the pod mounts.
    pub fn file(&self) -> RootFile {
        let (path, mode, content) = match &self.clients {
            Some(clients) => (paths::API_CLIENTS, 0o644, Content::File(clients.clone())),
            None => (paths::API, 0o755, Content::Directory),
        };
        RootFile { path: path.to_owned(), mode, content }
    }
}
