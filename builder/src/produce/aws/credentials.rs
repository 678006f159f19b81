//! Who makes the calls: the usual chain of environment, files, web identity, container and
//! instance.

use super::patience::Patience;
use crate::error::{Error, Result};
use bytes::Bytes;
use reqsign_aws_v4::{
    AssumeRoleWithWebIdentityCredentialProvider, Credential, ECSCredentialProvider,
    EnvCredentialProvider, IMDSv2CredentialProvider, ProfileCredentialProvider,
};
use reqsign_core::{
    Context, Env, FileRead, HttpSend, OsEnv, ProvideCredentialDyn, SigningCredential, StaticEnv,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long to wait for an instance's or a container's own address, which is next door or nowhere.
const NEXT_DOOR: Duration = Duration::from_secs(2);

/// Who calls, by whatever the chain gives first. It has no `Debug`, and nothing writes what is in
/// it.
pub struct Credentials {
    sources: Vec<(&'static str, Box<dyn ProvideCredentialDyn<Credential = Credential>>)>,
    surroundings: Context,
    held: Mutex<Option<Arc<Credential>>>,
}

impl Credentials {
    /// Those that this process's environment leads to. Nothing is read yet.
    pub fn usual(patience: &Patience) -> Self {
        Credentials::found_by(patience, OsEnv)
    }

    /// Those that these variables lead to, whatever the process's environment says.
    pub fn of_variables(patience: &Patience, variables: HashMap<String, String>) -> Self {
        Credentials::found_by(patience, StaticEnv { home_dir: None, envs: variables })
    }

    fn found_by(patience: &Patience, environment: impl Env) -> Self {
        let http = Http::new(patience, &environment);
        Credentials {
            sources: vec![
                ("the environment (AWS_ACCESS_KEY_ID)", Box::new(EnvCredentialProvider::new())),
                ("the files in ~/.aws", Box::new(ProfileCredentialProvider::default())),
                (
                    "a web identity (AWS_WEB_IDENTITY_TOKEN_FILE)",
                    Box::new(AssumeRoleWithWebIdentityCredentialProvider::default()),
                ),
                (
                    "the container (AWS_CONTAINER_CREDENTIALS_FULL_URI)",
                    Box::new(ECSCredentialProvider::default()),
                ),
                ("the instance", Box::new(IMDSv2CredentialProvider::default())),
            ],
            surroundings: Context::new()
                .with_file_read(Files)
                .with_http_send(http)
                .with_env(environment),
            held: Mutex::new(None),
        }
    }

    /// The credentials, fresh ones if those that were held run out soon.
    pub(super) fn get(&self) -> Result<Arc<Credential>> {
        let mut held = self.held.lock().expect("nobody panics while credentials are read");
        if let Some(credential) = held.as_ref().filter(|credential| credential.is_valid()) {
            return Ok(Arc::clone(credential));
        }
        let found = Arc::new(self.find()?);
        *held = Some(Arc::clone(&found));
        Ok(found)
    }

    /// Forgets those that AWS takes no more, unless somebody has replaced them already. Says
    /// whether there are others now.
    pub(super) fn replace(&self, refused: &Credential) -> bool {
        let is_refused = |credential: &Credential| {
            credential.access_key_id == refused.access_key_id
                && credential.session_token == refused.session_token
        };
        let mut held = self.held.lock().expect("nobody panics while credentials are read");
        if held.as_deref().is_some_and(is_refused) {
            *held = self.find().ok().filter(|found| !is_refused(found)).map(Arc::new);
        }
        held.is_some()
    }

    fn find(&self) -> Result<Credential> {
        let mut none = Error::usage("there are no credentials for AWS");
        for (name, source) in &self.sources {
            match wait(source.provide_credential_dyn(&self.surroundings)) {
                Ok(Some(found)) if !found.access_key_id.is_empty() => return Ok(found),
                Ok(_) => {}
                // Its text may have what a service answered, and that may have a token: only the
                // kind of the error is told.
                Err(error) => none = none.cause(format!("{name}: {:?}", error.kind())),
            }
        }
        Err(none.hint("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or see builder/docs/publish-aws.md"))
    }
}

/// Runs what is asynchronous by its signature alone: nothing that it is given here ever waits
/// elsewhere.
pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime without a thread or a reactor always starts").block_on(future)
}

/// Files as they are.
#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        std::fs::read(path).map_err(|error| {
            reqsign_core::Error::unexpected("cannot read the file").with_source(error)
        })
    }
}

/// HTTP to whoever gives credentials. Its `Debug` says nothing, as what it carries is secret.
struct Http {
    far: ureq::Agent,
    next_door: ureq::Agent,
    /// Another address than AWS's own for who takes web identities: `AWS_ENDPOINT_URL_STS`, or
    /// `AWS_ENDPOINT_URL` for all.
    sts: Option<String>,
}

impl Http {
    fn new(patience: &Patience, environment: &impl Env) -> Self {
        let mut named = ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"]
            .into_iter()
            .filter_map(|name| environment.var(name));
        let sts = named.find(|address| !address.is_empty());
        let config = || ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
        let far = config()
            .timeout_connect(Some(patience.connect))
            .timeout_global(Some(patience.silence))
            .build();
        // What is next door is never behind a proxy.
        let near = config()
            .proxy(None)
            .timeout_connect(Some(NEXT_DOOR))
            .timeout_global(Some(NEXT_DOOR * 5))
            .build();
        Http { far: far.new_agent(), next_door: near.new_agent(), sts }
    }

    /// Where a request goes in truth.
    fn led(&self, uri: &http::Uri) -> Option<http::Uri> {
        let is_sts =
            uri.host().is_some_and(|host| host.starts_with("sts.") && host.contains(".amazonaws."));
        let address = self.sts.as_ref().filter(|_| is_sts)?.trim_end_matches('/');
        format!("{address}{}", uri.path_and_query().map_or("/", |path| path.as_str())).parse().ok()
    }
}

impl HttpSend for Http {
    async fn http_send(
        &self,
        request: http::Request<Bytes>,
    ) -> reqsign_core::Result<http::Response<Bytes>> {
        let agent =
            if request.uri().scheme_str() == Some("http") { &self.next_door } else { &self.far };
        let (mut parts, body) = request.into_parts();
        if let Some(led) = self.led(&parts.uri) {
            parts.uri = led;
        }
        // The error's text would quote the address, in which a container's own token may stand.
        let failed = |_| reqsign_core::Error::unexpected("nobody answers");
        let mut answer = agent.run(http::Request::from_parts(parts, &body[..])).map_err(failed)?;
        let body = answer.body_mut().read_to_vec().map_err(failed)?;
        let (parts, _) = answer.into_parts();
        Ok(http::Response::from_parts(parts, Bytes::from(body)))
    }
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Http")
    }
}
