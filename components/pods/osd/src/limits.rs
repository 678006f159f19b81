//! What clients may use of the program, whose memory the pod's manifest limits.

use osbuild_resources::Limits;
use std::time::Duration;

/// Bytes of a message from a client. A message to a client has at most the two resources of an
/// update more than this, so it stays below the 4 MiB that clients of gRPC accept.
pub const MAX_MESSAGE: usize = 1 << 20;

/// Connections at a time over the Unix socket.
pub const MAX_CONNECTIONS: usize = 64;

/// Connections at a time over the network.
pub const MAX_REMOTE_CONNECTIONS: usize = 64;

/// How long a client on the network may take to show its certificate.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may be silent before the server asks whether its client is still there,
/// and how long the client may take to answer.
pub const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// See [`KEEPALIVE_INTERVAL`].
pub const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Watches and waiting calls, of all clients.
pub const MAX_WATCHES: usize = 1024;

/// Bytes of the label queries of a list or watch, with [`TERM`] for each term. A watch keeps them.
pub const MAX_QUERY: usize = 8 << 10;

/// Bytes that a term of a label query takes beside its texts, rounded up.
pub const TERM: usize = 128;

/// Calls at a time on one connection, watches among them.
pub const MAX_STREAMS: u32 = 2048;

/// Bytes of the headers of a call.
pub const MAX_HEADERS: u32 = 16 << 10;

/// Generations of the settings.
pub const MAX_GENERATIONS: usize = 20;

/// Bytes of the settings of all generations. A file keeps them.
pub const MAX_GENERATION_BYTES: usize = 1 << 20;

/// For how long the writes of a caller belong to one generation.
pub const GENERATION_TIME: Duration = Duration::from_secs(1);

/// What the store holds.
pub const STORE: Limits =
    Limits { resources: 20_000, kinds: 256, bytes: 24 << 20, history_bytes: 8 << 20 };
