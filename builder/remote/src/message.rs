//! The messages of the Remote Execution API, version 2, and of `google.bytestream` that a cache
//! needs, with the field numbers of their `.proto` files. Fields that we neither set nor read are
//! omitted. Results of actions stay bytes: a field of a message and one of bytes have the same
//! encoding.

use crate::BlobId;
use prost::Message;

/// `DigestFunction.Value.SHA256`.
pub const SHA256: i32 = 1;

/// `Compressor.Value.ZSTD`.
pub const ZSTD: i32 = 1;

/// `SymlinkAbsolutePathStrategy.Value.DISALLOWED`.
pub const DISALLOWED: i32 = 1;

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetCapabilitiesRequest {
    #[prost(string, tag = "1")]
    pub instance_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServerCapabilities {
    #[prost(message, optional, tag = "1")]
    pub cache_capabilities: Option<CacheCapabilities>,
    #[prost(message, optional, tag = "2")]
    pub execution_capabilities: Option<ExecutionCapabilities>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ExecutionCapabilities {
    /// The only digest function, of servers that have no list of them.
    #[prost(int32, tag = "1")]
    pub digest_function: i32,
    #[prost(bool, tag = "2")]
    pub exec_enabled: bool,
    #[prost(int32, repeated, tag = "5")]
    pub digest_functions: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CacheCapabilities {
    #[prost(int32, repeated, tag = "1")]
    pub digest_functions: Vec<i32>,
    #[prost(message, optional, tag = "2")]
    pub action_cache_update_capabilities: Option<ActionCacheUpdateCapabilities>,
    #[prost(int64, tag = "4")]
    pub max_batch_total_size_bytes: i64,
    #[prost(int32, tag = "5")]
    pub symlink_absolute_path_strategy: i32,
    #[prost(int32, repeated, tag = "6")]
    pub supported_compressors: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ActionCacheUpdateCapabilities {
    #[prost(bool, tag = "1")]
    pub update_enabled: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetActionResultRequest {
    #[prost(string, tag = "1")]
    pub instance_name: String,
    #[prost(message, optional, tag = "2")]
    pub action_digest: Option<BlobId>,
}

#[derive(Clone, PartialEq, Message)]
pub struct UpdateActionResultRequest {
    #[prost(string, tag = "1")]
    pub instance_name: String,
    #[prost(message, optional, tag = "2")]
    pub action_digest: Option<BlobId>,
    /// An `ActionResult`.
    #[prost(bytes = "vec", tag = "3")]
    pub action_result: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FindMissingBlobsRequest {
    #[prost(string, tag = "1")]
    pub instance_name: String,
    #[prost(message, repeated, tag = "2")]
    pub blob_digests: Vec<BlobId>,
}

#[derive(Clone, PartialEq, Message)]
pub struct FindMissingBlobsResponse {
    #[prost(message, repeated, tag = "2")]
    pub missing_blob_digests: Vec<BlobId>,
}

#[derive(Clone, PartialEq, Message)]
pub struct BatchUpdateBlobsRequest {
    #[prost(string, tag = "1")]
    pub instance_name: String,
    #[prost(message, repeated, tag = "2")]
    pub requests: Vec<Upload>,
}

/// `BatchUpdateBlobsRequest.Request`.
#[derive(Clone, PartialEq, Message)]
pub struct Upload {
    #[prost(message, optional, tag = "1")]
    pub digest: Option<BlobId>,
    #[prost(bytes = "bytes", tag = "2")]
    pub data: bytes::Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct BatchUpdateBlobsResponse {
    #[prost(message, repeated, tag = "1")]
    pub responses: Vec<Uploaded>,
}

/// `BatchUpdateBlobsResponse.Response`.
#[derive(Clone, PartialEq, Message)]
pub struct Uploaded {
    #[prost(message, optional, tag = "1")]
    pub digest: Option<BlobId>,
    #[prost(message, optional, tag = "2")]
    pub status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
pub struct BatchReadBlobsRequest {
    #[prost(string, tag = "1")]
    pub instance_name: String,
    #[prost(message, repeated, tag = "2")]
    pub digests: Vec<BlobId>,
}

#[derive(Clone, PartialEq, Message)]
pub struct BatchReadBlobsResponse {
    #[prost(message, repeated, tag = "1")]
    pub responses: Vec<Download>,
}

/// `BatchReadBlobsResponse.Response`.
#[derive(Clone, PartialEq, Message)]
pub struct Download {
    #[prost(message, optional, tag = "1")]
    pub digest: Option<BlobId>,
    #[prost(bytes = "bytes", tag = "2")]
    pub data: bytes::Bytes,
    #[prost(message, optional, tag = "3")]
    pub status: Option<Status>,
    #[prost(int32, tag = "4")]
    pub compressor: i32,
}

/// `google.bytestream.ReadRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ReadRequest {
    #[prost(string, tag = "1")]
    pub resource_name: String,
}

/// `google.bytestream.ReadResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct ReadResponse {
    #[prost(bytes = "bytes", tag = "10")]
    pub data: bytes::Bytes,
}

/// `google.bytestream.WriteRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct WriteRequest {
    #[prost(string, tag = "1")]
    pub resource_name: String,
    #[prost(int64, tag = "2")]
    pub write_offset: i64,
    #[prost(bool, tag = "3")]
    pub finish_write: bool,
    #[prost(bytes = "bytes", tag = "10")]
    pub data: bytes::Bytes,
}

/// `google.bytestream.WriteResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct WriteResponse {
    #[prost(int64, tag = "1")]
    pub committed_size: i64,
}
