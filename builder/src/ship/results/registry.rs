//! The artifact in a registry, over the OCI distribution API.

use super::authorities;
use super::folder::Folder;
use super::{ARTIFACT, EMPTY_BYTES, MAX_MANIFEST};
use crate::engine::digest::{CHUNK, Digest};
use crate::engine::stop;
use crate::error::{Context, Error, Result};
use crate::report::{Outcome, Report};
use bytes::Bytes;
use docker_credential::{CredentialRetrievalError, DockerCredential};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::{OciDistributionError, OciErrorCode};
use oci_client::manifest::{OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciImageManifest};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_stream::{StreamExt, iter};

/// How long a registry may be silent.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The interval at which a wait looks whether the user wants to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// The answer of a helper of docker that has no credentials for a registry: on stdout, with exit
/// status 1.
const NOT_FOUND: &str = "credentials not found in native keychain";

/// The length of what is shown of a helper's stderr, in characters.
const MAX_STDERR: usize = 400;

/// A proxy, which is never used, and the hosts that it is not for. A client that has one does not
/// take that of `HTTP_PROXY`, which would get the password for a registry on this machine.
const NO_PROXY: (&str, &str) = ("http://localhost", "localhost,127.0.0.0/8,::1");

/// One artifact in a registry. Registries on the loopback are reached without a proxy, and without
/// TLS, as other clients do, unless the user has a certificate of an authority for them.
pub struct Registry {
    name: Reference,
    client: Client,
    auth: RegistryAuth,
    runtime: Runtime,
}

impl Registry {
    /// The artifact of this name, with the user's credentials for its registry in
    /// `~/.docker/config.json` or of the helper that this file names.
    ///
    /// # Errors
    /// The credentials or the certificates for this registry are malformed.
    pub fn open(name: &Reference) -> Result<Self> {
        let host = name.resolve_registry();
        let auth = auth(host, docker_credential::get_credential(host))?;
        let folders = authorities::folders(env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME"));
        let authorities = authorities::find(&folders, host)?;
        let protocol = match is_loopback(host) && authorities.is_empty() {
            true => ClientProtocol::Http,
            false => ClientProtocol::Https,
        };
        let client = Client::try_from(ClientConfig {
            protocol,
            extra_root_certificates: authorities,
            read_timeout: Some(TIMEOUT),
            connect_timeout: Some(TIMEOUT),
            user_agent: concat!("osbuild/", env!("CARGO_PKG_VERSION")),
            http_proxy: is_loopback(host).then(|| NO_PROXY.0.to_owned()),
            no_proxy: is_loopback(host).then(|| NO_PROXY.1.to_owned()),
            ..ClientConfig::default()
        });
        let client = client.map_err(|error| {
            Error::usage(format!("cannot use the certificates for `{host}`")).cause(error)
        })?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.or_build(|| "cannot start the client of registries".to_owned())?;
        Ok(Registry { name: name.clone(), client, auth, runtime })
    }

    /// Checks that the registry can be reached and lets this user write, before a long build.
    ///
    /// # Errors
    /// It cannot be reached, or refuses the user.
    pub fn check(&self) -> Result<()> {
        self.run(self.client.auth(&self.name, &self.auth, RegistryOperation::Push))?;
        let empty = format!("sha256:{}", Digest::of(EMPTY_BYTES));
        self.run(self.client.blob_exists(&self.name, &empty)).map(drop)
    }

    /// Sends an artifact: the files that the registry lacks, and then the manifest. It is after
    /// [`Self::check`].
    ///
    /// # Errors
    /// The registry cannot be reached, or refuses it.
    pub fn push(&self, folder: &Folder, report: &Report) -> Result<()> {
        let step = report.step("push");
        let bytes = folder.manifest()?;
        let manifest: OciImageManifest =
            serde_json::from_slice(&bytes).or_build(|| "the manifest is malformed".to_owned())?;
        let mut sent = 0;
        for blob in [&manifest.config].into_iter().chain(&manifest.layers) {
            stop::check()?;
            if !self.run(self.client.blob_exists(&self.name, &blob.digest))? {
                step.doing(format!(
                    "{} of {}",
                    blob.digest,
                    crate::report::bytes(blob.size as u64)
                ));
                self.push_blob(folder, blob)?;
                sent += blob.size as u64;
            }
        }
        let media_type = OCI_IMAGE_MEDIA_TYPE.parse().expect("the type is a header's value");
        self.run(self.client.push_manifest_raw(&self.name, bytes, media_type))?;
        step.done(&self.name.to_string(), Some(sent), Outcome::Ran);
        Ok(())
    }

    fn push_blob(&self, folder: &Folder, blob: &OciDescriptor) -> Result<()> {
        let hex = blob.digest.trim_start_matches("sha256:");
        let digest = Digest::parse(hex, blob.size as u64)
            .ok_or_else(|| Error::build(format!("`{}` is no digest", blob.digest)))?;
        let path = folder.file(&digest);
        let file = File::open(&path).or_build(|| format!("cannot open `{}`", path.display()))?;
        let chunks = iter(Chunks(file)).map(|chunk| chunk.map_err(OciDistributionError::IoError));
        let size = Some(digest.size());
        self.run(self.client.push_blob_stream(&self.name, chunks, &blob.digest, size)).map(drop)
    }

    /// The bytes of the artifact's manifest.
    ///
    /// # Errors
    /// There is none, or the registry cannot be reached.
    pub fn manifest(&self) -> Result<Vec<u8>> {
        let types = [OCI_IMAGE_MEDIA_TYPE, ARTIFACT];
        let (bytes, _) = self.run(self.client.pull_manifest_raw(&self.name, &self.auth, &types))?;
        match bytes.len() as u64 <= MAX_MANIFEST {
            true => Ok(bytes.to_vec()),
            false => Err(Error::digest(format!("the manifest of `{}` is too large", self.name))),
        }
    }

    /// Writes the bytes of a blob, at most those that its digest counts and one more.
    ///
    /// # Errors
    /// The registry lacks it or cannot be reached, or `to` cannot be written.
    pub fn read(&self, digest: &Digest, to: &mut dyn Write) -> Result<()> {
        let text = format!("sha256:{digest}");
        let blob = OciDescriptor {
            digest: text.clone(),
            size: digest.size() as i64,
            ..OciDescriptor::default()
        };
        let mut stream = self.run(self.client.pull_blob_stream(&self.name, &blob))?.stream;
        let mut read = 0;
        while let Some(chunk) = self.wait(stream.next())? {
            let chunk = chunk.or_build(|| format!("cannot read {text} of `{}`", self.name))?;
            read += chunk.len() as u64;
            to.write_all(&chunk).or_build(|| format!("cannot keep {text}"))?;
            if read > digest.size() {
                break;
            }
        }
        Ok(())
    }

    fn run<T>(
        &self,
        request: impl Future<Output = std::result::Result<T, OciDistributionError>>,
    ) -> Result<T> {
        self.wait(request)?.map_err(|error| self.explain(error))
    }

    /// Waits for an answer of the registry. A large blob takes minutes, so this looks several times
    /// a second whether the user wants to stop.
    fn wait<T>(&self, answer: impl Future<Output = T>) -> Result<T> {
        self.runtime.block_on(async {
            let mut answer = pin!(answer);
            loop {
                stop::check()?;
                if let Ok(answer) = tokio::time::timeout(STOP_INTERVAL, answer.as_mut()).await {
                    return Ok(answer);
                }
            }
        })
    }

    fn explain(&self, error: OciDistributionError) -> Error {
        let absent = || Error::usage(format!("the registry has no `{}`", self.name));
        let refused = || Error::build(format!("the registry refused `{}`", self.name));
        let log_in = "log in with `docker login`, `podman login` or `oras login`";
        match error {
            OciDistributionError::RequestError(error) => match error.status() {
                Some(status) if [401, 403].contains(&status.as_u16()) => {
                    refused().cause(error).hint(log_in)
                }
                Some(_) => refused().cause(error),
                None => Error::build(format!("cannot reach the registry of `{}`", self.name))
                    .cause(error),
            },
            OciDistributionError::ImageManifestNotFoundError(_) => absent(),
            OciDistributionError::RegistryError { envelope, .. }
                if envelope.errors.iter().any(|error| {
                    [OciErrorCode::ManifestUnknown, OciErrorCode::NameUnknown].contains(&error.code)
                }) =>
            {
                absent()
            }
            OciDistributionError::AuthenticationFailure(_)
            | OciDistributionError::UnauthorizedError { .. } => refused().cause(error).hint(log_in),
            error => refused().cause(error),
        }
    }
}

/// How to log in to a registry with the user's credentials for it.
///
/// # Errors
/// There are some, and they cannot be read or sent.
fn auth(
    host: &str,
    found: std::result::Result<DockerCredential, CredentialRetrievalError>,
) -> Result<RegistryAuth> {
    let unreadable = || Error::usage(format!("cannot read the credentials for `{host}`"));
    match found {
        Ok(DockerCredential::UsernamePassword(user, password)) => {
            Ok(RegistryAuth::Basic(user, password))
        }
        Ok(DockerCredential::IdentityToken(_)) => {
            Err(Error::usage(format!("the credentials for `{host}` are a token"))
                .cause("only a user's name and password are sent to registries"))
        }
        Err(
            CredentialRetrievalError::ConfigNotFound
            | CredentialRetrievalError::ConfigReadError
            | CredentialRetrievalError::NoCredentialConfigured,
        ) => Ok(RegistryAuth::Anonymous),
        // A helper is asked for each registry, also for one that the user never logged in to.
        Err(CredentialRetrievalError::HelperFailure { stdout, .. })
            if stdout.trim() == NOT_FOUND =>
        {
            Ok(RegistryAuth::Anonymous)
        }
        // Its stdout is for secrets, and is not printed.
        Err(CredentialRetrievalError::HelperFailure { helper, stderr, .. }) => {
            let plain = |letter: &char| !letter.is_control() || *letter == '\n';
            let stderr = stderr.trim().chars().filter(plain).take(MAX_STDERR).collect::<String>();
            let failed = unreadable().cause(format!("`{helper}` failed"));
            let failed = if stderr.is_empty() { failed } else { failed.cause(stderr) };
            Err(failed.hint(format!("try it: echo {host} | {helper} get")))
        }
        Err(error) => Err(unreadable().cause(error)),
    }
}

/// Whether a registry, with its port, is on the loopback.
fn is_loopback(registry: &str) -> bool {
    let (host, _) = registry.rsplit_once(':').unwrap_or((registry, ""));
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The bytes of a file in pieces.
struct Chunks(File);

impl Iterator for Chunks {
    type Item = io::Result<Bytes>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut chunk = vec![0; CHUNK];
        match self.0.read(&mut chunk) {
            Ok(0) => None,
            Ok(read) => {
                chunk.truncate(read);
                Some(Ok(chunk.into()))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn helper(stdout: &str, stderr: &str) -> Result<RegistryAuth> {
        let (helper, stdout) = ("docker-credential-x".to_owned(), stdout.to_owned());
        let stderr = stderr.to_owned();
        auth("r.example", Err(CredentialRetrievalError::HelperFailure { helper, stdout, stderr }))
    }

    #[test]
    fn a_helper_without_credentials_for_a_registry_means_an_anonymous_user() {
        assert_eq!(helper(&format!("{NOT_FOUND}\n"), "").unwrap(), RegistryAuth::Anonymous);
    }

    #[test]
    fn a_helper_that_fails_is_named_without_its_stdout() {
        let error = helper("{\"Secret\": \"correct horse\"}", "the store is\x1b locked\n");
        let error = error.unwrap_err().to_string();
        assert!(!error.contains("horse"), "{error}");
        for part in ["`docker-credential-x` failed", "caused by: the store is locked\n"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn registries_on_the_loopback_are_reached_without_tls() {
        for registry in ["localhost", "localhost:5000", "127.0.0.1:5000", "[::1]:5000"] {
            assert!(is_loopback(registry), "{registry}");
        }
        for registry in ["ghcr.io", "10.0.0.1:5000", "localhost.example:5000"] {
            assert!(!is_loopback(registry), "{registry}");
        }
    }
}
