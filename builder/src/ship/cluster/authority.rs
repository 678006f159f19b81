//! The CAs of a cluster, with keys on the curve P-256. kubeadm uses them in place of its own.

use crate::engine::digest::Digest;
use crate::error::{Context, Result};
use der::pem::{LineEnding, encode_string};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, PublicKeyData,
};
use std::time::{Duration, SystemTime};

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How long certificates are valid: as long as those of kubeadm.
const CA_LIFETIME: Duration = Duration::from_secs(10 * YEAR.as_secs());
const CLIENT_LIFETIME: Duration = YEAR;
/// How far a node's clock may be behind this machine's.
const SKEW: Duration = Duration::from_secs(5 * 60);

/// The group whose members kubeadm makes administrators of the cluster only once it has run. This
/// one has all rights from the start, and no role can take them away.
const ADMINISTRATORS: &str = "system:masters";

const CANNOT: &str = "cannot make a certificate";

/// The names that kubeadm gives the CAs of a cluster, of its etcd, and of the API servers that
/// extend its own.
pub const CLUSTER: &str = "kubernetes";
pub const ETCD: &str = "etcd-ca";
pub const FRONT_PROXY: &str = "front-proxy-ca";

/// A CA of a cluster.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its private key, as PEM.
pub struct Pair {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    /// Makes a CA that is valid from `now` on.
    pub fn new(name: &str, now: SystemTime) -> Result<Self> {
        let mut params = params(name, now, CA_LIFETIME);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::KeyCertSign,
        ];
        CertifiedIssuer::self_signed(params, key_pair()?).map(Authority).or_build(|| CANNOT.into())
    }

    /// Its certificate as PEM.
    pub fn certificate(&self) -> String {
        certificate_pem(self.0.der())
    }

    /// Its private key as PEM.
    pub fn key(&self) -> String {
        key_pem(self.0.key())
    }

    /// The hash of its public key with which kubeadm recognizes it
    /// (`https://kubernetes.io/docs/reference/setup-tools/kubeadm/kubeadm-join/`).
    pub fn hash(&self) -> String {
        format!("sha256:{}", Digest::of(&self.0.key().subject_public_key_info()).hex())
    }

    /// A certificate for the cluster's administrator.
    pub fn administrator(&self, now: SystemTime) -> Result<Pair> {
        let mut params = params("administrator", now, CLIENT_LIFETIME);
        params.distinguished_name.push(DnType::OrganizationName, ADMINISTRATORS);
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = key_pair()?;
        let certificate = params.signed_by(&key, &self.0).or_build(|| CANNOT.into())?;
        Ok(Pair { certificate: certificate_pem(certificate.der()), key: key_pem(&key) })
    }
}

/// The pair of keys with which the control plane signs the tokens of ServiceAccounts, as PEM: the
/// private one and the public one.
pub fn token_keys() -> Result<[String; 2]> {
    let key = key_pair()?;
    Ok([key_pem(&key), pem("PUBLIC KEY", &key.subject_public_key_info())])
}

fn params(name: &str, now: SystemTime, lifetime: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    (params.not_before, params.not_after) = ((now - SKEW).into(), (now + lifetime).into());
    params
}

fn key_pair() -> Result<KeyPair> {
    KeyPair::generate().or_build(|| "cannot make a key".into())
}

fn certificate_pem(der: &[u8]) -> String {
    pem("CERTIFICATE", der)
}

fn key_pem(key: &KeyPair) -> String {
    pem("PRIVATE KEY", &key.serialize_der())
}

/// PEM (RFC 7468).
fn pem(label: &'static str, der: &[u8]) -> String {
    // It fails only for more bytes than memory has.
    encode_string(label, LineEnding::LF, der).unwrap_or_default()
}
