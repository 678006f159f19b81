//! The part of containerd's gRPC API that loads images: content, images, snapshots and leases.
//!
//! The messages have only the fields that are used here; names and numbers are those of
//! containerd's `api/services/*/v1/*.proto`.

use std::collections::HashMap;

use osbuild_abi::paths::CONTAINERD_SOCKET;
use osbuild_failure::{Explain, Outcome};
use prost::Message;
use tokio_stream::Stream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// The namespace in which the CRI plugin looks for images.
const NAMESPACE: &str = "k8s.io";

/// A connection to containerd.
pub struct Connection {
    grpc: Grpc<Channel>,
    lease: Option<String>,
}

impl Connection {
    /// Connects to containerd's socket.
    pub async fn open() -> Outcome<Connection> {
        let endpoint = Endpoint::from_shared(format!("unix://{CONTAINERD_SOCKET}"))
            .explain("name containerd's socket")?;
        let channel =
            endpoint.connect().await.explain(format_args!("connect to {CONTAINERD_SOCKET}"))?;
        Ok(Connection { grpc: Grpc::new(channel), lease: None })
    }

    /// Later writes belong to this lease, so that containerd does not collect them before something
    /// refers to them.
    pub fn use_lease(&mut self, id: &str) {
        self.lease = Some(id.to_owned());
    }

    /// Calls a method with one message and one reply. `method` is `/PACKAGE.SERVICE/METHOD`.
    pub async fn call<Sent, Reply>(
        &mut self,
        method: &'static str,
        message: Sent,
    ) -> Result<Reply, Status>
    where
        Sent: Message + 'static,
        Reply: Message + Default + 'static,
    {
        self.ready().await?;
        let request = self.request(message);
        let codec = ProstCodec::<Sent, Reply>::default();
        Ok(self.grpc.unary(request, PathAndQuery::from_static(method), codec).await?.into_inner())
    }

    /// Writes a blob: sends the messages and returns after containerd's reply to the last one.
    pub async fn write(
        &mut self,
        messages: impl Stream<Item = WriteContent> + Send + 'static,
    ) -> Result<(), Status> {
        self.ready().await?;
        let request = self.request(messages);
        let codec = ProstCodec::<WriteContent, WriteContentAnswer>::default();
        let path = PathAndQuery::from_static("/containerd.services.content.v1.Content/Write");
        let mut answers = self.grpc.streaming(request, path, codec).await?.into_inner();
        while answers.message().await?.is_some() {}
        Ok(())
    }

    /// Lists the snapshots of a snapshotter.
    pub async fn list_snapshots(
        &mut self,
        message: ListSnapshots,
    ) -> Result<Vec<Snapshot>, Status> {
        self.ready().await?;
        let request = self.request(message);
        let codec = ProstCodec::<ListSnapshots, ListSnapshotsAnswer>::default();
        let path = PathAndQuery::from_static("/containerd.services.snapshots.v1.Snapshots/List");
        let mut answers = self.grpc.server_streaming(request, path, codec).await?.into_inner();
        let mut snapshots = Vec::new();
        while let Some(answer) = answers.message().await? {
            snapshots.extend(answer.snapshots);
        }
        Ok(snapshots)
    }

    /// The events of containerd that this filter accepts, from now on.
    pub async fn events(&mut self, filter: &str) -> Result<Streaming<Event>, Status> {
        self.ready().await?;
        let request = self.request(Subscribe { filters: vec![filter.to_owned()] });
        let codec = ProstCodec::<Subscribe, Event>::default();
        let path = PathAndQuery::from_static("/containerd.services.events.v1.Events/Subscribe");
        Ok(self.grpc.server_streaming(request, path, codec).await?.into_inner())
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request
            .metadata_mut()
            .insert("containerd-namespace", MetadataValue::from_static(NAMESPACE));
        // The names of leases are constants in plain ASCII.
        if let Some(lease) = self.lease.as_ref().and_then(|lease| lease.parse().ok()) {
            request.metadata_mut().insert("containerd-lease", lease);
        }
        request
    }
}

/// Labels of a resource.
pub type Labels = HashMap<String, String>;

/// `containerd.services.content.v1.WriteContentRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct WriteContent {
    /// Whether this is the last message.
    #[prost(enumeration = "WriteAction", tag = "1")]
    pub action: i32,
    /// A name for the write, under which an interrupted one is resumed.
    #[prost(string, tag = "2")]
    pub reference: String,
    /// The size of the whole blob in bytes.
    #[prost(int64, tag = "3")]
    pub total: i64,
    /// The expected digest of the whole blob.
    #[prost(string, tag = "4")]
    pub expected: String,
    /// The offset of the bytes.
    #[prost(int64, tag = "5")]
    pub offset: i64,
    /// The bytes.
    #[prost(bytes = "vec", tag = "6")]
    pub data: Vec<u8>,
    /// The blob's labels, with the last message.
    #[prost(map = "string, string", tag = "7")]
    pub labels: Labels,
}

/// `containerd.services.content.v1.WriteAction`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum WriteAction {
    /// Only ask how far the write is.
    Stat = 0,
    /// Write these bytes.
    Write = 1,
    /// Write these bytes and finish the blob.
    Commit = 2,
}

/// `containerd.services.content.v1.WriteContentResponse`, whose fields are not read.
#[derive(Clone, PartialEq, Message)]
pub struct WriteContentAnswer {}

/// `containerd.services.content.v1.DeleteContentRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteContent {
    /// The blob's digest.
    #[prost(string, tag = "1")]
    pub digest: String,
}

/// `containerd.services.snapshots.v1.ListSnapshotsRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ListSnapshots {
    /// The snapshotter's name.
    #[prost(string, tag = "1")]
    pub snapshotter: String,
}

/// `containerd.services.snapshots.v1.ListSnapshotsResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ListSnapshotsAnswer {
    /// Some of the snapshots.
    #[prost(message, repeated, tag = "1")]
    pub snapshots: Vec<Snapshot>,
}

/// `containerd.services.snapshots.v1.Info`.
#[derive(Clone, PartialEq, Message)]
pub struct Snapshot {
    /// Its name: of an unpacked layer, the digest of the chain up to it.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The name of its parent; empty for none.
    #[prost(string, tag = "2")]
    pub parent: String,
}

/// `containerd.services.snapshots.v1.RemoveSnapshotRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct RemoveSnapshot {
    /// The snapshotter's name.
    #[prost(string, tag = "1")]
    pub snapshotter: String,
    /// The snapshot's name.
    #[prost(string, tag = "2")]
    pub key: String,
}

/// `containerd.types.Descriptor`.
#[derive(Clone, PartialEq, Message)]
pub struct Descriptor {
    /// The media type.
    #[prost(string, tag = "1")]
    pub media_type: String,
    /// The digest.
    #[prost(string, tag = "2")]
    pub digest: String,
    /// The size in bytes.
    #[prost(int64, tag = "3")]
    pub size: i64,
}

/// `containerd.services.images.v1.Image`.
#[derive(Clone, PartialEq, Message)]
pub struct Image {
    /// The name that a pod asks for.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its labels.
    #[prost(map = "string, string", tag = "2")]
    pub labels: Labels,
    /// Its manifest.
    #[prost(message, optional, tag = "3")]
    pub target: Option<Descriptor>,
}

/// `CreateImageRequest`, and `UpdateImageRequest`, which without a mask replaces the whole image.
#[derive(Clone, PartialEq, Message)]
pub struct PutImage {
    /// The image.
    #[prost(message, optional, tag = "1")]
    pub image: Option<Image>,
}

/// `containerd.services.images.v1.GetImageRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct GetImage {
    /// The image's name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// `containerd.services.images.v1.GetImageResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct GetImageAnswer {
    /// The image.
    #[prost(message, optional, tag = "1")]
    pub image: Option<Image>,
}

/// `containerd.services.images.v1.UpdateImageRequest` for some fields.
#[derive(Clone, PartialEq, Message)]
pub struct UpdateImage {
    /// The image, with the new values of these fields.
    #[prost(message, optional, tag = "1")]
    pub image: Option<Image>,
    /// The fields.
    #[prost(message, optional, tag = "2")]
    pub mask: Option<FieldMask>,
}

/// `google.protobuf.FieldMask`.
#[derive(Clone, PartialEq, Message)]
pub struct FieldMask {
    /// The paths of the fields.
    #[prost(string, repeated, tag = "1")]
    pub paths: Vec<String>,
}

/// `containerd.services.events.v1.SubscribeRequest`.
#[derive(Clone, PartialEq, Message)]
struct Subscribe {
    #[prost(string, repeated, tag = "1")]
    filters: Vec<String>,
}

/// `containerd.types.Envelope`.
#[derive(Clone, PartialEq, Message)]
pub struct Event {
    /// The event.
    #[prost(message, optional, tag = "4")]
    pub event: Option<AnyMessage>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub struct AnyMessage {
    /// The encoded message.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// `containerd.events.ImageDelete`, and the part of `ImageUpdate` that is read.
#[derive(Clone, PartialEq, Message)]
pub struct OfImage {
    /// The image's name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// `containerd.services.images.v1.ListImagesRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ListImages {
    /// Conditions, one of which has to hold.
    #[prost(string, repeated, tag = "1")]
    pub filters: Vec<String>,
}

/// `containerd.services.images.v1.ListImagesResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ListImagesAnswer {
    /// The images.
    #[prost(message, repeated, tag = "1")]
    pub images: Vec<Image>,
}

/// `containerd.services.images.v1.DeleteImageRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteImage {
    /// The image's name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// `containerd.services.leases.v1.CreateRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct CreateLease {
    /// The lease's name.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Its labels.
    #[prost(map = "string, string", tag = "3")]
    pub labels: Labels,
}

/// `containerd.services.leases.v1.DeleteRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct DeleteLease {
    /// The lease's name.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Whether the reply comes after everything unreferenced has been collected.
    #[prost(bool, tag = "2")]
    pub sync: bool,
}

/// `containerd.services.leases.v1.ListRequest`: all leases.
#[derive(Clone, PartialEq, Message)]
pub struct ListLeases {}

/// `containerd.services.leases.v1.ListResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ListLeasesAnswer {
    /// The leases.
    #[prost(message, repeated, tag = "1")]
    pub leases: Vec<Lease>,
}

/// `containerd.services.leases.v1.Lease`.
#[derive(Clone, PartialEq, Message)]
pub struct Lease {
    /// Its name.
    #[prost(string, tag = "1")]
    pub id: String,
}

/// A reply whose fields are not read.
#[derive(Clone, PartialEq, Message)]
pub struct Ignored {}

/// The readable part of a status.
pub fn describe(status: Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

/// The same for a call that may fail because the object exists already.
pub fn unless_exists(result: Result<(), Status>) -> Result<(), String> {
    match result {
        Err(status) if status.code() == Code::AlreadyExists => Ok(()),
        other => other.map_err(describe),
    }
}
