//! The annotations of a Node with which it asks for a reboot, and with which it is answered.
//!
//! NodeRestriction lets a node write the annotations of its own Node alone. Any tool may answer by
//! [`GRANTED`]; the other annotations of the answer are those of our own tool.

/// By the node: the version of the release that it wants to reboot into.
pub const WANTED: &str = "osbuild.dev/reboot-wanted";
/// By the node: since when it wants that (RFC 3339). Our tool replaces a time that is malformed or
/// far ahead.
pub const SINCE: &str = "osbuild.dev/reboot-since";
/// By the node: why it still waits, or why the release has failed. A sentence.
pub const REASON: &str = "osbuild.dev/reboot-reason";
/// By the node: the version that it tried last, a space, and [`SUCCEEDED`] or [`FAILED`].
pub const RESULT: &str = "osbuild.dev/reboot-result";

/// By the tool: the version into which the node may reboot now.
pub const GRANTED: &str = "osbuild.dev/reboot-granted";
/// By our tool: since when it may (RFC 3339).
pub const GRANTED_SINCE: &str = "osbuild.dev/granted-since";
/// By our tool: why it has not granted the reboot yet. A sentence.
pub const WAITS: &str = "osbuild.dev/reboot-waits";
/// By our tool: since when it drains the node, which it has cordoned (RFC 3339).
pub const DRAINED: &str = "osbuild.dev/drained-since";
/// By our tool: the version of the release for which it drains the node.
pub const DRAINED_FOR: &str = "osbuild.dev/drained-for";
/// By our tool: when it last gave up draining the node (RFC 3339).
pub const DRAIN_FAILED: &str = "osbuild.dev/drain-failed";

/// The node has become good with the release.
pub const SUCCEEDED: &str = "succeeded";
/// The node is back in its earlier release.
pub const FAILED: &str = "failed";
