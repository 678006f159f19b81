//! The part of the CRI that lists and stops pods, and finds images.
//!
//! The messages have only the fields that are used here; names and numbers are those of
//! `k8s.io/cri-api`'s `runtime/v1/api.proto`.

use std::collections::HashMap;

use prost::Message;
use tonic::Status;

use super::api::{Connection, Ignored};
use super::pod_states::Ending;

/// The label of a container or sandbox that names its pod.
pub const POD_NAME: &str = "io.kubernetes.pod.name";
/// The label of a container or sandbox that names its pod's namespace.
pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// The annotation of a container with the number of those before it that have ended.
pub const RESTARTS: &str = "io.kubernetes.container.restartCount";
/// The label of a container that names it within its pod.
pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
/// The annotation of a sandbox with the source of its pod: `file` or `api`.
pub const SOURCE: &str = "kubernetes.io/config.source";
/// The annotation of a container with its pod's termination grace period in seconds.
pub const GRACE: &str = "io.kubernetes.pod.terminationGracePeriod";

/// `ContainerState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum ContainerState {
    /// Created and not started.
    Created = 0,
    /// Running.
    Running = 1,
    /// Exited.
    Exited = 2,
    /// Unknown.
    Unknown = 3,
}

/// `Container`.
#[derive(Clone, PartialEq, Message)]
pub struct Container {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The id of the sandbox that it runs in.
    #[prost(string, tag = "2")]
    pub sandbox: String,
    /// Its [`ContainerState`].
    #[prost(enumeration = "ContainerState", tag = "6")]
    pub state: i32,
    /// When it was created, in nanoseconds since 1970.
    #[prost(int64, tag = "7")]
    pub created_at: i64,
    /// Its labels.
    #[prost(map = "string, string", tag = "8")]
    pub labels: HashMap<String, String>,
    /// Its annotations.
    #[prost(map = "string, string", tag = "9")]
    pub annotations: HashMap<String, String>,
}

/// `PodSandbox`.
#[derive(Clone, PartialEq, Message)]
pub struct Sandbox {
    /// Its id.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its labels.
    #[prost(map = "string, string", tag = "5")]
    pub labels: HashMap<String, String>,
    /// Its annotations.
    #[prost(map = "string, string", tag = "6")]
    pub annotations: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Everything {}

/// `VersionRequest`, and `VersionResponse`, whose fields are not read.
#[derive(Clone, PartialEq, Message)]
struct Version {}

#[derive(Clone, PartialEq, Message)]
struct Containers {
    #[prost(message, repeated, tag = "1")]
    items: Vec<Container>,
}

/// Whether the kubelet has the pod of a container from a file.
pub fn is_static(container: &Container, sandboxes: &[Sandbox]) -> bool {
    let sandbox = sandboxes.iter().find(|sandbox| sandbox.id == container.sandbox);
    let source = sandbox.and_then(|sandbox| sandbox.annotations.get(SOURCE));
    source.is_some_and(|source| source == "file")
}

#[derive(Clone, PartialEq, Message)]
struct Sandboxes {
    #[prost(message, repeated, tag = "1")]
    items: Vec<Sandbox>,
}

#[derive(Clone, PartialEq, Message)]
struct AskContainer {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, Message)]
struct ContainerReply {
    #[prost(message, optional, tag = "1")]
    status: Option<ContainerStatus>,
}

/// `ContainerStatus`.
#[derive(Clone, PartialEq, Message)]
struct ContainerStatus {
    #[prost(int32, tag = "7")]
    exit_code: i32,
    #[prost(string, tag = "10")]
    reason: String,
    #[prost(string, tag = "11")]
    message: String,
}

#[derive(Clone, PartialEq, Message)]
struct StopContainer {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(int64, tag = "2")]
    timeout_seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ImageSpec {
    #[prost(string, tag = "1")]
    image: String,
}

#[derive(Clone, PartialEq, Message)]
struct AskImage {
    #[prost(message, optional, tag = "1")]
    image: Option<ImageSpec>,
}

/// `PullImageRequest`, without the credentials that the kubelet adds: those of settings are in
/// containerd's own configuration.
#[derive(Clone, PartialEq, Message)]
struct PullImage {
    #[prost(message, optional, tag = "1")]
    image: Option<ImageSpec>,
}

/// `Image`.
#[derive(Clone, PartialEq, Message)]
pub struct FoundImage {
    /// The digest of its configuration.
    #[prost(string, tag = "1")]
    pub id: String,
    /// The bytes that it takes in containerd's store.
    #[prost(uint64, tag = "4")]
    pub bytes: u64,
}

#[derive(Clone, PartialEq, Message)]
struct ImageStatus {
    #[prost(message, optional, tag = "1")]
    image: Option<FoundImage>,
}

impl Connection {
    /// The image that a pod gets under this name, as the digest of its configuration; empty for
    /// none.
    pub async fn image_id(&mut self, name: &str) -> Result<String, Status> {
        Ok(self.image(name).await?.unwrap_or_default().id)
    }

    /// The image that a pod gets under this name.
    pub async fn image(&mut self, name: &str) -> Result<Option<FoundImage>, Status> {
        let ask = AskImage { image: Some(ImageSpec { image: name.to_owned() }) };
        let reply: ImageStatus = self.call("/runtime.v1.ImageService/ImageStatus", ask).await?;
        Ok(reply.image)
    }

    /// Pulls the image of this name.
    pub async fn pull_image(&mut self, name: &str) -> Result<(), Status> {
        let ask = PullImage { image: Some(ImageSpec { image: name.to_owned() }) };
        self.call::<_, Ignored>("/runtime.v1.ImageService/PullImage", ask).await.map(drop)
    }

    /// Whether it answers.
    pub async fn version(&mut self) -> Result<(), Status> {
        self.call::<_, Version>("/runtime.v1.RuntimeService/Version", Version {}).await.map(drop)
    }

    /// All containers of all pods, including exited ones.
    pub async fn containers(&mut self) -> Result<Vec<Container>, Status> {
        let reply: Containers =
            self.call("/runtime.v1.RuntimeService/ListContainers", Everything {}).await?;
        Ok(reply.items)
    }

    /// The exit code of a container that has exited.
    pub async fn exit_code(&mut self, id: String) -> Result<i32, Status> {
        Ok(self.ending(id).await?.exit_code)
    }

    /// How a container that has exited has ended.
    pub async fn ending(&mut self, id: String) -> Result<Ending, Status> {
        let reply: ContainerReply =
            self.call("/runtime.v1.RuntimeService/ContainerStatus", AskContainer { id }).await?;
        let ContainerStatus { exit_code, reason, message } =
            reply.status.ok_or_else(|| Status::not_found("it has no status"))?;
        Ok(Ending { exit_code, reason, message })
    }

    /// All sandboxes, including stopped ones.
    pub async fn sandboxes(&mut self) -> Result<Vec<Sandbox>, Status> {
        let reply: Sandboxes =
            self.call("/runtime.v1.RuntimeService/ListPodSandbox", Everything {}).await?;
        Ok(reply.items)
    }

    /// Stops a container, and kills it after `timeout_seconds`.
    pub async fn stop_container(&mut self, id: String, timeout_seconds: i64) -> Result<(), Status> {
        let message = StopContainer { id, timeout_seconds };
        self.call::<_, Ignored>("/runtime.v1.RuntimeService/StopContainer", message).await?;
        Ok(())
    }
}
