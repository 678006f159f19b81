//! Why a call gave no answer that helps.

use super::{Action, Answer, Element, Region};
use crate::error::Error;
use serde_json::Value;

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// AWS refused it.
    Refused {
        /// The status of HTTP.
        status: u16,
        /// AWS's word for why: `UnauthorizedOperation`.
        code: String,
        /// The same as a sentence.
        message: String,
    },
    /// Nobody answered, or not to the end.
    Unreachable(String),
    /// The answer is not what AWS's documentation says.
    Unclear(String),
    /// It was never sent: nobody to make it, or the user wants to stop.
    Unsent(Error),
}

/// Codes of calls that came too fast, which are good if they come again later.
const TOO_FAST: [&str; 8] = [
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "TooManyRequestsException",
    "SlowDown",
];

/// Codes of calls by somebody whose time is over.
const EXPIRED: [&str; 4] =
    ["ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"];

/// Codes of calls by somebody whom AWS does not know.
const UNKNOWN: [&str; 5] = [
    "AuthFailure",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "SignatureDoesNotMatch",
    "InvalidSignatureException",
];

/// Codes of calls that need a permission.
const FORBIDDEN: [&str; 4] =
    ["UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "OperationNotPermitted"];

impl Failure {
    /// What AWS says in the body of a refusal: XML from EC2, JSON from the others, and from EBS its
    /// code in a header.
    pub(super) fn refused(status: u16, header: Option<&str>, body: Vec<u8>) -> Self {
        let xml = Element::parse(&body);
        let json = Answer { body: body.clone() }.json().unwrap_or_default();
        let from_xml =
            |name: &str| xml.as_ref()?.find(name).map(|found| found.text.trim().to_owned());
        let from_json = |names: [&str; 2]| {
            names.iter().find_map(|name| json.get(name).and_then(Value::as_str).map(str::to_owned))
        };
        let code = from_xml("Code")
            .or_else(|| from_json(["__type", "code"]))
            .or_else(|| header.map(str::to_owned));
        let code = code.unwrap_or_else(|| format!("HTTP {status}"));
        // `com.amazon.coral#Code:http://…` is how some services write it.
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

    /// AWS's word for why, if AWS refused it.
    pub fn code(&self) -> Option<&str> {
        match self {
            Failure::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Whether the same call may succeed later.
    pub(super) fn may_pass(&self, action: Action) -> bool {
        match self {
            // A snapshot that was just begun is not known everywhere at once.
            Failure::Refused { code, .. } if code == "ResourceNotFoundException" => {
                action == Action::PutSnapshotBlock
            }
            Failure::Refused { status, code, .. } => {
                *status >= 500 || *status == 429 || TOO_FAST.contains(&code.as_str())
            }
            Failure::Unreachable(_) => true,
            Failure::Unclear(_) | Failure::Unsent(_) => false,
        }
    }

    /// Whether who calls has run out of time.
    pub(super) fn is_expired(&self) -> bool {
        self.code().is_some_and(|code| EXPIRED.contains(&code))
    }

    /// The error for people. No part of it is a credential: AWS quotes none, and neither do we.
    pub fn error(self, action: Action, region: &Region) -> Error {
        let line = format!("{} failed in {region}", action.permission());
        let (code, message) = match self {
            Failure::Refused { code, message, .. } => (code, message),
            Failure::Unreachable(why) => {
                return Error::build(line)
                    .cause(why)
                    .hint("run the same command again: it goes on where it was");
            }
            Failure::Unclear(why) => return Error::build(line).cause(why),
            Failure::Unsent(error) => return error,
        };
        let error = Error::build(line).cause(if message.is_empty() {
            code.clone()
        } else {
            format!("{code}: {message}")
        });
        let is_in = |codes: &[&str]| codes.contains(&code.as_str());
        match () {
            () if is_in(&EXPIRED) => error.hint(
                "get new credentials, then run the same command again: it goes on where it was",
            ),
            () if is_in(&UNKNOWN) => error.hint(
                "aws sts get-caller-identity, with the same environment, says who you are to AWS",
            ),
            () if is_in(&FORBIDDEN) => error.hint(format!(
                "allow `{}`: builder/docs/publish-aws.md has the whole policy",
                action.permission()
            )),
            () => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_has_its_own_manner_to_refuse() {
        let xml = "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You may not</Message></Error></Errors></Response>";
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

    #[test]
    fn what_is_forbidden_names_the_permission() {
        let region = "eu-central-1".parse().unwrap();
        let refused = Failure::Refused {
            status: 403,
            code: "UnauthorizedOperation".into(),
            message: String::new(),
        };
        let error = refused.error(Action::RegisterImage, &region).to_string();
        assert!(error.starts_with("error: ec2:RegisterImage failed in eu-central-1\n"), "{error}");
        assert!(error.contains("hint: allow `ec2:RegisterImage`"), "{error}");
    }
}
