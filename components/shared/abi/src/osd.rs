//! The pod that serves the node API.

/// The component whose pod serves it.
pub const COMPONENT: &str = "osd";

/// The TCP port on which it serves clients on the network.
pub const PORT: u16 = 50_000;

/// The name in its certificate, for clients that insist on one. What counts is the fingerprint.
pub const CERTIFICATE_NAME: &str = "osd";

/// The organization (O) in the certificate of a client that may read.
pub const READER: &str = "reader";

/// That of one that may also change settings that give nobody rights on the node.
pub const OPERATOR: &str = "operator";

/// That of one that may change everything.
pub const ADMIN: &str = "admin";

/// The metadata of a call with the number of the try that it is part of.
pub const TRY_METADATA: &str = "osbuild-try";

/// The annotation of a type's definition that names who writes its resources: the least role of a
/// client, or [`ITSELF`] or [`PLUGIN`].
pub const WRITER: &str = "osbuild/writer";

/// The annotation of a type's definition that is `true` if a mistake in one of its resources can
/// keep clients from reaching the node.
pub const MAY_DISCONNECT: &str = "osbuild/may-disconnect";

/// The annotation of a type's definition with the fields of its specs that are secret, with commas
/// between.
pub const SECRET_FIELDS: &str = "osbuild/secret-fields";

/// The variable of the environment of a debug container with its identifier.
pub const DEBUG_VARIABLE: &str = "OSBUILD_DEBUG";

/// The writer of what the node API reports itself.
pub const ITSELF: &str = "osd";

/// The writer of a type that a plugin's grant names.
pub const PLUGIN: &str = "plugin";
