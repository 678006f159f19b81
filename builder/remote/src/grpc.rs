//! A cache that speaks the Remote Execution API, version 2.

use crate::checked::{Checked, longer};
use crate::chunks::WriteRequests;
use crate::fault::{line, reason};
use crate::headers::Headers;
use crate::limits::Limits;
use crate::message::{
    BatchReadBlobsRequest, BatchReadBlobsResponse, BatchUpdateBlobsRequest,
    BatchUpdateBlobsResponse, FindMissingBlobsRequest, FindMissingBlobsResponse,
    GetActionResultRequest, GetCapabilitiesRequest, ReadRequest, ReadResponse, ServerCapabilities,
    Status, UpdateActionResultRequest, Upload, WriteResponse,
};
use crate::progress::Progress;
use crate::raw::Raw;
use crate::{Access, Address, BlobId, Fault, Retry};
use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use tokio_stream::StreamExt;
use tonic::client;
use tonic::metadata::MetadataMap;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request};

/// The upper limit of a message in bytes: a batch with its overhead, or a piece of a blob.
const MAX_MESSAGE: usize = 5 << 20;

/// The length from which a blob is compressed on the way, in bytes.
const MIN_COMPRESSED: u64 = 32 << 10;

/// The level of zstd: fast, as the network is seldom slower than that.
const LEVEL: i32 = 3;

const CAPABILITIES: &str = "/build.bazel.remote.execution.v2.Capabilities/GetCapabilities";
const GET_RESULT: &str = "/build.bazel.remote.execution.v2.ActionCache/GetActionResult";
const UPDATE_RESULT: &str = "/build.bazel.remote.execution.v2.ActionCache/UpdateActionResult";
const FIND_MISSING: &str =
    "/build.bazel.remote.execution.v2.ContentAddressableStorage/FindMissingBlobs";
const READ_BATCH: &str =
    "/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchReadBlobs";
const UPDATE_BATCH: &str =
    "/build.bazel.remote.execution.v2.ContentAddressableStorage/BatchUpdateBlobs";
const READ: &str = "/google.bytestream.ByteStream/Read";
const WRITE: &str = "/google.bytestream.ByteStream/Write";

/// A connection to a server, made by the first call.
pub(crate) struct Grpc {
    channel: Channel,
    pub(crate) instance: String,
    headers: Headers,
}

impl Grpc {
    /// A client; call it inside a runtime.
    pub(crate) fn new(address: &Address, access: &Access, retry: &Retry) -> Result<Self, Fault> {
        let refused = |error: &dyn std::error::Error| Fault::Refused(reason(error));
        let mut endpoint = Endpoint::from_shared(address.origin())
            .and_then(|endpoint| endpoint.user_agent(crate::cache::AGENT))
            .map_err(|error| refused(&error))?
            .connect_timeout(retry.connect_timeout);
        if address.is_secure {
            endpoint = endpoint.tls_config(tls(access)).map_err(|error| refused(&error))?;
        }
        let headers = Headers::new(address, access)?;
        let instance = address.instance().to_owned();
        Ok(Grpc { channel: endpoint.connect_lazy(), instance, headers })
    }

    pub(crate) async fn limits(&self) -> Result<Limits, Fault> {
        let request = GetCapabilitiesRequest { instance_name: self.instance.clone() };
        let answer = self.send(CAPABILITIES, &request).await?;
        let answer = answer.map_err(|status| match status.code() {
            // The server lacks the instance, not a blob.
            code @ Code::NotFound => Fault::Refused(text_of(code, status.message())),
            _ => fault(status),
        });
        Limits::of(decode::<ServerCapabilities>(answer?)?)
    }

    pub(crate) async fn result(&self, action: &BlobId) -> Result<Bytes, Fault> {
        let instance_name = self.instance.clone();
        let action_digest = Some(action.clone());
        self.unary(GET_RESULT, &GetActionResultRequest { instance_name, action_digest }).await
    }

    pub(crate) async fn put_result(&self, action: &BlobId, result: &[u8]) -> Result<(), Fault> {
        let request = UpdateActionResultRequest {
            instance_name: self.instance.clone(),
            action_digest: Some(action.clone()),
            action_result: result.to_vec(),
        };
        self.unary(UPDATE_RESULT, &request).await.map(drop)
    }

    pub(crate) async fn missing(&self, blobs: &[BlobId]) -> Result<Vec<BlobId>, Fault> {
        let request = FindMissingBlobsRequest {
            instance_name: self.instance.clone(),
            blob_digests: blobs.to_vec(),
        };
        let response: FindMissingBlobsResponse = self.call(FIND_MISSING, &request).await?;
        Ok(response.missing_blob_digests)
    }

    /// The bytes of a batch, in the order of the names. They are not checked.
    pub(crate) async fn read_batch(
        &self,
        blobs: &[BlobId],
        progress: &Progress,
    ) -> Result<Vec<Bytes>, Fault> {
        let request =
            BatchReadBlobsRequest { instance_name: self.instance.clone(), digests: blobs.to_vec() };
        let response: BatchReadBlobsResponse = self.call(READ_BATCH, &request).await?;
        let mut found = HashMap::new();
        for download in response.responses {
            check(download.status.as_ref())?;
            if download.compressor != 0 {
                return Err(Fault::Wrong("it compressed a blob unasked".to_owned()));
            }
            progress.received(download.data.len());
            found.extend(download.digest.map(|digest| (digest, download.data)));
        }
        blobs.iter().map(|blob| found.get(blob).cloned().ok_or(Fault::Missing)).collect()
    }

    pub(crate) async fn write_batch(
        &self,
        blobs: &[(BlobId, Bytes)],
        progress: &Progress,
    ) -> Result<(), Fault> {
        let one = |(blob, data): &(BlobId, Bytes)| Upload {
            digest: Some(blob.clone()),
            data: data.clone(),
        };
        let request = BatchUpdateBlobsRequest {
            instance_name: self.instance.clone(),
            requests: blobs.iter().map(one).collect(),
        };
        let response: BatchUpdateBlobsResponse = self.call(UPDATE_BATCH, &request).await?;
        progress.sent(blobs.iter().map(|(_, data)| data.len()).sum());
        for (blob, _) in blobs {
            let this = response.responses.iter().find(|one| one.digest.as_ref() == Some(blob));
            let this = this.ok_or_else(|| Fault::Wrong("it skipped a blob of a batch".into()))?;
            check(this.status.as_ref())?;
        }
        Ok(())
    }

    /// Reads one blob into `out`, checked.
    pub(crate) async fn read<W: Write>(
        &self,
        blob: &BlobId,
        has_zstd: bool,
        out: W,
        progress: &Progress,
    ) -> Result<W, Fault> {
        let out = Checked::new(blob, out);
        if !has_zstd || blob.length() < MIN_COMPRESSED {
            let name = self.name("blobs", blob);
            return self.stream(&name, out, blob.length(), progress).await?.finish(blob);
        }
        let out = zstd::stream::write::Decoder::new(out).map_err(Fault::Local)?;
        let name = self.name("compressed-blobs/zstd", blob);
        let max = 2 * blob.length();
        let out = self.stream(&name, out, max, progress).await?;
        finish_zstd(out, blob)
    }

    /// Writes the bytes of a resource, at most `max`, to `out`.
    async fn stream<W: Write + Faulty>(
        &self,
        name: &str,
        mut out: W,
        max: u64,
        progress: &Progress,
    ) -> Result<W, Fault> {
        let request = ReadRequest { resource_name: name.to_owned() };
        let mut grpc = self.ready().await?;
        let request = self.request(request.encode_to_vec().into()).await?;
        let response = grpc.server_streaming(request, PathAndQuery::from_static(READ), Raw).await;
        let mut pieces = response.map_err(fault)?.into_inner();
        let mut left = max;
        while let Some(piece) = pieces.next().await {
            let piece: ReadResponse = decode(piece.map_err(fault)?)?;
            // Frames of zstd without content would reach no other limit.
            left = left.checked_sub(piece.data.len() as u64).ok_or_else(longer)?;
            progress.received(piece.data.len());
            if let Err(error) = out.write_all(&piece.data) {
                return Err(out.fault(error));
            }
        }
        Ok(out)
    }

    pub(crate) async fn write(
        &self,
        blob: &BlobId,
        has_zstd: bool,
        from: Box<dyn io::Read + Send>,
        progress: &Progress,
    ) -> Result<(), Fault> {
        let is_compressed = has_zstd && blob.length() >= MIN_COMPRESSED;
        let (kind, from): (_, Box<dyn io::Read + Send>) = match is_compressed {
            false => ("blobs", from),
            true => {
                let from = zstd::stream::read::Encoder::new(from, LEVEL).map_err(Fault::Local)?;
                ("compressed-blobs/zstd", Box::new(from))
            }
        };
        let name = self.name(&format!("uploads/{}/{kind}", fresh_id()), blob);
        let requests = WriteRequests::new(from, name, progress.clone());
        let mut grpc = self.ready().await?;
        let request = self.request(requests).await?;
        let response = grpc.client_streaming(request, PathAndQuery::from_static(WRITE), Raw).await;
        let response: WriteResponse = decode(response.map_err(fault)?.into_inner())?;
        // Of a compressed blob a server may count either length, or give -1 if it had the blob.
        match is_compressed || response.committed_size == blob.size {
            true => Ok(()),
            false => Err(Fault::Temporary("it took only a part of a blob".to_owned())),
        }
    }

    /// The name of a blob as a resource of `google.bytestream`.
    fn name(&self, kind: &str, blob: &BlobId) -> String {
        let slash = if self.instance.is_empty() { "" } else { "/" };
        format!("{}{slash}{kind}/{}/{}", self.instance, blob.hash, blob.size)
    }

    pub(crate) async fn call<Q: Message, A: Message + Default>(
        &self,
        method: &'static str,
        request: &Q,
    ) -> Result<A, Fault> {
        decode(self.unary(method, request).await?)
    }

    pub(crate) async fn unary(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<Bytes, Fault> {
        self.send(method, request).await?.map_err(fault)
    }

    /// The answer to a call, or the status with which the server refuses it.
    async fn send(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<Result<Bytes, tonic::Status>, Fault> {
        let mut grpc = self.ready().await?;
        let request = self.request(request.encode_to_vec().into()).await?;
        let response = grpc.unary(request, PathAndQuery::from_static(method), Raw).await;
        Ok(response.map(tonic::Response::into_inner))
    }

    pub(crate) async fn ready(&self) -> Result<client::Grpc<Channel>, Fault> {
        let mut grpc =
            client::Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE);
        match grpc.ready().await {
            Ok(()) => Ok(grpc),
            Err(error) => Err(Fault::Temporary(line(&reason(&error)))),
        }
    }

    /// A request with the headers of now.
    pub(crate) async fn request<T>(&self, message: T) -> Result<Request<T>, Fault> {
        let mut request = Request::new(message);
        *request.metadata_mut() = MetadataMap::from_headers(self.headers.get().await?);
        Ok(request)
    }
}

/// A writer that knows the fault behind its errors.
pub(crate) trait Faulty {
    /// The fault behind an error of a write.
    fn fault(&self, error: io::Error) -> Fault;
}

impl<W: Write> Faulty for Checked<W> {
    fn fault(&self, error: io::Error) -> Fault {
        Checked::fault(self, error)
    }
}

impl<W: Write> Faulty for zstd::stream::write::Decoder<'_, Checked<W>> {
    /// An error of zstd itself has no error number of the system.
    fn fault(&self, error: io::Error) -> Fault {
        match self.get_ref().fault(error) {
            Fault::Local(error) if error.raw_os_error().is_none() => {
                Fault::Wrong(format!("it sent what is no zstd: {}", line(&error.to_string())))
            }
            other => other,
        }
    }
}

/// The writer with the whole blob, after the last compressed byte. The decoder still has the end of
/// the blob, and what follows it if the server sent more.
fn finish_zstd<W: Write>(
    mut out: zstd::stream::write::Decoder<'_, Checked<W>>,
    blob: &BlobId,
) -> Result<W, Fault> {
    match out.flush() {
        Ok(()) => out.into_inner().finish(blob),
        Err(error) => Err(out.fault(error)),
    }
}

fn tls(access: &Access) -> ClientTlsConfig {
    let config = match &access.roots {
        Some(roots) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(roots)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    let identity = access.identity.as_ref();
    identity.map_or(config.clone(), |(certificate, key)| {
        config.identity(Identity::from_pem(certificate, key))
    })
}

pub(crate) fn decode<T: Message + Default>(bytes: Bytes) -> Result<T, Fault> {
    T::decode(bytes).map_err(|_| Fault::Wrong("it sent a malformed message".to_owned()))
}

/// Checks the status of one blob in a batch.
fn check(status: Option<&Status>) -> Result<(), Fault> {
    let code = status.map_or(Code::Ok, |status| Code::from_i32(status.code));
    match status {
        Some(status) if code != Code::Ok => Err(of_code(code, &status.message)),
        _ => Ok(()),
    }
}

pub(crate) fn fault(status: tonic::Status) -> Fault {
    use std::error::Error;
    let text = status.source().map_or_else(|| status.message().to_owned(), reason);
    of_code(status.code(), &text)
}

/// A code with the text of a server.
pub(crate) fn text_of(code: Code, text: &str) -> String {
    match text {
        "" => code.description().to_owned(),
        _ => format!("{}: {}", code.description(), line(text)),
    }
}

pub(crate) fn of_code(code: Code, text: &str) -> Fault {
    let text = text_of(code, text);
    match code {
        Code::NotFound => Fault::Missing,
        Code::Unavailable
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::Cancelled
        | Code::DeadlineExceeded
        | Code::DataLoss
        | Code::Internal
        | Code::Unknown => Fault::Temporary(text),
        _ => Fault::Refused(text),
    }
}

/// An identifier of one upload, which no other upload has.
fn fresh_id() -> uuid::Uuid {
    let mut bytes = [0; 16];
    for half in bytes.chunks_exact_mut(8) {
        half.copy_from_slice(&RandomState::new().hash_one(std::process::id()).to_le_bytes());
    }
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    /// The bytes that pass if a server sends these as the compressed blob.
    fn pass(blob: &[u8], sent: &[u8]) -> Result<Vec<u8>, Fault> {
        let hash = Sha256::digest(blob).iter().map(|byte| format!("{byte:02x}")).collect();
        let blob = BlobId::new(hash, blob.len() as u64);
        let sent = zstd::encode_all(sent, LEVEL).unwrap();
        let mut out = zstd::stream::write::Decoder::new(Checked::new(&blob, Vec::new())).unwrap();
        match out.write_all(&sent) {
            Ok(()) => finish_zstd(out, &blob),
            Err(error) => Err(out.fault(error)),
        }
    }

    #[test]
    fn a_compressed_blob_with_more_bytes_is_the_fault_of_the_server() {
        for length in [1, 100, 40_000, 200_000] {
            let bytes = vec![7; length];
            assert_eq!(pass(&bytes, &bytes).unwrap(), bytes);
            let longer = [bytes.as_slice(), b"x"].concat();
            let fault = pass(&bytes, &longer).unwrap_err();
            assert!(matches!(fault, Fault::Wrong(_)), "{length}: {fault:?}");
        }
    }

    proptest! {
        #[test]
        fn any_message_is_read_without_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200)
        ) {
            let bytes = Bytes::from(bytes);
            let _ = decode::<BatchReadBlobsResponse>(bytes.clone());
            let _ = decode::<BatchUpdateBlobsResponse>(bytes.clone());
            let _ = decode::<FindMissingBlobsResponse>(bytes.clone());
            let _ = decode::<ReadResponse>(bytes);
        }

        #[test]
        fn the_text_of_a_server_is_one_line(code in any::<i32>(), message in "\\PC{0,400}|.*") {
            if let Err(fault) = check(Some(&Status { code, message })) {
                let text = fault.to_string();
                prop_assert!(!text.chars().any(char::is_control) && text.chars().count() < 300);
            }
        }
    }

    #[test]
    fn no_two_uploads_have_the_same_identifier() {
        assert_ne!(fresh_id(), fresh_id());
    }
}
