//! Limits for clients. They bound the memory of the program, which the pod's manifest limits.

use osbuild_resources::Limits;
use std::time::Duration;

/// Bytes of a message from a client. A message to a client has at most the two resources of an
/// update more than this, so it stays below the 4 MiB that clients of gRPC accept.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Bytes of a message with the name of a service or of a type of the API.
pub const MAX_NAME: usize = 8 << 10;

/// Connections at a time over the Unix socket.
pub const MAX_CONNECTIONS: usize = 64;

/// Connections at a time over the network.
pub const MAX_REMOTE_CONNECTIONS: usize = 64;

/// Connections on the network whose clients have shown neither a certificate nor a token that
/// counts yet. HTTP/2 holds the headers of all streams of each of them.
pub const MAX_STRANGERS: usize = 16;

/// Calls at a time of all clients on the network, watches among them. One caller has a quarter of
/// this, and of the connections and bytes.
pub const MAX_REMOTE_CALLS: usize = 256;

/// Bytes of the requests of clients on the network that are read, and of the responses to them that
/// are not sent yet. A quarter of it is the greatest message that clients of gRPC accept.
pub const MAX_REMOTE_BYTES: usize = 16 << 20;

/// How long a client on the network may take to show its certificate, and until it has made its
/// first call, or one with a token that counts.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be silent before the server asks whether its client is still there,
/// and how long the client may take to answer.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// See [`KEEPALIVE_INTERVAL`].
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Watches and waiting calls of clients on the node.
pub const MAX_WATCHES: usize = 1024;

/// Bytes of the labels and annotations of a resource, and as many of its finalizers, which may be
/// those of others. Generations have a copy of each.
pub const MAX_METADATA: usize = 8 << 10;

/// Bytes of the name of a resource's owner, which generations have a copy of, too.
pub const MAX_OWNER: usize = 128;

/// Bytes of the label queries of a list or watch, with [`TERM`] for each term. A watch keeps them.
pub const MAX_QUERY: usize = 8 << 10;

/// Bytes that a term of a label query takes beside its texts, rounded up.
pub const TERM: usize = 128;

/// The limits of HTTP/2 for one connection.
#[derive(Clone, Copy, Debug)]
pub struct HttpLimits {
    /// Calls at a time, watches among them.
    pub streams: u32,
    /// Bytes of the headers of a call.
    pub headers: u32,
    /// Bytes that it sends before they are read, if not HTTP/2's own number.
    pub window: Option<u32>,
}

/// For clients on the node.
pub const LOCAL_HTTP: HttpLimits = HttpLimits { streams: 2048, headers: 16 << 10, window: None };

/// For clients on the network. More streams than a caller may have calls, so that one too many is
/// refused with a reason. The headers have room for a [token](crate::access::token::MAX_TOKEN).
pub const REMOTE_HTTP: HttpLimits =
    HttpLimits { streams: 100, headers: 12 << 10, window: Some(64 << 10) };

/// Revocations of clients' certificates.
pub const MAX_REVOCATIONS: usize = 1000;

/// Roles that administrators define.
pub const MAX_ROLES: usize = 64;

/// Issuers of tokens that count.
pub const MAX_TOKEN_ISSUERS: usize = 8;

/// Generations of the settings.
pub const MAX_GENERATIONS: usize = 20;

/// Bytes of the settings of all generations. A file keeps them.
pub const MAX_GENERATION_BYTES: usize = 1 << 20;

/// For how long the writes of a caller belong to one generation.
pub const GENERATION_TIME: Duration = Duration::from_secs(1);

/// The limits of the store.
pub const STORE: Limits =
    Limits { resources: 20_000, kinds: 256, bytes: 24 << 20, history_bytes: 8 << 20 };
