//! The pod that serves the node API.

/// The component whose pod serves it.
pub const COMPONENT: &str = "osd";

/// The TCP port on which it serves clients on the network.
pub const PORT: u16 = 50_000;
