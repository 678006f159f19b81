//! Errors in reply to a call.

/// An error: its name, and a sentence about it.
#[derive(Debug, PartialEq, Eq)]
pub struct ErrorReply {
    pub name: &'static str,
    pub text: String,
}

impl ErrorReply {
    pub const ACCESS_DENIED: &str = "org.freedesktop.DBus.Error.AccessDenied";
    pub const FAILED: &str = "org.freedesktop.DBus.Error.Failed";
    pub const INVALID_ARGS: &str = "org.freedesktop.DBus.Error.InvalidArgs";
    pub const LIMITS_EXCEEDED: &str = "org.freedesktop.DBus.Error.LimitsExceeded";
    pub const NO_MATCH_RULE: &str = "org.freedesktop.DBus.Error.MatchRuleNotFound";
    pub const INVALID_MATCH_RULE: &str = "org.freedesktop.DBus.Error.MatchRuleInvalid";
    pub const NOT_SUPPORTED: &str = "org.freedesktop.DBus.Error.NotSupported";
    pub const NO_SERVICE: &str = "org.freedesktop.DBus.Error.ServiceUnknown";
    pub const NO_OBJECT: &str = "org.freedesktop.DBus.Error.UnknownObject";
    pub const NO_METHOD: &str = "org.freedesktop.DBus.Error.UnknownMethod";
    pub const NO_INTERFACE: &str = "org.freedesktop.DBus.Error.UnknownInterface";
    pub const NO_PROPERTY: &str = "org.freedesktop.DBus.Error.UnknownProperty";
    /// logind's own: the shutdown has begun.
    pub const IN_PROGRESS: &str = "org.freedesktop.login1.OperationInProgress";

    pub fn new(name: &'static str, text: impl Into<String>) -> Self {
        ErrorReply { name, text: text.into() }
    }

    /// The call has arguments of other types.
    pub fn arguments(expected: &str) -> Self {
        Self::new(Self::INVALID_ARGS, format!("the arguments must have the signature `{expected}`"))
    }
}
