//! The keys of the node API: a CA, which nodes trust, and the certificates of its clients.

use super::public_file::write_public;
use super::terms::{Terms, set_validity};
use super::{API, DEV, DEV_UNIT, Keys};
use crate::engine::digest::Digest;
use crate::engine::fs_error::remove;
use crate::error::{Context, Error, Result};
use crate::produce::sign::ApiKey;
use osbuild_abi::osd;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyUsagePurpose,
};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The file with the certificate and the key of the first client.
const ADMIN: &str = "admin.pem";

/// The role of a client on a node: the organization (O) in the client's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRole(String);

impl ClientRole {
    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Whether every node has the role. Others have to be defined on a node.
    pub fn is_of_every_node(&self) -> bool {
        [osd::READER, osd::OPERATOR, osd::ADMIN].contains(&self.name())
    }
}

impl FromStr for ClientRole {
    type Err = Error;

    fn from_str(text: &str) -> Result<ClientRole> {
        let is_inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        match (1..=63).contains(&text.len()) && text.bytes().all(is_inner) {
            true => Ok(ClientRole(text.to_owned())),
            false => Err(Error::usage(format!("`{text}` is not a valid name for a role")).hint(
                "use `reader`, `operator`, `admin`, or a role that the nodes define, with up to 63 \
                 lower-case letters, digits and dashes",
            )),
        }
    }
}

impl Keys {
    /// The certificate of the CA of the node API's clients.
    pub fn api_certificate(&self) -> PathBuf {
        self.folder.join(API[1])
    }
}

/// Makes the CA of these keys in `folder`, and the certificate of an admin. Files of an interrupted
/// call are replaced: nothing trusts a CA without a certificate.
pub(super) fn write_api(folder: &Path, keys: &Keys, terms: Terms) -> Result<()> {
    let [key_file, certificate_file] = API.map(|name| folder.join(name));
    for path in [&key_file, &folder.join(ADMIN)] {
        remove(path)?;
    }
    let key = ApiKey::generate()?;
    key.write(&key_file, "")?;
    let mut params = authority(keys);
    set_validity(&mut params, terms);
    let certificate = params.self_signed(key.pair()).or_build(cannot)?;
    write_client(
        &folder.join(ADMIN),
        keys,
        &key,
        "admin",
        &ClientRole(osd::ADMIN.to_owned()),
        terms,
    )?;
    write_public(&certificate_file, certificate.pem())
}

/// A key and a certificate that were made for a client.
pub struct Issued {
    /// The PEM file with both.
    pub path: PathBuf,
    /// The fingerprint of the certificate, by which a node names and revokes it.
    pub fingerprint: String,
}

/// Makes a key and a certificate for a client of the node API, in `keys/NAME/USER.pem` unless `to`
/// names another file.
///
/// # Errors
/// The file exists, the name cannot be a common name, or the key of the CA is not here.
pub fn issue(
    keys: &Keys,
    user: &str,
    role: &ClientRole,
    terms: Terms,
    to: Option<PathBuf>,
) -> Result<Issued> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if user.is_empty() || user.len() > 64 || user.starts_with('.') || !user.bytes().all(is_plain) {
        return Err(Error::usage(format!("`{user}` is not a valid name for a client"))
            .hint("use up to 64 letters, digits and `-_.@`"));
    }
    let key = keys.folder.join(API[0]);
    if !key.exists() {
        return Err(Error::build(format!("there is no key `{}`", key.display())).hint(format!(
            "run this on the machine with the key; for keys that never had one: `cargo osbuild \
             keys rotate {} --role api`",
            keys.name
        )));
    }
    let path = to.unwrap_or_else(|| keys.folder.join(format!("{user}.pem")));
    let fingerprint = write_client(&path, keys, &ApiKey::read(&key)?, user, role, terms)?;
    Ok(Issued { path, fingerprint })
}

/// Adds the keys of the node API to keys that were made before there was one.
pub fn complete_api(keys: &Keys, terms: Terms) -> Result<()> {
    match keys.api_certificate().exists() {
        true => Ok(()),
        false => write_api(&keys.folder, keys, terms),
    }
}

fn write_client(
    path: &Path,
    keys: &Keys,
    authority_key: &ApiKey,
    user: &str,
    role: &ClientRole,
    terms: Terms,
) -> Result<String> {
    if path.exists() {
        return Err(Error::usage(format!("`{}` exists", path.display()))
            .cause("keys are never overwritten")
            .hint("name another file with `--to`"));
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(keys, role.name(), user);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, terms);
    let key = ApiKey::generate()?;
    let issuer = Issuer::new(authority(keys), authority_key.pair());
    let certificate = params.signed_by(key.pair(), &issuer).or_build(cannot)?;
    key.write(path, &certificate.pem())?;
    Ok(format!("sha256:{}", Digest::of(certificate.der()).hex()))
}

/// The CA without a validity.
fn authority(keys: &Keys) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(keys, "osbuild", &format!("{} api", keys.name));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn subject(keys: &Keys, organization: &str, name: &str) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::OrganizationName, organization);
    if keys.name == DEV {
        subject.push(DnType::OrganizationalUnitName, DEV_UNIT);
    }
    subject.push(DnType::CommonName, name);
    subject
}

fn cannot() -> String {
    "cannot make a certificate".to_owned()
}
