//! The service with which the kubelet registers a plugin.

use crate::messages::registration::registration_server::Registration;
use crate::messages::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use crate::{ENDPOINT, NAME};
use tonic::{Request, Response, Status};

/// The kind of the plugin, and the version of CSI that it speaks.
const TYPE: &str = "CSIPlugin";
const VERSION: &str = "1.0.0";

pub struct RegistrationService;

#[tonic::async_trait]
impl Registration for RegistrationService {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: TYPE.to_owned(),
            name: NAME.to_owned(),
            endpoint: ENDPOINT.to_owned(),
            supported_versions: vec![VERSION.to_owned()],
        }))
    }

    /// The kubelet reports the result once.
    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        match request.into_inner() {
            RegistrationStatus { plugin_registered: true, .. } => println!("registered"),
            RegistrationStatus { error, .. } => println!("not registered: {error}"),
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
