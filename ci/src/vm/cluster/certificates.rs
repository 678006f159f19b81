//! The certificates of a cluster: one CA signs those of its servers, clients and nodes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use osbuild::error::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Labels of RFC 7468.
const CERTIFICATE: &str = "CERTIFICATE";
const PRIVATE_KEY: &str = "PRIVATE KEY";
const PUBLIC_KEY: &str = "PUBLIC KEY";

const CANNOT: &str = "cannot make a certificate";

/// How long a certificate is valid.
const LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// A CA in a folder: `ca.crt` and `ca.key`, and a `NAME.crt` and `NAME.key` for each certificate.
pub struct Authority {
    folder: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// Makes the CA, and a key pair of the cluster's service accounts, `accounts.key` and
    /// `accounts.pub`.
    pub fn new(folder: &Path) -> Result<Self> {
        let mut params = params(Vec::new())?;
        params.distinguished_name = subject("lab-ca", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let issuer = CertifiedIssuer::self_signed(params, key()?).or_build(|| CANNOT.to_owned())?;
        let authority = Authority { folder: folder.to_owned(), issuer };
        authority.write("ca.crt", &pem(CERTIFICATE, authority.issuer.der()))?;
        authority.write("ca.key", &pem(PRIVATE_KEY, &authority.issuer.key().serialize_der()))?;
        let accounts = key()?;
        authority.write("accounts.key", &pem(PRIVATE_KEY, &accounts.serialize_der()))?;
        authority.write("accounts.pub", &pem(PUBLIC_KEY, &accounts.subject_public_key_info()))?;
        Ok(authority)
    }

    /// Makes a certificate for a server with these names and addresses.
    pub fn server(&self, name: &str, names: &[&str]) -> Result<()> {
        let mut params = params(names.iter().map(|name| (*name).to_owned()).collect())?;
        params.distinguished_name = subject(name, None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(name, params)
    }

    /// Makes a certificate for a client. Kubernetes takes the common name as the user and the
    /// organization as a group.
    pub fn client(&self, name: &str, user: &str, group: Option<&str>) -> Result<()> {
        let mut params = params(Vec::new())?;
        params.distinguished_name = subject(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(name, params)
    }

    /// Makes a kubeconfig with the certificate `name` in the file `NAME.kubeconfig`.
    pub fn kubeconfig(&self, name: &str, server: &str) -> Result<PathBuf> {
        let user = format!("client-certificate: {name}.crt, client-key: {name}.key");
        self.write(
            &format!("{name}.kubeconfig"),
            &kubeconfig(server, "certificate-authority: ca.crt", &user),
        )
    }

    /// The path of one of its files.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The text of one of its files.
    pub fn read(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.path(file)).or_build(|| format!("cannot read `{file}`"))
    }

    fn sign(&self, name: &str, params: CertificateParams) -> Result<()> {
        let key = key()?;
        let certificate = params.signed_by(&key, &self.issuer).or_build(|| CANNOT.to_owned())?;
        self.write(&format!("{name}.crt"), &pem(CERTIFICATE, certificate.der()))?;
        self.write(&format!("{name}.key"), &pem(PRIVATE_KEY, &key.serialize_der())).map(drop)
    }

    fn write(&self, file: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(file);
        fs::write(&path, text).or_build(|| format!("cannot write `{}`", path.display()))?;
        Ok(path)
    }
}

/// A kubeconfig for `server`. `authority` and `user` are entries of YAML.
pub fn kubeconfig(server: &str, authority: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: lab\n\
         clusters: [{{ name: lab, cluster: {{ server: \"{server}\", {authority} }} }}]\n\
         users: [{{ name: lab, user: {{ {user} }} }}]\n\
         contexts: [{{ name: lab, context: {{ cluster: lab, user: lab }} }}]\n"
    )
}

/// PEM (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text
        .as_bytes()
        .chunks(64)
        .map(|line| String::from_utf8_lossy(line) + "\n")
        .collect::<String>();
    format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n")
}

/// A certificate that is valid from now on for a year, like those of kubeadm, for servers with
/// these names and addresses.
fn params(names: Vec<String>) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(names).or_build(|| CANNOT.to_owned())?;
    let now = SystemTime::now();
    (params.not_before, params.not_after) = (now.into(), (now + LIFETIME).into());
    Ok(params)
}

fn key() -> Result<KeyPair> {
    KeyPair::generate().or_build(|| "cannot make a key".to_owned())
}

fn subject(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    subject
}
