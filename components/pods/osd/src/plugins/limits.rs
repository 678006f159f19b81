//! Limits for plugins. They bound the memory of the program, which the pod's manifest limits.

use std::time::Duration;

/// Plugins.
pub const MAX_PLUGINS: usize = 16;

/// Inputs and outputs of a grant, and columns of an output.
pub const MAX_GRANTED_INPUTS: usize = 32;
/// See [`MAX_GRANTED_INPUTS`]. The store has room for the kinds of all plugins.
pub const MAX_GRANTED_OUTPUTS: usize = 8;
/// See [`MAX_GRANTED_INPUTS`].
pub const MAX_COLUMNS: usize = 16;

/// Bytes of a name in a grant, and of a controller's name or finalizer.
pub const MAX_NAME: usize = 128;

/// Connections of a plugin at a time: one that starts again may still have its old one.
pub const MAX_CONNECTIONS: usize = 2;

/// Calls at a time on one connection, streams among them.
pub const MAX_STREAMS: u32 = 16;

/// Bytes of a message from a plugin. Each of its calls at a time may have received as much.
pub const MAX_MESSAGE: usize = 64 << 10;

/// Controllers of a plugin, and inputs and outputs of each.
pub const MAX_CONTROLLERS: usize = 8;
/// See [`MAX_CONTROLLERS`].
pub const MAX_INPUTS: usize = 32;

/// Resources of a plugin, and bytes of them. Those of all plugins leave room in the store for
/// settings.
pub const MAX_RESOURCES: usize = 512;
/// See [`MAX_RESOURCES`].
pub const MAX_BYTES: usize = 512 << 10;

/// Finalizers of a plugin on the resources of others.
pub const MAX_FINALIZERS: usize = 256;

/// The least average time between two calls of a plugin.
pub const CALL_INTERVAL: Duration = Duration::from_millis(5);

/// How far a plugin may be ahead of that average: 1000 calls at once.
pub const CALL_BURST: Duration = Duration::from_secs(5);

/// The least time between two messages to reconcile.
pub const RECONCILE_INTERVAL: Duration = Duration::from_millis(10);
