//! A client of the cluster's API server: with a node's own certificate, or as a pod of the cluster.

use std::env;
use std::path::Path;
use std::time::Duration;

use osbuild_failure::{Explain, Failure, Outcome};
use osbuild_folder::small_file;
use osbuild_kubeconfig::Kubeconfig;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Certificate, Client, Identity, Method};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How long one response may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The folder of the service account, which the kubelet mounts into a pod.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The content types of objects: JSON, and a patch that replaces single fields (RFC 7396).
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// The client.
pub struct Api {
    client: Client,
    server: String,
    token: Option<String>,
}

impl Api {
    /// With the credentials of the node's kubelet. None if the node is in no cluster: it has no
    /// kubeconfig.
    ///
    /// # Errors
    /// The kubeconfig cannot be used, or the kubelet has no certificate yet.
    pub fn of_node(kubeconfig: &Path) -> Outcome<Option<Api>> {
        let Some(config) = Kubeconfig::read(kubeconfig)? else { return Ok(None) };
        let authority = config.certificate_authority()?.unwrap_or_default();
        let mut client = client(&authority)?;
        let (certificate, key) = (config.client_certificate()?, config.client_key()?);
        let token = config.token()?;
        match (certificate, key) {
            (Some(certificate), Some(key)) => {
                let identity = Identity::from_pem(format!("{certificate}\n{key}").as_bytes());
                client = client.identity(identity.explain("read the node's certificate")?);
            }
            _ if token.is_some() => {}
            _ => return Err(Failure::new("the kubelet has no certificate yet")),
        }
        let server = config.server().unwrap_or_default().trim_end_matches('/').to_owned();
        Ok(Some(Api { client: client.build().explain("prepare TLS")?, server, token }))
    }

    /// With the service account of this pod. The kubelet renews the token's file.
    ///
    /// # Errors
    /// This is no pod with a service account.
    pub fn of_pod() -> Outcome<Api> {
        let read = |name: &str| {
            let file = Path::new(ACCOUNT).join(name);
            let missing = || Failure::new(format!("{} does not exist", file.display()));
            small_file::read(&file)?.ok_or_else(missing)
        };
        let variable = |name: &str| env::var(name).explain(name.to_owned());
        let host = variable("KUBERNETES_SERVICE_HOST")?;
        let port = variable("KUBERNETES_SERVICE_PORT")?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        Ok(Api {
            client: client(&read("ca.crt")?)?.build().explain("prepare TLS")?,
            server: format!("https://{host}:{port}"),
            token: Some(read("token")?.trim().to_owned()),
        })
    }

    /// The object at `path`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Outcome<T> {
        accepted(self.send(Method::GET, path, None).await?, path)
    }

    /// Changes single fields of the object at `path`, and returns it.
    pub async fn patch<T: DeserializeOwned>(&self, path: &str, fields: &Value) -> Outcome<T> {
        accepted(self.send(Method::PATCH, path, Some((MERGE, fields))).await?, path)
    }

    /// Makes an object in the collection at `path`, and returns it.
    pub async fn create<T: DeserializeOwned>(&self, path: &str, object: &Value) -> Outcome<T> {
        accepted(self.send(Method::POST, path, Some((JSON, object))).await?, path)
    }

    /// Status and body of a response.
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Outcome<(u16, Vec<u8>)> {
        let mut request =
            self.client.request(method, format!("{}{path}", self.server)).header(ACCEPT, JSON);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some((kind, body)) = body {
            request = request.header(CONTENT_TYPE, kind).body(body.to_string());
        }
        let response = request.send().await.explain("ask the API server")?;
        let status = response.status().as_u16();
        let body = response.bytes().await.explain("read the API server's response")?;
        Ok((status, body.to_vec()))
    }
}

fn client(authority: &str) -> Outcome<reqwest::ClientBuilder> {
    let roots = Certificate::from_pem_bundle(authority.as_bytes()).explain("read the CA")?;
    // A proxy is for updates, not for the cluster.
    Ok(Client::builder().tls_certs_only(roots).no_proxy().timeout(TIMEOUT))
}

/// The object of a response.
///
/// # Errors
/// The API server refused the request; its `Status` has the reason.
fn accepted<T: DeserializeOwned>((status, body): (u16, Vec<u8>), path: &str) -> Outcome<T> {
    if (200..300).contains(&status) {
        return serde_json::from_slice(&body).explain(format_args!("read {path}"));
    }
    let object: Value = serde_json::from_slice(&body).unwrap_or_default();
    let why = object["message"].as_str().unwrap_or_default();
    Err(Failure::new(format!("the API server answers {status} for {path}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_reason_of_the_api_server() {
        let body = br#"{"kind": "Status", "message": "nodes \"a\" is forbidden"}"#.to_vec();
        let failure = accepted::<Value>((403, body), "/api/v1/nodes/a").unwrap_err().to_string();
        assert!(failure.contains("403") && failure.contains("is forbidden"), "{failure}");
        assert!(accepted::<Value>((200, b"{}".to_vec()), "/").is_ok());
        assert!(accepted::<Value>((200, b"<html>".to_vec()), "/").is_err());
    }

    #[test]
    fn a_node_without_a_kubeconfig_is_in_no_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubelet.conf");
        assert!(Api::of_node(&kubeconfig).unwrap().is_none());
        std::fs::write(&kubeconfig, "clusters: []\n").unwrap();
        assert!(Api::of_node(&kubeconfig).is_err());
    }
}
