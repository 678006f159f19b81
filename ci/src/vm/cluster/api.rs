//! A client of the cluster's API with an administrator's certificate.

use super::certificates::Authority;
use osbuild::error::{Context, Error, Result};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Certificate, Client, Identity, Method};
use serde_json::Value;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// How long one response may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A client of the API server.
pub struct Api {
    runtime: Runtime,
    client: Client,
    server: String,
}

impl Api {
    /// A client of the API server at this URL, with the certificate `name` of the cluster's CA.
    pub fn new(authority: &Authority, name: &str, server: &str) -> Result<Self> {
        let cannot = || "cannot use a certificate of the lab".to_owned();
        let [certificate, key] =
            [format!("{name}.crt"), format!("{name}.key")].map(|file| authority.read(&file));
        let identity = Identity::from_pem((certificate? + &key?).as_bytes()).or_build(cannot)?;
        let root = Certificate::from_pem(authority.read("ca.crt")?.as_bytes()).or_build(cannot)?;
        let client = Client::builder().identity(identity).tls_certs_only([root]).timeout(TIMEOUT);
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Api {
            runtime: runtime.or_build(|| "cannot start the client's runtime".to_owned())?,
            client: client.build().or_build(cannot)?,
            server: server.to_owned(),
        })
    }

    /// Whether the API server is ready.
    pub fn is_ready(&self) -> bool {
        self.request(Method::GET, "/readyz", None).is_ok_and(|(status, _)| status == 200)
    }

    /// The items of the list at `path`.
    pub fn list(&self, path: &str) -> Result<Vec<Value>> {
        let list = checked("GET", path, self.request(Method::GET, path, None)?)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Makes an object in the collection at `path`.
    pub fn create(&self, path: &str, object: &Value) -> Result<Value> {
        checked("POST", path, self.request(Method::POST, path, Some(object))?)
    }

    /// Replaces the object at `path`.
    pub fn replace(&self, path: &str, object: &Value) -> Result<()> {
        checked("PUT", path, self.request(Method::PUT, path, Some(object))?).map(drop)
    }

    /// Deletes the object at `path`.
    pub fn delete(&self, path: &str) -> Result<()> {
        checked("DELETE", path, self.request(Method::DELETE, path, None)?).map(drop)
    }

    /// Status and body of a response.
    fn request(&self, method: Method, path: &str, object: Option<&Value>) -> Result<(u16, String)> {
        let cannot = || format!("cannot ask the API server: {method} {path}");
        let mut request = self
            .client
            .request(method.clone(), format!("{}{path}", self.server))
            .header(ACCEPT, "application/json");
        if let Some(object) = object {
            request = request.header(CONTENT_TYPE, "application/json").body(object.to_string());
        }
        let exchange = async {
            let response = request.send().await?;
            Ok::<_, reqwest::Error>((response.status().as_u16(), response.text().await?))
        };
        self.runtime.block_on(exchange).or_build(cannot)
    }
}

/// The object of a response.
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
    use super::super::wait::{Seen, wait};
    use super::*;
    use crate::vm::probe::free_port;
    use serde_json::json;
    use std::process::{Command, Stdio};

    #[test]
    fn server_and_client_accept_each_other_by_the_cas_certificates() {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new(folder.path()).unwrap();
        authority.server("server", &["127.0.0.1"]).unwrap();
        authority.client("administrator", "test", None).unwrap();
        std::fs::write(folder.path().join("readyz"), "ok").unwrap();
        let address = format!("127.0.0.1:{}", free_port().unwrap());
        let flags = "s_server -WWW -quiet -cert server.crt -key server.key -CAfile ca.crt \
                     -Verify 1 -verify_return_error -accept";
        let mut openssl = Command::new("openssl");
        openssl.args(flags.split_whitespace()).arg(&address).current_dir(folder.path());
        openssl.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = openssl.spawn().unwrap();
        let url = format!("https://{address}");
        let api = Api::new(&authority, "administrator", &url).unwrap();
        let accepted = wait(TIMEOUT, || {
            Ok(if api.is_ready() { Seen::Yes(()) } else { Seen::NotYet("no response".into()) })
        });
        Authority::new(folder.path()).unwrap();
        let other = Api::new(&authority, "administrator", &url).unwrap();
        let accepts_another_ca = other.is_ready();
        server.kill().and_then(|()| server.wait()).unwrap();
        assert_eq!((accepted.unwrap(), accepts_another_ca), (Ok(()), false));
    }

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
