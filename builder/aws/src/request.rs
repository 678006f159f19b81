//! Requests, in the three formats of the services.

use super::{Action, Service};
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The name of KMS in its calls.
const KMS_TARGET: &str = "TrentService";

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `POST`
    Post,
    /// `PUT`
    Put,
}

/// One call with its parameters.
pub struct Request {
    /// The call.
    pub action: Action,
    /// The HTTP method.
    pub method: Method,
    /// The path.
    pub path: String,
    /// The headers that are specific to the call.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
    /// The SHA-256 of the body.
    pub sha256: [u8; 32],
    /// The parameters for `--dry-run`.
    pub shown: Vec<(String, String)>,
}

impl Request {
    /// A call to EC2: a form of names and values.
    pub(crate) fn query(action: Action, version: &str, parameters: Vec<(String, String)>) -> Self {
        let own = [("Action", action.name()), ("Version", version.to_owned())];
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(own.iter().map(|(name, value)| (*name, value.as_str())));
        form.extend_pairs(&parameters);
        let form_type = "application/x-www-form-urlencoded; charset=utf-8".to_owned();
        Request {
            headers: vec![("content-type", form_type)],
            shown: parameters,
            ..Request::new(action, Method::Post, "/".to_owned(), form.finish().into())
        }
    }

    /// A call to KMS or EBS with a JSON object as its body.
    pub(crate) fn json(action: Action, path: &str, content: &Value) -> Self {
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
            shown: members.map(|(name, value)| (name.clone(), plain(value))).collect(),
            ..Request::new(action, Method::Post, path.to_owned(), content.to_string().into())
        }
    }

    /// A call to EBS with its parameters in headers.
    pub(crate) fn with_headers(
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
            ..Request::new(action, method, path, Bytes::new())
        }
    }

    /// Sets the body and its SHA-256.
    pub(crate) fn sending(self, body: Bytes, sha256: [u8; 32]) -> Self {
        Request { body, sha256, ..self }
    }

    /// The call as a line for `--dry-run`.
    pub fn to_json(&self, region: &str) -> Value {
        let parameters: serde_json::Map<_, _> = self
            .shown
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(value.as_str())))
            .collect();
        json!({ "call": self.action.permission(), "region": region, "parameters": parameters })
    }

    fn new(action: Action, method: Method, path: String, body: Bytes) -> Self {
        let sha256 = Sha256::digest(&body).into();
        Request { action, method, path, headers: Vec::new(), body, sha256, shown: Vec::new() }
    }
}
