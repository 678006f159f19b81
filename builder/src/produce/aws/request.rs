//! What is asked of AWS, in the three manners in which its services want to be asked.

use super::{Action, Service};
use crate::error::Result;
use serde_json::{Value, json};

/// The version of EC2's interface in which its calls are written here.
const EC2_VERSION: &str = "2016-11-15";

/// The name of KMS in its calls.
const KMS_TARGET: &str = "TrentService";

/// What HTTP does with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `POST`
    Post,
    /// `PUT`
    Put,
}

/// Bytes of which all is known before they are read, so that they can be signed unread.
pub trait Source {
    /// How many there are.
    fn length(&self) -> u64;

    /// Their SHA-256.
    fn sha256(&self) -> [u8; 32];

    /// Reads what fits into `buffer` of those from `start` on, and says how much it was: nothing at
    /// their end only.
    fn read(&self, start: u64, buffer: &mut [u8]) -> Result<usize>;
}

/// What is sent with a call.
pub enum Body<'a> {
    /// Bytes at hand.
    Bytes(Vec<u8>),
    /// Bytes that are read on their way, anew whenever the call is tried.
    Source(&'a dyn Source),
}

/// One call with all that it says.
pub struct Request<'a> {
    /// The call.
    pub action: Action,
    /// What HTTP does.
    pub method: Method,
    /// With which path.
    pub path: String,
    /// Headers besides those that every call has.
    pub headers: Vec<(&'static str, String)>,
    /// What is sent.
    pub body: Body<'a>,
    /// What the call says, for people.
    pub shown: Vec<(String, String)>,
}

impl<'a> Request<'a> {
    /// A call of EC2: names and values.
    pub fn query(action: Action, parameters: Vec<(String, String)>) -> Self {
        let own = [("Action", action.name()), ("Version", EC2_VERSION.to_owned())];
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(own.iter().map(|(name, value)| (*name, value.as_str())));
        form.extend_pairs(&parameters);
        Request {
            headers: vec![(
                "content-type",
                "application/x-www-form-urlencoded; charset=utf-8".to_owned(),
            )],
            body: Body::Bytes(form.finish().into_bytes()),
            shown: parameters,
            ..Request::new(action, Method::Post, "/".to_owned())
        }
    }

    /// A call of KMS or of EBS that says it in JSON.
    pub fn json(action: Action, path: &str, content: &Value) -> Self {
        let headers = match action.service() {
            Service::Kms => vec![
                ("content-type", "application/x-amz-json-1.1".to_owned()),
                ("x-amz-target", format!("{KMS_TARGET}.{}", action.name())),
            ],
            _ => vec![("content-type", "application/json".to_owned())],
        };
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let members = content.as_object().into_iter().flatten();
        Request {
            headers,
            body: Body::Bytes(content.to_string().into_bytes()),
            shown: members.map(|(name, value)| (name.clone(), plain(value))).collect(),
            ..Request::new(action, Method::Post, path.to_owned())
        }
    }

    /// A call of EBS that says it in headers.
    pub fn with_headers(
        action: Action,
        method: Method,
        path: String,
        headers: Vec<(&'static str, String)>,
    ) -> Self {
        let named = |name: &str| name.trim_start_matches("x-amz-").to_owned();
        let shown = [("path".to_owned(), path.clone())].into_iter();
        Request {
            shown: shown
                .chain(headers.iter().map(|(name, value)| (named(name), value.clone())))
                .collect(),
            headers,
            ..Request::new(action, method, path)
        }
    }

    /// The same with bytes to send.
    pub fn sending(self, source: &'a dyn Source) -> Self {
        Request { body: Body::Source(source), ..self }
    }

    /// What it says, for `--dry-run`.
    pub fn to_json(&self, region: &str) -> Value {
        let parameters: serde_json::Map<_, _> = self
            .shown
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect();
        json!({ "call": self.action.permission(), "region": region, "parameters": parameters })
    }

    fn new(action: Action, method: Method, path: String) -> Self {
        Request {
            action,
            method,
            path,
            headers: Vec::new(),
            body: Body::Bytes(Vec::new()),
            shown: Vec::new(),
        }
    }
}
