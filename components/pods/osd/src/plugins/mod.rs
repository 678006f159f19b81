//! Programs that hold the machine to resources: COSI's API for controllers.
//!
//! [`grant`] says what a plugin may do, [`access`] what one of its controllers has declared, and
//! [`registry`] which controllers there are: these know nothing of gRPC and sockets. [`grants`]
//! gives each plugin its [`socket`] and its types, [`sessions`] has the plugins and their
//! connections, and [`runtime`], [`adapter`] and [`engine`] are the services that [`server`]
//! serves. [`reconcile`] has the messages that wake controllers, and [`status`] what others see of
//! them.

pub mod access;
pub mod adapter;
pub mod engine;
pub mod finalizers;
pub mod grant;
pub mod grants;
pub mod limits;
pub mod pace;
pub mod reconcile;
mod recorded;
pub mod registry;
pub mod runtime;
pub mod server;
pub mod sessions;
pub mod socket;
pub mod status;

use crate::shared::SharedStore;
use grants::Grants;
use osbuild_failure::Outcome;
use osbuild_resources::{Names, PrintColumn};
use sessions::Sessions;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The namespace of what plugins write.
pub const PLUGINS: &str = "plugins";

/// The names of the type of grants.
pub const PLUGIN_GRANTS: Names =
    Names { plural: "PluginGrants", singular: "PluginGrant", suffix: "osbuild" };

/// The columns of grants.
pub const GRANT_COLUMNS: &[PrintColumn] = &[
    PrintColumn { name: "Inputs", json_path: "{.inputs[:].type}" },
    PrintColumn { name: "Outputs", json_path: "{.outputs[:].type}" },
];

/// The names of the type of what `osd` says of controllers.
pub const CONTROLLER_STATUSES: Names =
    Names { plural: "ControllerStatuses", singular: "ControllerStatus", suffix: "osbuild" };

/// The columns of that.
pub const STATUS_COLUMNS: &[PrintColumn] = &[
    PrintColumn { name: "Plugin", json_path: "{.plugin}" },
    PrintColumn { name: "Connected", json_path: "{.connected}" },
    PrintColumn { name: "Outputs", json_path: "{.outputs[:]}" },
    PrintColumn { name: "Last reconcile", json_path: "{.lastReconcile}" },
];

/// Where plugins connect.
pub struct Options {
    /// The folder in which each plugin has a folder with its socket.
    pub folder: PathBuf,
    /// The name of a plugin that has no grant and may do everything, for the tests of others.
    pub test_plugin: Option<String>,
}

/// Serves plugins until the process ends. There has to be a runtime.
pub fn start(store: Arc<SharedStore>, Options { folder, test_plugin }: Options) -> Outcome<()> {
    let (accepted, connections) = mpsc::channel(1);
    let sessions = Arc::new(Sessions::new(store));
    let grants = Grants::new(sessions.clone(), folder, accepted, test_plugin)?;
    tokio::spawn(grants.run());
    tokio::spawn(async move {
        if let Err(error) = server::serve(connections, sessions).await {
            eprintln!("error: cannot serve plugins: {error}");
        }
    });
    Ok(())
}
