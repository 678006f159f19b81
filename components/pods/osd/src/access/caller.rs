//! The caller behind a connection, and its role.

use super::custom_role::{CustomRole, Roles, Verb};
use super::token::issuer::ShownToken;
use crate::catalog;
use crate::connections::Peer;
use osbuild_abi::osd;
use osbuild_failure::{Explain, Outcome};
use osbuild_protocol::Fingerprint;
use osbuild_resources::Kind;
use sha2::{Digest, Sha256};
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::SystemTime;
use tonic::{Extensions, Status};
use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::oid::db::rfc4519::{COMMON_NAME, ORGANIZATION_NAME};
use x509_cert::der::{Decode, Tag, Tagged};

/// The role of a caller. Each role includes the rights of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads resources.
    Reader,
    /// Changes settings that give nobody rights on the node, tries changes, and reboots.
    Operator,
    /// Changes everything.
    Admin,
}

impl Role {
    const ALL: [Role; 3] = [Role::Reader, Role::Operator, Role::Admin];

    /// Its name, which is the organization in a client's certificate.
    pub fn name(self) -> &'static str {
        match self {
            Role::Reader => osd::READER,
            Role::Operator => osd::OPERATOR,
            Role::Admin => osd::ADMIN,
        }
    }

    /// The role with this name.
    pub fn named(name: &str) -> Option<Role> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// The program or person behind a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The common name of its certificate, or the user that is its ServiceAccount. It comes from
    /// outside.
    name: String,
    rights: Rights,
    /// Whether it comes over the network, so that all of its calls are recorded.
    is_remote: bool,
    shown: Shown,
}

/// The proof that a caller on the network has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Nothing: it is on the node, or nobody.
    Nothing,
    /// Its certificate.
    Certificate(ShownCertificate),
    /// Its token.
    Token(Box<ShownToken>),
}

/// The rights of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rights {
    /// Nothing: it came over no connection.
    None,
    /// The rights of a role of the node.
    Role(Role),
    /// The rights of a role with this name, which an administrator has defined.
    Custom(String, Arc<CustomRole>),
}

/// The fields of a certificate that decide the access of a client on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCertificate {
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// Its common name, if it has one.
    pub user: Option<String>,
    /// Its organizations, which name roles.
    pub organizations: Vec<String>,
    /// Its first moment (notBefore).
    pub issued: SystemTime,
}

impl ShownCertificate {
    /// Reads the fields of a DER certificate, which must have been verified.
    ///
    /// # Errors
    /// The certificate is malformed.
    pub fn of(der: &[u8]) -> Outcome<ShownCertificate> {
        let certificate = Certificate::from_der(der).explain("read a client's certificate")?;
        let certificate = certificate.tbs_certificate;
        let subject = certificate.subject;
        let values = |oid| {
            let attributes = subject.0.iter().flat_map(|set| set.0.iter());
            attributes.filter(move |attribute| attribute.oid == oid).filter_map(text)
        };
        Ok(ShownCertificate {
            fingerprint: Fingerprint::of(&Sha256::digest(der).into()),
            user: values(COMMON_NAME).next().map(str::to_owned),
            organizations: values(ORGANIZATION_NAME).map(str::to_owned).collect(),
            issued: certificate.validity.not_before.to_system_time(),
        })
    }
}

impl Caller {
    /// A program that may connect to the Unix socket.
    pub fn local() -> Caller {
        let (name, rights) = ("local".to_owned(), Rights::Role(Role::Admin));
        Caller { name, rights, is_remote: false, shown: Shown::Nothing }
    }

    /// A caller on the network with this name and role.
    #[cfg(test)]
    pub fn with_role(name: &str, role: Role) -> Caller {
        let (name, rights) = (name.to_owned(), Rights::Role(role));
        Caller { name, rights, is_remote: true, shown: Shown::Nothing }
    }

    /// The holder of a certificate: its common name (CN), and the highest role of the node among
    /// its organizations (O), or else the first that an administrator has defined. None without a
    /// role.
    pub fn of_certificate(shown: ShownCertificate, roles: &Roles) -> Option<Caller> {
        let organizations = || shown.organizations.iter();
        let rights = match organizations().filter_map(|name| Role::named(name)).max() {
            Some(role) => Rights::Role(role),
            None => organizations().find_map(|name| Rights::custom(name, roles))?,
        };
        let name = shown.user.clone().unwrap_or_else(|| "unnamed".to_owned());
        Some(Caller { name, rights, is_remote: true, shown: Shown::Certificate(shown) })
    }

    /// The holder of a token with the role of this name. None if there is no such role.
    pub fn of_token(token: ShownToken, role: &str, roles: &Roles) -> Option<Caller> {
        let rights = match Role::named(role) {
            Some(role) => Rights::Role(role),
            None => Rights::custom(role, roles)?,
        };
        let name = token.user();
        Some(Caller { name, rights, is_remote: true, shown: Shown::Token(Box::new(token)) })
    }

    /// The caller of the request with these extensions. One that came over no connection has no
    /// role.
    pub fn of(extensions: &Extensions) -> Arc<Caller> {
        let peer = extensions.get::<Peer>();
        peer.map_or_else(Caller::unknown, |peer| peer.caller.clone())
    }

    /// A caller without a role.
    pub fn unknown() -> Arc<Caller> {
        let (name, rights) = ("unknown".to_owned(), Rights::None);
        Arc::new(Caller { name, rights, is_remote: true, shown: Shown::Nothing })
    }

    /// The proof that it has shown.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Returns whether nothing is known of it, so that it may do nothing.
    pub fn is_unknown(&self) -> bool {
        self.rights == Rights::None
    }

    /// Its role and name for the record, with the pod that has shown the token.
    pub fn recorded(&self) -> String {
        match &self.shown {
            Shown::Token(token) => format!("{self}{}", token.origin()),
            Shown::Certificate(_) | Shown::Nothing => self.to_string(),
        }
    }

    /// Whether it comes over the network.
    pub fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// Refuses what needs a higher role.
    pub fn require(&self, least: Role, what: impl Display) -> Result<(), Status> {
        let needed = least.name();
        let has = match &self.rights {
            Rights::Role(role) if *role >= least => return Ok(()),
            Rights::Role(_) => "has a lower one",
            Rights::Custom(..) => "has another one",
            Rights::None => "has none",
        };
        let message = format!("{what} needs the role `{needed}`, and {self} {has}");
        Err(Status::permission_denied(message))
    }

    /// Refuses a call, `SERVICE/NAME`, which needs this role of the node, or one that names the
    /// call.
    pub fn may_call(&self, least: Role, call: &str) -> Result<(), Status> {
        match &self.rights {
            Rights::Custom(_, role) if role.may_call(call) => Ok(()),
            Rights::Custom(..) => {
                let message = format!("the role of {self} does not include {call}");
                Err(Status::permission_denied(message))
            }
            _ => self.require(least, call),
        }
    }

    /// Refuses to do this with resources of the kind.
    pub fn may(&self, verb: Verb, kind: &Kind) -> Result<(), Status> {
        match &self.rights {
            Rights::Custom(_, role) if role.may(verb, kind) => Ok(()),
            Rights::Custom(..) => {
                let verb = verb.name();
                let message = format!("the role of {self} does not include `{verb}` of {kind}");
                Err(Status::permission_denied(message))
            }
            _ if verb.is_read() => self.require(Role::Reader, format_args!("a look at {kind}")),
            _ => self.require(catalog::writer(kind), format_args!("a change of {kind}")),
        }
    }
}

impl Rights {
    /// The rights of a role with this name, if an administrator has defined it.
    fn custom(name: &str, roles: &Roles) -> Option<Rights> {
        Some(Rights::Custom(name.to_owned(), roles.get(name)?.clone()))
    }
}

/// `local`, or the role and the name, which is quoted with its control characters escaped.
impl Display for Caller {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_remote {
            return out.write_str("local");
        }
        let role = match &self.rights {
            Rights::Role(role) => role.name(),
            Rights::Custom(name, _) => name,
            Rights::None => "nobody",
        };
        write!(out, "{role} {:?}", self.name)
    }
}

/// The last moment at which a certificate is valid.
///
/// # Errors
/// It is malformed.
pub fn not_after(der: &[u8]) -> Outcome<SystemTime> {
    let certificate = Certificate::from_der(der).explain("read a client's certificate")?;
    Ok(certificate.tbs_certificate.validity.not_after.to_system_time())
}

/// The text of an attribute of a name, in one of the encodings that RFC 5280 has for it.
fn text(attribute: &AttributeTypeAndValue) -> Option<&str> {
    let value = &attribute.value;
    match value.tag() {
        Tag::Utf8String => value.decode_as::<Utf8StringRef>().ok().map(|text| text.as_str()),
        Tag::PrintableString => {
            value.decode_as::<PrintableStringRef>().ok().map(|text| text.as_str())
        }
        Tag::TeletexString => value.decode_as::<TeletexStringRef>().ok().map(|text| text.as_str()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

    fn caller(common_name: DnValue, organization: &str) -> Caller {
        let shown = ShownCertificate::of(&certificate(common_name, organization)).unwrap();
        Caller::of_certificate(shown, &Roles::default()).unwrap()
    }

    fn certificate(common_name: DnValue, organization: &str) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        certificate.der().to_vec()
    }

    #[test]
    fn the_certificate_names_the_caller_and_its_role() {
        let printable = DnValue::PrintableString("alice".try_into().unwrap());
        for name in [DnValue::Utf8String("alice".to_owned()), printable] {
            assert_eq!(caller(name, "operator").to_string(), "operator \"alice\"");
        }
        let hostile = caller("alice\u{1b}[2J".into(), "reader");
        assert_eq!(hostile.to_string(), "reader \"alice\\u{1b}[2J\"");
        for organization in ["Admin", "admins", "osbuild", ""] {
            let without_role = certificate("alice".into(), organization);
            let shown = ShownCertificate::of(&without_role).unwrap();
            assert!(Caller::of_certificate(shown, &Roles::default()).is_none(), "{organization}");
        }
        assert!(ShownCertificate::of(b"no certificate").is_err());
    }

    #[test]
    fn a_role_of_the_node_comes_before_one_of_an_administrator() {
        let roles =
            Roles::from(["admin", "helpdesk"].map(|name| (name.to_owned(), Arc::default())));
        let caller = |organizations: &[&str]| {
            let der = certificate("alice".into(), "");
            let organizations = organizations.iter().map(|name| (*name).to_owned()).collect();
            let shown = ShownCertificate { organizations, ..ShownCertificate::of(&der).unwrap() };
            Caller::of_certificate(shown, &roles)
        };
        let helpdesk = caller(&["other", "helpdesk"]).unwrap();
        assert_eq!(helpdesk.to_string(), "helpdesk \"alice\"");
        assert!(helpdesk.require(Role::Reader, "this").is_err());
        assert_eq!(caller(&["helpdesk", "reader"]).unwrap().to_string(), "reader \"alice\"");
        assert!(caller(&["admin"]).unwrap().require(Role::Admin, "this").is_ok());
        assert_eq!(caller(&["other"]), None);
    }

    #[test]
    fn each_role_may_do_what_those_before_it_may() {
        let may = |caller: &Caller| Role::ALL.map(|role| caller.require(role, "this").is_ok());
        assert_eq!(may(&caller("a".into(), "reader")), [true, false, false]);
        assert_eq!(may(&caller("a".into(), "operator")), [true, true, false]);
        assert_eq!(may(&caller("a".into(), "admin")), [true, true, true]);
        assert_eq!(may(&Caller::local()), [true, true, true]);
        assert_eq!(may(&Caller::unknown()), [false, false, false]);
    }
}
