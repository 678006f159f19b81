//! CSI's service `Node`: the kubelet has it mount the volumes of pods.
//!
//! An ephemeral volume is a file system in memory with one file. Any other volume is a folder of
//! the node, which is mounted at a place for the node, and from there at one for each pod.

use crate::messages::csi::node_server::Node;
use crate::messages::csi::node_service_capability::rpc::Type;
use crate::messages::csi::node_service_capability::{self, Rpc};
use crate::messages::csi::volume_capability::AccessType;
use crate::messages::csi::{
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest,
    NodeGetInfoResponse, NodePublishVolumeRequest, NodePublishVolumeResponse,
    NodeServiceCapability, NodeStageVolumeRequest, NodeStageVolumeResponse,
    NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse, NodeUnstageVolumeRequest,
    NodeUnstageVolumeResponse, VolumeCapability,
};
use crate::{NAME, mounts};
use osbuild_failure::Failure;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use tonic::{Request, Response, Status};

/// The folder of volumes in the driver's.
const VOLUMES: &str = "volumes";

/// The file of an ephemeral volume, and the attribute with its text.
const FILE: &str = "greeting";
const TEXT: &str = "text";

/// Attributes that the kubelet adds to a volume's, if the `CSIDriver` asks for it.
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";
const POD: &str = "csi.storage.k8s.io/pod.name";
const NAMESPACE: &str = "csi.storage.k8s.io/pod.namespace";

pub struct NodeService {
    /// The node's name.
    node: String,
    /// The folder of volumes.
    volumes: PathBuf,
}

impl NodeService {
    /// The service of a node, with the driver's folder there.
    pub fn new(node: String, folder: impl AsRef<Path>) -> Self {
        NodeService { node, volumes: folder.as_ref().join(VOLUMES) }
    }

    /// The folder with the content of a volume, which is made for the first pod with it.
    fn content(&self, volume: &str) -> Result<PathBuf, Status> {
        let folder = self.volumes.join(plain(volume)?);
        fs::create_dir_all(&folder)
            .map_err(|error| Status::internal(format!("make `{}`: {error}", folder.display())))?;
        Ok(folder)
    }
}

#[tonic::async_trait]
impl Node for NodeService {
    async fn node_stage_volume(
        &self,
        request: Request<NodeStageVolumeRequest>,
    ) -> Result<Response<NodeStageVolumeResponse>, Status> {
        let request = request.into_inner();
        is_files(request.volume_capability)?;
        let target = absolute(&request.staging_target_path)?;
        mounts::folder(&self.content(&request.volume_id)?, target).map_err(internal)?;
        println!("staged {} at {}", request.volume_id, target.display());
        Ok(Response::new(NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<NodeUnstageVolumeRequest>,
    ) -> Result<Response<NodeUnstageVolumeResponse>, Status> {
        let NodeUnstageVolumeRequest { volume_id, staging_target_path } = request.into_inner();
        mounts::end(absolute(&staging_target_path)?).map_err(internal)?;
        println!("unstaged {volume_id} from {staging_target_path}");
        Ok(Response::new(NodeUnstageVolumeResponse {}))
    }

    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let request = request.into_inner();
        is_files(request.volume_capability)?;
        if request.readonly {
            return Err(Status::invalid_argument("this driver has no read-only volumes"));
        }
        let target = absolute(&request.target_path)?;
        let mounted = match greeting(&request.volume_context) {
            Some(text) => mounts::memory(NAME, target, FILE, &text),
            None => mounts::folder(absolute(&request.staging_target_path)?, target),
        };
        mounted.map_err(internal)?;
        println!("published {} at {}", request.volume_id, target.display());
        Ok(Response::new(NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        let NodeUnpublishVolumeRequest { volume_id, target_path } = request.into_inner();
        mounts::end(absolute(&target_path)?).map_err(internal)?;
        println!("unpublished {volume_id} from {target_path}");
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        let stages =
            node_service_capability::Type::Rpc(Rpc { r#type: Type::StageUnstageVolume.into() });
        let capabilities = vec![NodeServiceCapability { r#type: Some(stages) }];
        Ok(Response::new(NodeGetCapabilitiesResponse { capabilities }))
    }

    async fn node_get_info(
        &self,
        _: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        Ok(Response::new(NodeGetInfoResponse { node_id: self.node.clone() }))
    }
}

/// The text of an ephemeral volume: that of its pod's manifest, and whose it is. None for another
/// volume.
fn greeting(context: &HashMap<String, String>) -> Option<String> {
    let value = |key: &str| context.get(key).map_or("", String::as_str);
    let is_ephemeral = value(EPHEMERAL) == "true";
    is_ephemeral.then(|| format!("{} for {}/{}\n", value(TEXT), value(NAMESPACE), value(POD)))
}

/// Accepts a volume of files, and no device.
fn is_files(capability: Option<VolumeCapability>) -> Result<(), Status> {
    match capability.and_then(|capability| capability.access_type) {
        Some(AccessType::Mount(_)) => Ok(()),
        Some(AccessType::Block(_)) | None => {
            Err(Status::invalid_argument("this driver has volumes of files alone"))
        }
    }
}

/// The identifier of a volume as the name of a folder.
fn plain(volume: &str) -> Result<&str, Status> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    match !volume.is_empty() && volume.bytes().all(is_plain) {
        true => Ok(volume),
        false => Err(Status::invalid_argument("a volume is named by letters, digits and hyphens")),
    }
}

fn absolute(path: &str) -> Result<&Path, Status> {
    let found = Path::new(path);
    match found.is_absolute() {
        true => Ok(found),
        false => Err(Status::invalid_argument(format!("`{path}` is not an absolute path"))),
    }
}

fn internal(failure: Failure) -> Status {
    eprintln!("error: {failure}");
    Status::internal(failure.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::csi::volume_capability::{BlockVolume, MountVolume};
    use tonic::Code;

    #[test]
    fn an_ephemeral_volume_greets_its_pod_and_another_has_no_greeting() {
        let mut context: HashMap<String, String> =
            [(TEXT, "hello"), (NAMESPACE, "default"), (POD, "web")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into();
        assert_eq!(greeting(&context), None);
        context.insert(EPHEMERAL.to_owned(), "true".to_owned());
        assert_eq!(greeting(&context).as_deref(), Some("hello for default/web\n"));
    }

    #[test]
    fn a_volume_never_leaves_the_folder_of_volumes() {
        assert_eq!(plain("kept-1").unwrap(), "kept-1");
        for name in ["", "..", "a/b", "/etc", "a.b"] {
            assert_eq!(plain(name).unwrap_err().code(), Code::InvalidArgument, "{name}");
        }
        assert!(absolute("relative").is_err());
    }

    #[tokio::test]
    async fn what_the_driver_does_not_have_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let service = NodeService::new("node".to_owned(), folder.path());
        let publish = |access_type, readonly| {
            service.node_publish_volume(Request::new(NodePublishVolumeRequest {
                volume_capability: Some(VolumeCapability { access_type: Some(access_type) }),
                readonly,
                ..Default::default()
            }))
        };
        let refused = [
            publish(AccessType::Block(BlockVolume {}), false).await,
            publish(AccessType::Mount(MountVolume {}), true).await,
        ];
        for reply in refused {
            assert_eq!(reply.unwrap_err().code(), Code::InvalidArgument);
        }
        let info = service.node_get_info(Request::new(NodeGetInfoRequest {})).await.unwrap();
        assert_eq!(info.into_inner().node_id, "node");
    }
}
