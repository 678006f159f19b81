//! Credentials, from the usual chain: environment, files, web identity, container, instance.

use super::client::reason;
use super::{Failure, Retry};
use bytes::Bytes;
use reqsign_aws_v4::{
    AssumeRoleWithWebIdentityCredentialProvider, Credential, ECSCredentialProvider,
    EnvCredentialProvider, IMDSv2CredentialProvider, ProfileCredentialProvider,
};
use reqsign_core::{
    Context, Env, FileRead, HttpSend, OsEnv, ProvideCredentialDyn, SigningCredential, StaticEnv,
};
use reqwest::redirect::Policy;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// The timeout of connections to the metadata service of an instance or a container, which is on
/// the local link or absent.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(2);

/// The credentials of the first source in the chain that is configured. If it fails, no later one
/// takes its place, as that may be an identity in another account. The type has no `Debug`, and
/// nothing writes its contents.
pub struct Credentials {
    sources: Vec<Source>,
    context: Context,
    current: Mutex<Option<Arc<Credential>>>,
}

/// A source in the chain.
struct Source {
    name: &'static str,
    /// Variables that configure this source. If one is set and the source has no credentials, it
    /// has failed: a section may be missing, or half a key.
    variables: &'static [&'static str],
    provider: Box<dyn ProvideCredentialDyn<Credential = Credential>>,
}

impl Credentials {
    /// The chain as this process's environment describes it. Nothing is read yet.
    pub(crate) fn from_environment(retry: &Retry) -> io::Result<Self> {
        Credentials::new(retry, Variables(OsEnv))
    }

    /// The chain as these variables describe it; the process's environment does not count.
    ///
    /// # Errors
    /// This machine has no certificates of TLS authorities.
    pub fn from_variables(retry: &Retry, variables: HashMap<String, String>) -> io::Result<Self> {
        Credentials::new(retry, Variables(StaticEnv { home_dir: None, envs: variables }))
    }

    fn new(retry: &Retry, environment: impl Env) -> io::Result<Self> {
        let http = Http::new(retry, &environment)?;
        Ok(Credentials {
            sources: sources(),
            context: Context::new()
                .with_file_read(Files)
                .with_http_send(http)
                .with_env(environment),
            current: Mutex::new(None),
        })
    }

    /// The current credentials; new ones if the current ones expire soon.
    pub(crate) async fn get(&self) -> Result<Arc<Credential>, Failure> {
        let mut current = self.current.lock().await;
        if let Some(credential) = current.as_ref().filter(|credential| credential.is_valid()) {
            return Ok(Arc::clone(credential));
        }
        let found = Arc::new(self.find().await?);
        *current = Some(Arc::clone(&found));
        Ok(found)
    }

    /// Replaces credentials that AWS refused, unless another thread has done so already. Returns
    /// whether there are other ones now.
    pub(crate) async fn replace(&self, refused: &Credential) -> bool {
        let is_refused = |credential: &Credential| {
            credential.access_key_id == refused.access_key_id
                && credential.session_token == refused.session_token
        };
        let mut current = self.current.lock().await;
        if current.as_deref().is_some_and(is_refused) {
            *current = self.find().await.ok().filter(|found| !is_refused(found)).map(Arc::new);
        }
        current.is_some()
    }

    fn is_set(&self, variable: &str) -> bool {
        self.context.env_var(variable).is_some()
    }

    async fn find(&self) -> Result<Credential, Failure> {
        for Source { name, variables, provider } in &self.sources {
            let reason = match provider.provide_credential_dyn(&self.context).await {
                Ok(Some(found)) if !found.access_key_id.is_empty() => return Ok(found),
                Ok(_) => match variables.iter().find(|name| self.is_set(name)) {
                    Some(variable) => format!("{variable} is set, but gives no credentials"),
                    // Nothing configures this source.
                    None => continue,
                },
                // Its text may quote a response, which may hold a token: only its kind is shown.
                Err(error) => format!("{:?}", error.kind()),
            };
            return Err(Failure::NoCredentials(Some(format!("{name}: {reason}"))));
        }
        Err(Failure::NoCredentials(None))
    }
}

/// The chain.
fn sources() -> Vec<Source> {
    vec![
        Source {
            name: "the environment (AWS_ACCESS_KEY_ID)",
            variables: &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
            provider: Box::new(EnvCredentialProvider::new()),
        },
        Source {
            name: "the files in ~/.aws",
            // `AWS_CONFIG_FILE` does not count: such a file often has a region alone.
            variables: &["AWS_PROFILE", "AWS_SHARED_CREDENTIALS_FILE"],
            provider: Box::new(ProfileCredentialProvider::default()),
        },
        Source {
            name: "a web identity (AWS_WEB_IDENTITY_TOKEN_FILE)",
            variables: &["AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"],
            provider: Box::new(AssumeRoleWithWebIdentityCredentialProvider::default()),
        },
        Source {
            name: "the container (AWS_CONTAINER_CREDENTIALS_FULL_URI)",
            variables: &[],
            provider: Box::new(ECSCredentialProvider::default()),
        },
        Source {
            name: "the instance",
            variables: &[],
            provider: Box::new(IMDSv2CredentialProvider::default()),
        },
    ]
}

/// An environment in which an empty variable counts as unset.
#[derive(Debug)]
struct Variables<E>(E);

impl<E: Env> Env for Variables<E> {
    fn var(&self, key: &str) -> Option<String> {
        self.0.var(key).filter(|value| !value.is_empty())
    }

    fn vars(&self) -> HashMap<String, String> {
        self.0.vars().into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        self.0.home_dir()
    }
}

/// Reads the files in the chain.
#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        std::fs::read(path).map_err(|error| {
            reqsign_core::Error::unexpected("cannot read the file").with_source(error)
        })
    }
}

/// HTTP to the services that issue credentials. Its `Debug` hides everything, as requests are
/// secret.
struct Http {
    remote: reqwest::Client,
    local: reqwest::Client,
    /// The address that overrides that of STS: `AWS_ENDPOINT_URL_STS`, or `AWS_ENDPOINT_URL` for
    /// all services.
    sts: Option<String>,
}

impl Http {
    fn new(retry: &Retry, environment: &impl Env) -> io::Result<Self> {
        let mut named = ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"]
            .into_iter()
            .filter_map(|name| environment.var(name));
        let sts = named.find(|address| !address.is_empty());
        let builder = || reqwest::Client::builder().redirect(Policy::none());
        let remote = builder().connect_timeout(retry.connect_timeout).timeout(retry.idle_timeout);
        // The local link is never behind a proxy.
        let local = builder().no_proxy().connect_timeout(LOCAL_TIMEOUT).timeout(LOCAL_TIMEOUT * 5);
        let build = |builder: reqwest::ClientBuilder| {
            builder.build().map_err(|error| io::Error::other(reason(&error)))
        };
        Ok(Http { remote: build(remote)?, local: build(local)?, sts })
    }

    /// The address to use instead of `uri`, if that is one of STS and an override is set.
    fn redirected(&self, uri: &http::Uri) -> Option<http::Uri> {
        let is_sts =
            uri.host().is_some_and(|host| host.starts_with("sts.") && host.contains(".amazonaws."));
        let address = self.sts.as_ref().filter(|_| is_sts)?.trim_end_matches('/');
        format!("{address}{}", uri.path_and_query().map_or("/", |path| path.as_str())).parse().ok()
    }
}

impl HttpSend for Http {
    async fn http_send(
        &self,
        mut request: http::Request<Bytes>,
    ) -> reqsign_core::Result<http::Response<Bytes>> {
        let client =
            if request.uri().scheme_str() == Some("http") { &self.local } else { &self.remote };
        if let Some(uri) = self.redirected(request.uri()) {
            *request.uri_mut() = uri;
        }
        // The error's text would quote the address, which may hold a container's token.
        let failed = |_| reqsign_core::Error::unexpected("no response");
        let mut response =
            client.execute(request.try_into().map_err(failed)?).await.map_err(failed)?;
        let mut head = http::Response::builder().status(response.status());
        if let Some(headers) = head.headers_mut() {
            *headers = std::mem::take(response.headers_mut());
        }
        let body = response.bytes().await.map_err(failed)?;
        head.body(body).map_err(|_| reqsign_core::Error::unexpected("no response"))
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Http")
    }
}
