//! A storage driver (CSI) for tests. It serves the kubelet at two Unix sockets, one of them to be
//! found, and mounts volumes in a pod of its own: the mounts reach the node and other pods by
//! propagation.
//!
//! It prints a line for each volume that it mounts or unmounts, and ends on SIGTERM.

#![forbid(unsafe_code)]

mod authority;
mod identity;
mod mounts;
mod node;
mod registration;

use crate::identity::IdentityService;
use crate::node::NodeService;
use crate::registration::RegistrationService;
use messages::csi::identity_server::IdentityServer;
use messages::csi::node_server::NodeServer;
use messages::registration::registration_server::RegistrationServer;
use osbuild_failure::{Explain, Outcome};
use std::fs;
use std::io::ErrorKind;
use std::process::ExitCode;
use tokio::net::UnixListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

/// The messages and services of the kubelet.
mod messages {
    /// The package `csi.v1`.
    #[allow(missing_docs, reason = "the comments of the .proto files are the documentation")]
    pub mod csi {
        tonic::include_proto!("csi.v1");
    }

    /// The package `pluginregistration`.
    #[allow(missing_docs, reason = "the comments of the .proto files are the documentation")]
    pub mod registration {
        tonic::include_proto!("pluginregistration");
    }
}

/// The driver's name in the cluster.
const NAME: &str = "storage.example.org";

/// The variable with the name of the node.
const NODE: &str = "NODE_NAME";

/// The driver's folder on the node, as the pod mounts it.
const FOLDER: &str = "/csi";
/// The socket in there, and its path on the node.
const SOCKET: &str = "/csi/csi.sock";
const ENDPOINT: &str = "/var/lib/kubelet/plugins/storage.example.org/csi.sock";

/// The socket at which the kubelet finds the driver, in the folder that the kubelet watches.
const REGISTRATION: &str = "/registration/storage.example.org-reg.sock";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome {
    let node = std::env::var(NODE).explain(format_args!("read the variable {NODE}"))?;
    let runtime = Builder::new_current_thread().enable_all().build().explain("start a runtime")?;
    runtime.block_on(serve(NodeService::new(node, FOLDER)))?;
    // The kubelet takes the driver off the node's list, as with other drivers.
    fs::remove_file(REGISTRATION).explain(format_args!("remove `{REGISTRATION}`"))
}

/// Serves until SIGTERM.
async fn serve(node: NodeService) -> Outcome {
    let mut end = signal(SignalKind::terminate()).explain("wait for SIGTERM")?;
    // The kubelet uses the first socket as soon as it sees the second one.
    let volumes = listen(SOCKET)?;
    let registration = listen(REGISTRATION)?.map(|client| client.and_then(authority::corrected));
    Server::builder()
        .add_service(IdentityServer::new(IdentityService))
        .add_service(NodeServer::new(node))
        .add_service(RegistrationServer::new(RegistrationService))
        .serve_with_incoming_shutdown(volumes.merge(registration), async move {
            end.recv().await;
        })
        .await
        .explain("serve")
}

/// Listens at a path, where an earlier process may have left its socket.
fn listen(path: &str) -> Outcome<UnixListenerStream> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).explain(format_args!("remove `{path}`"));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path);
    Ok(UnixListenerStream::new(listener.explain(format_args!("listen at `{path}`"))?))
}
