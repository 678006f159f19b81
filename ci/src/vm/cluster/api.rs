//! A client of the cluster's API with an administrator's certificate.

use super::certificates::Authority;
use osbuild::error::{Context, Error, Result};
use serde_json::Value;
use std::time::Duration;
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

/// How long one response may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A client of the API server.
pub struct Api {
    agent: Agent,
    server: String,
}

impl Api {
    /// A client of the API server at this URL, with the certificate `name` of the cluster's CA.
    pub fn new(authority: &Authority, name: &str, server: &str) -> Result<Self> {
        let cannot = || "cannot use a certificate of the lab".to_owned();
        let certificate =
            |file: &str| Certificate::from_pem(authority.read(file)?.as_bytes()).or_build(cannot);
        let key = PrivateKey::from_pem(authority.read(&format!("{name}.key"))?.as_bytes())
            .or_build(cannot)?;
        let client = ClientCert::new_with_certs(&[certificate(&format!("{name}.crt"))?], key);
        let roots = RootCerts::new_with_certs(&[certificate("ca.crt")?]);
        let tls = TlsConfig::builder().client_cert(Some(client)).root_certs(roots).build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .build();
        Ok(Api { agent: config.into(), server: server.to_owned() })
    }

    /// Whether the API server is ready.
    pub fn is_ready(&self) -> bool {
        self.agent
            .get(format!("{}/readyz", self.server))
            .call()
            .is_ok_and(|answer| answer.status() == 200)
    }

    /// The items of the list at `path`.
    pub fn list(&self, path: &str) -> Result<Vec<Value>> {
        let list = checked("GET", path, self.request("GET", path, None)?)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Makes an object in the collection at `path`.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        checked("POST", path, self.request("POST", path, Some(object))?)
    }

    /// Status and body of an answer.
    fn request(&self, method: &str, path: &str, object: Option<&Value>) -> Result<(u16, String)> {
        let cannot = || format!("cannot ask the API server: {method} {path}");
        let request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.server));
        let request =
            request.header("Content-Type", "application/json").header("Accept", "application/json");
        let answer = match object {
            Some(object) => self.agent.run(request.body(object.to_string()).or_build(cannot)?),
            None => self.agent.run(request.body(()).or_build(cannot)?),
        };
        let mut answer = answer.or_build(cannot)?;
        Ok((answer.status().as_u16(), answer.body_mut().read_to_string().or_build(cannot)?))
    }
}

/// The object of an answer.
///
/// # Errors
/// The API server refused the request; its `Status` has the reason.
fn checked(method: &str, path: &str, (status, body): (u16, String)) -> Result<Value> {
    let object: Value = serde_json::from_str(&body).unwrap_or(Value::Null);
    match status {
        200..=299 => Ok(object),
        _ => {
            let error = Error::build(format!("the API server answers {status}: {method} {path}"));
            Err(error.cause(object["message"].as_str().unwrap_or(&body)))
        }
    }
}

/// The condition of an object by its type: its status and its message.
pub fn condition<'o>(object: &'o Value, kind: &str) -> Option<(&'o str, &'o str)> {
    let conditions = object["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == kind)?;
    Some((found["status"].as_str()?, found["message"].as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_condition_is_found_by_its_type() {
        let node = json!({ "status": { "conditions": [
            { "type": "DiskPressure", "status": "False" },
            { "type": "Ready", "status": "False", "message": "no CNI" },
        ] } });
        assert_eq!(condition(&node, "Ready"), Some(("False", "no CNI")));
        assert_eq!(condition(&node, "MemoryPressure"), None);
        assert_eq!(condition(&json!({}), "Ready"), None);
    }

    #[test]
    fn a_refusal_quotes_the_reason_of_the_server() {
        let status = json!({ "kind": "Status", "message": "nodes \"a\" is forbidden" }).to_string();
        let error = checked("GET", "/api/v1/nodes/a", (403, status)).unwrap_err().to_string();
        assert!(error.contains("403") && error.contains("nodes \"a\" is forbidden"), "{error}");
    }
}
