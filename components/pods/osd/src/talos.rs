//! The service `MachineService` of Talos, as far as `talosctl get` needs it.

use osbuild_cosi::machine::machine_service_server::MachineService;
use osbuild_cosi::machine::{Version, VersionInfo, VersionResponse};
use tonic::{Request, Response, Status};

/// Serves the version of this program.
pub struct TalosService;

#[tonic::async_trait]
impl MachineService for TalosService {
    async fn version(&self, _: Request<()>) -> Result<Response<VersionResponse>, Status> {
        let version = VersionInfo {
            tag: concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
            os: "linux".to_owned(),
            arch: go_name(std::env::consts::ARCH).to_owned(),
        };
        let messages = vec![Version { version: Some(version) }];
        Ok(Response::new(VersionResponse { messages }))
    }
}

/// Go's name of an architecture.
fn go_name(architecture: &str) -> &str {
    match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
