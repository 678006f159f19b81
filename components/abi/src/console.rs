//! The phrases that `init` writes on the console and that `osbuild run` and the tests wait for.

/// Every line of `init` starts with this; `<phase>: <what>` follows.
pub const PREFIX: &str = "init: ";

/// The line that starts with this says that the kubelet is healthy and that every declared pod runs.
pub const READY: &str = "init: READY";

/// The line that starts with this says that the node gave up, and why.
pub const FAILED: &str = "init: FAILED";

/// Starts the line that a phase writes when it has ended: `init: phase NAME SECONDS`, seconds since power-on with three decimals.
pub const PHASE: &str = "init: phase ";

/// Starts the line that says which addresses the node has: `init: address ADDRESS/PREFIX-LENGTH on LINK`.
pub const ADDRESS: &str = "init: address ";

/// Starts the warning that the machine has less memory than the board asks for.
pub const LOW_RAM: &str = "init: memory: too little";
