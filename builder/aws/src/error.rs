//! Errors of calls.

use super::{Action, Element, Region, Response};
use serde_json::Value;
use std::fmt;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The call.
    pub action: Action,
    /// The region of the call.
    pub region: Region,
    /// Why it failed.
    pub failure: Failure,
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// AWS refused it.
    Refused {
        /// The HTTP status.
        status: u16,
        /// The error code, such as `UnauthorizedOperation`.
        code: String,
        /// The error message of AWS.
        message: String,
    },
    /// No response, or only a part of one.
    Unreachable(String),
    /// The request cannot be encoded, or the response does not have the documented form.
    Invalid(String),
    /// No source has credentials, or the first one that is configured failed for this reason.
    NoCredentials(Option<String>),
    /// The call would change something, and the transport is [`super::ReadOnly`].
    ReadOnly,
    /// The user wants to stop.
    Stopped,
}

/// Error codes of throttled calls, which may succeed later.
const THROTTLED: [&str; 8] = [
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TooManyRequestsException",
    "SlowDown",
];

/// Error codes of expired credentials.
const EXPIRED: [&str; 4] =
    ["ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"];

/// Error codes of credentials that AWS does not know.
const UNKNOWN: [&str; 5] = [
    "AuthFailure",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "SignatureDoesNotMatch",
    "InvalidSignatureException",
];

/// Error codes of a missing permission.
const FORBIDDEN: [&str; 4] =
    ["UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "OperationNotPermitted"];

impl Failure {
    /// Parses an error response. EC2 sends XML, the others JSON, and EBS has the code in a header.
    pub(crate) fn refused(status: u16, header: Option<&str>, body: Vec<u8>) -> Self {
        let xml = Element::parse(&body);
        let json = Response { body }.json().unwrap_or_default();
        let from_xml =
            |name: &str| xml.as_ref()?.find(name).map(|found| found.text.trim().to_owned());
        let from_json = |names: [&str; 2]| {
            names.iter().find_map(|name| json.get(name).and_then(Value::as_str).map(str::to_owned))
        };
        let code = from_xml("Code")
            .or_else(|| from_json(["__type", "code"]))
            .or_else(|| header.map(str::to_owned));
        let code = code.unwrap_or_else(|| format!("HTTP {status}"));
        // Some services write `com.amazon.coral#Code:http://…`.
        let code = code
            .rsplit('#')
            .next()
            .and_then(|code| code.split(':').next())
            .unwrap_or_default()
            .to_owned();
        let message =
            from_xml("Message").or_else(|| from_json(["message", "Message"])).unwrap_or_default();
        Failure::Refused { status, code, message }
    }

    /// The error code, if AWS refused the call.
    pub fn code(&self) -> Option<&str> {
        match self {
            Failure::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Whether AWS refused the call because the credentials have expired.
    pub fn is_expired(&self) -> bool {
        self.is_in(&EXPIRED)
    }

    /// Whether AWS refused the call because it does not know the credentials.
    pub fn is_unknown_caller(&self) -> bool {
        self.is_in(&UNKNOWN)
    }

    /// Whether AWS refused the call because a permission is missing.
    pub fn is_forbidden(&self) -> bool {
        self.is_in(&FORBIDDEN)
    }

    /// Whether the same call may succeed later.
    pub(crate) fn is_temporary(&self, action: Action) -> bool {
        match self {
            // A new snapshot becomes visible in one part of AWS after another.
            Failure::Refused { code, .. } if code == "ResourceNotFoundException" => {
                action == Action::PutSnapshotBlock
            }
            Failure::Refused { status, .. } => {
                *status >= 500 || *status == 429 || self.is_in(&THROTTLED)
            }
            Failure::Unreachable(_) => true,
            _ => false,
        }
    }

    fn is_in(&self, codes: &[&str]) -> bool {
        self.code().is_some_and(|code| codes.contains(&code))
    }
}

impl Error {
    /// The error code, if AWS refused the call.
    pub fn code(&self) -> Option<&str> {
        self.failure.code()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            Failure::NoCredentials(_) => f.write_str("there are no credentials for AWS"),
            Failure::ReadOnly => write!(f, "a dry run does not call {}", self.action.permission()),
            Failure::Stopped => f.write_str("stopped"),
            _ => write!(f, "{} failed in {}", self.action.permission(), self.region),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.failure {
            Failure::ReadOnly | Failure::Stopped => None,
            failure => Some(failure),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused { code, message, .. } if message.is_empty() => f.write_str(code),
            Failure::Refused { code, message, .. } => write!(f, "{code}: {message}"),
            Failure::Unreachable(reason) | Failure::Invalid(reason) => f.write_str(reason),
            Failure::NoCredentials(reason) => f.write_str(reason.as_deref().unwrap_or_default()),
            Failure::ReadOnly => f.write_str("the call changes something"),
            Failure::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_errors_of_all_three_services_are_parsed() {
        let xml = "<Response><Errors><Error><Code>UnauthorizedOperation</Code>\
                   <Message>You may not</Message></Error></Errors></Response>";
        let refused = |header, body: &str| Failure::refused(400, header, body.as_bytes().to_vec());
        let of = |code: &str, message: &str| Failure::Refused {
            status: 400,
            code: code.into(),
            message: message.into(),
        };
        assert_eq!(refused(None, xml), of("UnauthorizedOperation", "You may not"));
        let kms = r#"{"__type":"com.amazonaws.kms#NotFoundException","message":"no such key"}"#;
        assert_eq!(refused(None, kms), of("NotFoundException", "no such key"));
        let ebs = refused(
            Some("ValidationException:http://internal/"),
            r#"{"Message":"bad block","Reason":"INVALID_BLOCK"}"#,
        );
        assert_eq!(ebs, of("ValidationException", "bad block"));
        assert_eq!(refused(None, "<html>"), of("HTTP 400", ""));
    }
}
