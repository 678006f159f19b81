//! A kubeconfig (`k8s.io/client-go/tools/clientcmd/api/v1`), as far as a node reads it: where the
//! API server of its current context is, and the credentials for it.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use osbuild_failure::{Explain, Outcome};
use osbuild_folder::small_file::{first_line, read};
use serde::Deserialize;

/// The most bytes of all texts in a file, with those that aliases stand for. A file has no more.
const MAX_SCALARS: usize = 1 << 20;

/// The cluster and the user of a kubeconfig's current context.
pub struct Kubeconfig {
    /// Relative paths in it are relative to this folder.
    folder: PathBuf,
    cluster: Cluster,
    user: User,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Document {
    #[serde(default)]
    current_context: String,
    #[serde(default)]
    contexts: Vec<NamedContext>,
    #[serde(default)]
    clusters: Vec<NamedCluster>,
    #[serde(default)]
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: Context,
}

#[derive(Deserialize)]
struct Context {
    #[serde(default)]
    cluster: String,
    #[serde(default)]
    user: String,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: Option<String>,
    tls_server_name: Option<String>,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<String>,
    token: Option<String>,
    #[serde(rename = "tokenFile")]
    token_file: Option<String>,
}

impl Kubeconfig {
    /// Reads the file. None if it is not there.
    ///
    /// # Errors
    /// It is not a regular file, or not a kubeconfig.
    pub fn read(file: &Path) -> Outcome<Option<Self>> {
        let Some(text) = read(file)? else { return Ok(None) };
        let folder = file.parent().unwrap_or(Path::new("/"));
        let parsed = Self::parse(&text, folder);
        parsed.explain(format_args!("read {}", file.display())).map(Some)
    }

    /// Reads the text of a file in this folder.
    ///
    /// # Errors
    /// It is not a kubeconfig.
    pub fn parse(text: &str, folder: &Path) -> Outcome<Self> {
        // An alias of two bytes can stand for megabytes.
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_total_scalar_bytes: MAX_SCALARS,
                max_recorded_anchor_bytes: MAX_SCALARS,
            },
        };
        let document: Document = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| first_line(&error.to_string()))?;
        let current = document.current_context;
        let context = document.contexts.into_iter().find(|one| one.name == current);
        let (cluster, user) = match context {
            Some(NamedContext { context, .. }) => (
                document.clusters.into_iter().find(|one| one.name == context.cluster),
                document.users.into_iter().find(|one| one.name == context.user),
            ),
            None => (None, None),
        };
        Ok(Kubeconfig {
            folder: folder.to_owned(),
            cluster: cluster.map(|one| one.cluster).unwrap_or_default(),
            user: user.map(|one| one.user).unwrap_or_default(),
        })
    }

    /// The URL of the API server.
    pub fn server(&self) -> Option<&str> {
        self.cluster.server.as_deref()
    }

    /// The name that the API server's certificate must have, if it is not the URL's host.
    pub fn tls_server_name(&self) -> Option<&str> {
        self.cluster.tls_server_name.as_deref()
    }

    /// The certificates, in PEM, one of which has to have signed the API server's.
    pub fn certificate_authority(&self) -> Outcome<Option<String>> {
        let Cluster { certificate_authority_data, certificate_authority, .. } = &self.cluster;
        self.data_or_file(certificate_authority_data, certificate_authority)
            .explain("read its certificate authority")
    }

    /// The client certificate in PEM.
    pub fn client_certificate(&self) -> Outcome<Option<String>> {
        self.data_or_file(&self.user.client_certificate_data, &self.user.client_certificate)
            .explain("read its client certificate")
    }

    /// The private key of the client certificate in PEM.
    pub fn client_key(&self) -> Outcome<Option<String>> {
        self.data_or_file(&self.user.client_key_data, &self.user.client_key)
            .explain("read its client key")
    }

    /// The bearer token. Like Kubernetes' own clients, a file counts before the text.
    pub fn token(&self) -> Outcome<Option<String>> {
        let from_file = match &self.user.token_file {
            Some(file) => read(&self.folder.join(file)).explain("read its token")?,
            None => None,
        };
        Ok(from_file.or_else(|| self.user.token.clone()).map(|token| token.trim().to_owned()))
    }

    /// Text in base64, or else that of a file.
    fn data_or_file(
        &self,
        data: &Option<String>,
        file: &Option<String>,
    ) -> Outcome<Option<String>> {
        match (data, file) {
            (Some(data), _) => {
                let bytes = STANDARD.decode(data.trim()).explain("decode it")?;
                String::from_utf8(bytes).explain("decode it").map(Some)
            }
            (None, Some(file)) => read(&self.folder.join(file)),
            (None, None) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn credentials_of_the_current_context_are_inline_or_in_files_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let text = "current-context: here\n\
            contexts:\n- {name: there, context: {cluster: b, user: b}}\n\
            - {name: here, context: {cluster: a, user: a}}\n\
            clusters:\n- name: b\n  cluster: {server: https://b}\n- name: a\n  cluster:\n    \
            server: https://a:6443\n    tls-server-name: kubernetes\n    \
            certificate-authority-data: Q0E=\n\
            users:\n- name: a\n  \
            user: {client-certificate: pair.pem, client-key: pair.pem, token: abc}\n";
        fs::write(&path, text).unwrap();
        fs::write(folder.path().join("pair.pem"), "PAIR").unwrap();
        let config = Kubeconfig::read(&path).unwrap().unwrap();
        let some = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(
            (config.server(), config.tls_server_name()),
            (Some("https://a:6443"), Some("kubernetes"))
        );
        assert_eq!(config.certificate_authority(), some("CA"));
        assert_eq!(
            (config.client_certificate(), config.client_key()),
            (some("PAIR"), some("PAIR"))
        );
        assert_eq!(config.token(), some("abc"));
    }

    #[test]
    fn a_token_in_a_file_counts_before_one_in_the_kubeconfig() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let user = "{token: old, tokenFile: token}";
        let text = format!(
            "current-context: c\ncontexts:\n- {{name: c, context: {{user: u}}}}\n\
             users:\n- {{name: u, user: {user}}}\n"
        );
        fs::write(&path, text).unwrap();
        fs::write(folder.path().join("token"), "new\n").unwrap();
        let config = Kubeconfig::read(&path).unwrap().unwrap();
        assert_eq!(config.token(), Ok(Some("new".to_owned())));
    }

    #[test]
    fn a_kubeconfig_without_a_current_context_has_no_credentials() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        assert!(Kubeconfig::read(&path).unwrap().is_none());
        fs::write(&path, "kind: Config\n").unwrap();
        let config = Kubeconfig::read(&path).unwrap().unwrap();
        assert_eq!((config.server(), config.token()), (None, Ok(None)));
    }
}
