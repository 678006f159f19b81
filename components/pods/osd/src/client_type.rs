//! The types whose resources clients write.

use crate::access::Role;
use crate::access::custom_role::{self, CustomRole};
use crate::access::revocation::{self, Revocation};
use crate::access::token::issuer::{self, TokenIssuer};
use crate::limits::{MAX_REVOCATIONS, MAX_ROLES, MAX_TOKEN_ISSUERS};
use crate::plugins::grant::Grant;
use crate::plugins::limits::MAX_PLUGINS;
use crate::plugins::{GRANT_COLUMNS, PLUGIN_GRANTS};
use crate::settings::{NAMESPACE, SettingType, TYPES, spec};
use osbuild_cosi::v1::{PluginGrantSpec, RevocationSpec, RoleSpec, TokenIssuerSpec};
use osbuild_resources::{Kind, Names, PrintColumn, Spec};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A type whose resources clients write.
#[derive(Clone, Copy)]
pub enum ClientType {
    /// Settings of the host.
    Setting(&'static SettingType),
    /// The rights of plugins.
    Grant,
    /// The exclusion of clients.
    Revocation,
    /// The rights of clients with a role.
    Role,
    /// Issuers whose tokens count.
    TokenIssuer,
}

/// A spec that has been checked.
pub struct Checked {
    /// Both of its forms.
    pub spec: Spec,
    /// The subject of the spec, as errors name it, if only one resource may have that subject.
    pub subject: Option<String>,
}

impl ClientType {
    /// All of them.
    pub fn all() -> impl Iterator<Item = ClientType> {
        static SETTINGS: [SettingType; 28] = TYPES;
        SETTINGS.iter().map(ClientType::Setting).chain([
            ClientType::Grant,
            ClientType::Revocation,
            ClientType::Role,
            ClientType::TokenIssuer,
        ])
    }

    /// Those that tries and generations cover: settings. Nothing but another change takes back who
    /// may call, so that no old state lets in who is excluded.
    pub fn settings() -> impl Iterator<Item = ClientType> {
        Self::all().filter(|one| one.is_setting())
    }

    /// Whether tries and generations cover it.
    pub fn is_setting(self) -> bool {
        match self {
            ClientType::Setting(_) | ClientType::Grant => true,
            ClientType::Revocation | ClientType::Role | ClientType::TokenIssuer => false,
        }
    }

    /// Whether its resources give rights, so that an admin alone writes them.
    pub fn gives_rights(self) -> bool {
        !matches!(self, ClientType::Setting(_))
    }

    /// Whether a mistake in one of its resources can keep clients from reaching the node.
    pub fn may_disconnect(self) -> bool {
        matches!(self, ClientType::Setting(one) if one.may_disconnect)
    }

    /// The fields of its specs that are secret.
    pub fn secrets(self) -> Vec<&'static str> {
        self.of_host().map(|one| one.secrets().collect()).unwrap_or_default()
    }

    /// The type that this kind is of.
    pub fn of(kind: &Kind) -> Option<ClientType> {
        static BY_KIND: LazyLock<BTreeMap<Kind, ClientType>> =
            LazyLock::new(|| ClientType::all().map(|one| (one.kind(), one)).collect());
        BY_KIND.get(kind).copied()
    }

    /// The type with this name: its singular, its plural or its full name, in any case.
    pub fn named(name: &str) -> Option<ClientType> {
        let is_named = |one: &ClientType| {
            let Names { plural, singular, suffix } = one.names();
            let full = format!("{plural}.{suffix}");
            [singular, plural, &full].iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        Self::all().find(is_named)
    }

    /// The type of setting, if the host has it.
    pub fn of_host(self) -> Option<&'static SettingType> {
        match self {
            ClientType::Setting(one) => Some(one),
            _ => None,
        }
    }

    /// Its names.
    pub fn names(self) -> Names<'static> {
        match self {
            ClientType::Setting(one) => one.names,
            ClientType::Grant => PLUGIN_GRANTS,
            ClientType::Revocation => revocation::NAMES,
            ClientType::Role => custom_role::NAMES,
            ClientType::TokenIssuer => issuer::NAMES,
        }
    }

    /// Its columns.
    pub fn columns(self) -> &'static [PrintColumn<'static>] {
        match self {
            ClientType::Setting(one) => one.columns,
            ClientType::Grant => GRANT_COLUMNS,
            ClientType::Revocation => revocation::COLUMNS,
            ClientType::Role => custom_role::COLUMNS,
            ClientType::TokenIssuer => issuer::COLUMNS,
        }
    }

    /// The kind of its resources.
    pub fn kind(self) -> Kind {
        let Names { plural, suffix, .. } = self.names();
        let type_name = format!("{plural}.{suffix}");
        Kind::new(NAMESPACE, &type_name).expect("the names of a type are valid")
    }

    /// The least role that may write them.
    pub fn writer(self) -> Role {
        match self {
            ClientType::Setting(one) => one.writer,
            _ => Role::Admin,
        }
    }

    /// Why the specs of all its resources exclude each other, if they do. Those that cannot be read
    /// are left out.
    pub fn conflict<'a>(self, specs: impl Iterator<Item = &'a Spec>) -> Option<String> {
        let one = self.of_host()?;
        let settings = specs.filter_map(|spec| (one.read)(spec).ok());
        (one.conflict)(&settings.flatten().collect::<Vec<_>>())
    }

    /// How many there may be.
    pub fn max_count(self) -> usize {
        match self {
            ClientType::Setting(_) => usize::MAX,
            ClientType::Grant => MAX_PLUGINS,
            ClientType::Revocation => MAX_REVOCATIONS,
            ClientType::Role => MAX_ROLES,
            ClientType::TokenIssuer => MAX_TOKEN_ISSUERS,
        }
    }

    /// Checks a spec that a client has written, which may hide the secrets of the one that is
    /// stored. It then has to be the same: otherwise, who cannot read a secret could have it sent
    /// elsewhere.
    ///
    /// # Errors
    /// It is malformed, or hides a secret and is not the same.
    pub fn check_written(
        self,
        id: &str,
        spec: &Spec,
        stored: Option<&Spec>,
    ) -> Result<Checked, String> {
        let reason = match self.check(id, spec) {
            Ok(checked) => return Ok(checked),
            Err(reason) => reason,
        };
        let Some(stored) = stored.filter(|stored| !stored.secrets.is_empty()) else {
            return Err(reason);
        };
        let secrets = stored.secrets.clone();
        match self.check(id, &Spec { secrets, ..spec.clone() })? {
            checked if checked.spec == *stored => Ok(checked),
            _ => Err(format!(
                "`{}` is hidden, and the rest of the spec is not as it was: write the secret again",
                self.secrets().join("` or `")
            )),
        }
    }

    /// Checks the spec of the resource with this identifier.
    ///
    /// # Errors
    /// It is malformed.
    pub fn check(self, id: &str, spec: &Spec) -> Result<Checked, String> {
        match self {
            ClientType::Setting(one) => {
                let settings = (one.read)(spec)?;
                let subject = Some((one.subject)(&settings));
                Ok(Checked { spec: (one.write)(&settings), subject })
            }
            ClientType::Grant => {
                let grant: PluginGrantSpec = spec::read_as(spec, Ok)?;
                Grant::new(id, &grant)?;
                Ok(Checked { spec: spec::both(&grant), subject: None })
            }
            ClientType::Revocation => {
                let message: RevocationSpec = spec::read_as(spec, Ok)?;
                Revocation::new(&message)?;
                Ok(Checked { spec: spec::both(&message), subject: None })
            }
            ClientType::Role => {
                let message: RoleSpec = spec::read_as(spec, Ok)?;
                CustomRole::new(id, &message)?.check_calls()?;
                Ok(Checked { spec: spec::both(&message), subject: None })
            }
            ClientType::TokenIssuer => {
                let message: TokenIssuerSpec = spec::read_as(spec, Ok)?;
                TokenIssuer::new(&message)?;
                let subject = Some(format!("the issuer `{}`", message.issuer));
                Ok(Checked { spec: spec::both(&message), subject })
            }
        }
    }
}
