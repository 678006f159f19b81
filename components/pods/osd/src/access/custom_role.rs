//! The roles that administrators define: the specs of `Roles.osbuild`.

use super::Role;
use super::guard::least;
use crate::client_type::ClientType;
use osbuild_cosi::DESCRIPTORS;
use osbuild_cosi::v1::{RoleRule, RoleSpec};
use osbuild_resources::{Kind, Names, PrintColumn};
use prost::Message;
use prost_types::FileDescriptorSet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

/// The names of the type.
pub const NAMES: Names = Names { plural: "Roles", singular: "Role", suffix: "osbuild" };

/// Its columns.
pub const COLUMNS: &[PrintColumn] = &[
    PrintColumn { name: "Verbs", json_path: "{.resources[:].verbs[:]}" },
    PrintColumn { name: "Types", json_path: "{.resources[:].types[:]}" },
    PrintColumn { name: "Calls", json_path: "{.calls[:]}" },
];

/// The most rules of a role, names of types in one of them, and calls.
const MAX_RULES: usize = 32;
const MAX_TYPES: usize = 64;
const MAX_CALLS: usize = 64;

/// The most verbs and namespaces in a rule: there are no others.
const MAX_VERBS: usize = Verb::ALL.len();
const MAX_NAMESPACES: usize = 2;

/// The name that stands for all types.
const ALL: &str = "*";

/// The namespace of a rule that names none, and the one of definitions, which all roles read.
const SYSTEM: &str = crate::settings::NAMESPACE;
const META: &str = "meta";

/// The service of resources.
const STATE: &str = "cosi.resource.State";

/// The call that creates and updates resources, and the one that shows whether that is part of a
/// try.
const APPLY: &str = "osbuild.v1.Configuration/Apply";
const GET_TRY: &str = "osbuild.v1.Configuration/GetTry";

/// The service of Talos, whose one call is for all roles, as gRPC's own are.
const TALOS: &str = "machine.MachineService";

/// Calls that no role may name, as they give the rights of an admin.
const OF_ADMINS: [&str; 1] = ["osbuild.v1.Node/Debug"];

/// An operation on resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one.
    Get,
    /// Reads several.
    List,
    /// Follows changes.
    Watch,
    /// Makes one.
    Create,
    /// Changes one.
    Update,
    /// Tears one down, or removes it.
    Destroy,
}

impl Verb {
    const ALL: [Verb; 6] =
        [Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update, Verb::Destroy];

    /// Its name in a role.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Destroy => "destroy",
        }
    }

    /// Whether it changes nothing.
    pub fn is_read(self) -> bool {
        matches!(self, Verb::Get | Verb::List | Verb::Watch)
    }

    /// The verb of a call of `cosi.resource.State`.
    fn of_call(name: &str) -> Option<Verb> {
        match name {
            "Teardown" | "TeardownAndDestroy" => Some(Verb::Destroy),
            _ => Self::ALL.into_iter().find(|verb| verb.name().eq_ignore_ascii_case(name)),
        }
    }
}

/// The roles that administrators have defined, by their names.
pub type Roles = BTreeMap<String, Arc<CustomRole>>;

/// The rights of a role that an administrator has defined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomRole {
    rules: Vec<Rule>,
    calls: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    verbs: BTreeSet<Verb>,
    types: BTreeSet<String>,
    namespaces: BTreeSet<String>,
}

impl CustomRole {
    /// Checks the spec of the role with this name.
    ///
    /// # Errors
    /// The name belongs to a role of the node, something is malformed, or the spec names a right
    /// that is reserved for the role `admin`.
    pub fn new(name: &str, spec: &RoleSpec) -> Result<CustomRole, String> {
        check_name(name)?;
        let RoleSpec { resources, calls } = spec;
        if resources.len() > MAX_RULES || calls.len() > MAX_CALLS {
            return Err(format!("a role has at most {MAX_RULES} rules and {MAX_CALLS} calls"));
        }
        let rules = resources.iter().map(Rule::new).collect::<Result<_, _>>()?;
        Ok(CustomRole { rules, calls: calls.iter().cloned().collect() })
    }

    /// Refuses calls that the node does not have, which are mistakes, and those of admins.
    pub fn check_calls(&self) -> Result<(), String> {
        if let Some(call) = self.calls.iter().find(|call| OF_ADMINS.contains(&call.as_str())) {
            return Err(format!("an admin alone may call `{call}`"));
        }
        match self.calls.iter().find(|call| !KNOWN_CALLS.contains(*call)) {
            Some(call) => Err(format!("there is no call `{}`", call.escape_debug())),
            None => Ok(()),
        }
    }

    /// Whether it may do this with a resource of the kind.
    pub fn may(&self, verb: Verb, kind: &Kind) -> bool {
        let gives_rights = || ClientType::of(kind).is_some_and(ClientType::gives_rights);
        if !verb.is_read() && gives_rights() {
            return false;
        }
        let is_definition = verb.is_read() && kind.namespace() == META;
        is_definition || self.rules.iter().any(|rule| rule.covers(verb, kind))
    }

    /// Whether it may make the call, `SERVICE/NAME`. Which resources it may be about is decided
    /// elsewhere.
    pub fn may_call(&self, call: &str) -> bool {
        let has = |verb| self.rules.iter().any(|rule| rule.verbs.contains(&verb));
        match call.split_once('/') {
            Some((STATE, name)) => {
                Verb::of_call(name).is_some_and(|verb| verb.is_read() || has(verb))
            }
            _ if [APPLY, GET_TRY].contains(&call) => has(Verb::Create) || has(Verb::Update),
            Some((service, _)) if service.starts_with("grpc.") || service == TALOS => {
                least(call) == Role::Reader
            }
            _ => self.calls.contains(call) && !OF_ADMINS.contains(&call),
        }
    }
}

impl Rule {
    fn new(rule: &RoleRule) -> Result<Rule, String> {
        let verb = |name: &String| {
            let verb = Verb::ALL.into_iter().find(|verb| verb.name() == name);
            verb.ok_or_else(|| {
                let all = Verb::ALL.map(Verb::name).join("`, `");
                format!("`{}` is no verb; the verbs are `{all}`", name.escape_debug())
            })
        };
        let RoleRule { verbs, types, namespaces } = rule;
        if verbs.len() > MAX_VERBS || namespaces.len() > MAX_NAMESPACES {
            return Err(format!(
                "a rule has at most {MAX_VERBS} `verbs` and {MAX_NAMESPACES} `namespaces`"
            ));
        }
        let verbs = verbs.iter().map(verb).collect::<Result<BTreeSet<_>, _>>()?;
        if verbs.is_empty() || types.is_empty() || types.len() > MAX_TYPES {
            return Err(format!("a rule has `verbs`, and up to {MAX_TYPES} `types`"));
        }
        if let Some(other) = namespaces.iter().find(|one| ![SYSTEM, "plugins"].contains(&&***one)) {
            let other = other.escape_debug();
            return Err(format!("a rule is about `{SYSTEM}` or `plugins`, not `{other}`"));
        }
        let namespaces = match namespaces.is_empty() {
            true => BTreeSet::from([SYSTEM.to_owned()]),
            false => namespaces.iter().cloned().collect(),
        };
        for name in types.iter().filter(|name| *name != ALL) {
            let kind = Kind::new(SYSTEM, name).map_err(|error| error.to_string())?;
            let gives_rights = ClientType::of(&kind).is_some_and(ClientType::gives_rights);
            if gives_rights && !verbs.iter().all(|verb| verb.is_read()) {
                return Err(format!("an admin alone writes `{name}`, which gives rights"));
            }
        }
        Ok(Rule { verbs, types: types.iter().cloned().collect(), namespaces })
    }

    fn covers(&self, verb: Verb, kind: &Kind) -> bool {
        self.verbs.contains(&verb)
            && (self.types.contains(ALL) || self.types.contains(kind.type_name()))
            && self.namespaces.contains(kind.namespace())
    }
}

/// Refuses a name that no role can have, of the node or of an administrator.
pub fn check_reference(name: &str) -> Result<(), String> {
    if Role::named(name).is_some() { Ok(()) } else { check_name(name) }
}

/// A role's name is an organization in certificates, and stands in messages.
fn check_name(name: &str) -> Result<(), String> {
    if Role::named(name).is_some() {
        return Err(format!("nobody changes the role `{name}`"));
    }
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=63).contains(&name.len()) && name.chars().all(is_inner) {
        return Ok(());
    }
    Err(format!(
        "`{}` is no name of a role, which has up to 63 lower-case letters, digits and dashes",
        name.escape_debug()
    ))
}

/// The calls that a role may name: those of the node's own services.
static KNOWN_CALLS: LazyLock<BTreeSet<String>> = LazyLock::new(known_calls);

fn known_calls() -> BTreeSet<String> {
    let files = FileDescriptorSet::decode(DESCRIPTORS).expect("the compiler wrote them").file;
    let mut calls = BTreeSet::new();
    for file in files.iter().filter(|file| file.package() == "osbuild.v1") {
        for service in &file.service {
            let name = |call: &str| format!("osbuild.v1.{}/{call}", service.name());
            calls.extend(service.method.iter().map(|method| name(method.name())));
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(verbs: &[&str], types: &[&str], namespaces: &[&str]) -> RoleRule {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        RoleRule { verbs: owned(verbs), types: owned(types), namespaces: owned(namespaces) }
    }

    fn role(resources: Vec<RoleRule>, calls: &[&str]) -> Result<CustomRole, String> {
        let calls = calls.iter().map(|call| (*call).to_owned()).collect();
        let role = CustomRole::new("helpdesk", &RoleSpec { resources, calls })?;
        role.check_calls().map(|()| role)
    }

    fn kind(namespace: &str, type_name: &str) -> Kind {
        Kind::new(namespace, type_name).unwrap()
    }

    #[test]
    fn a_role_may_do_what_its_rules_name_and_nothing_else() {
        let rules = vec![
            rule(&["get", "list"], &["*"], &[]),
            rule(&["create", "update"], &["Resolvers.osbuild"], &[]),
            rule(&["destroy", "create"], &["*"], &["system"]),
            rule(&["watch"], &["Things.example"], &["plugins"]),
        ];
        let role = role(rules, &[]).unwrap();
        for (verb, namespace, type_name, may) in [
            (Verb::Get, "system", "Hostnames.osbuild", true),
            (Verb::List, "system", "PluginGrants.osbuild", true),
            (Verb::Watch, "system", "Hostnames.osbuild", false),
            (Verb::Get, "plugins", "Things.example", false),
            (Verb::Watch, "plugins", "Things.example", true),
            (Verb::Watch, "plugins", "Others.example", false),
            (Verb::Update, "system", "Resolvers.osbuild", true),
            (Verb::Update, "system", "Hostnames.osbuild", false),
            (Verb::Destroy, "system", "Hostnames.osbuild", true),
            (Verb::Create, "system", "Roles.osbuild", false),
            (Verb::Destroy, "system", "Revocations.osbuild", false),
            (Verb::Create, "system", "PluginGrants.osbuild", false),
            (Verb::Watch, "meta", "ResourceDefinitions.meta.cosi.dev", true),
            (Verb::Create, "meta", "Namespaces.meta.cosi.dev", false),
        ] {
            let kind = kind(namespace, type_name);
            assert_eq!(role.may(verb, &kind), may, "{verb:?} {kind}");
        }
        let nothing = CustomRole::default();
        let any = kind("system", "Hostnames.osbuild");
        assert!(!Verb::ALL.into_iter().any(|verb| nothing.may(verb, &any)));
    }

    #[test]
    fn a_role_makes_the_calls_that_it_names_and_those_of_its_verbs() {
        let writer = vec![rule(&["update"], &["Resolvers.osbuild"], &[])];
        let writer = role(writer, &["osbuild.v1.Node/Reboot"]).unwrap();
        let reader = role(vec![rule(&["get"], &["*"], &[])], &[]).unwrap();
        for (call, of_writer, of_reader) in [
            ("cosi.resource.State/Get", true, true),
            ("cosi.resource.State/Update", true, false),
            ("cosi.resource.State/TeardownAndDestroy", false, false),
            ("cosi.resource.State/Unknown", false, false),
            ("osbuild.v1.Configuration/Apply", true, false),
            ("osbuild.v1.Configuration/GetTry", true, false),
            ("osbuild.v1.Configuration/ConfirmTry", false, false),
            ("osbuild.v1.Configuration/RestoreGeneration", false, false),
            ("osbuild.v1.Node/Reboot", true, false),
            ("osbuild.v1.Node/Reset", false, false),
            ("grpc.health.v1.Health/Check", true, true),
            ("machine.MachineService/Version", true, true),
            ("machine.MachineService/Reset", false, false),
            ("grpc.unknown.Service/Call", false, false),
            ("", false, false),
        ] {
            let may = [writer.may_call(call), reader.may_call(call)];
            assert_eq!(may, [of_writer, of_reader], "{call}");
        }
    }

    #[test]
    fn a_role_with_mistakes_or_rights_of_an_admin_is_refused() {
        for (name, refusal) in
            [("admin", "nobody changes"), ("", "no name"), ("Help", "no name"), ("a b", "no name")]
        {
            let refused = CustomRole::new(name, &RoleSpec::default()).unwrap_err();
            assert!(refused.contains(refusal), "{refused}");
        }
        for (rule, refusal) in [
            (rule(&["read"], &["*"], &[]), "is no verb"),
            (rule(&[], &["*"], &[]), "has `verbs`"),
            (rule(&["get"], &[], &[]), "`types`"),
            (rule(&["get"], &["*"; 65], &[]), "`types`"),
            (rule(&["get"; 7], &["*"], &[]), "at most 6 `verbs`"),
            (rule(&["get"], &["*"], &["system"; 3]), "2 `namespaces`"),
            (rule(&["get"], &["*"], &["meta"]), "not `meta`"),
            (rule(&["get", "update"], &["Roles.osbuild"], &[]), "an admin alone"),
            (rule(&["create"], &["PluginGrants.osbuild"], &[]), "an admin alone"),
        ] {
            let refused = role(vec![rule], &[]).unwrap_err();
            assert!(refused.contains(refusal), "{refused}");
        }
        for call in ["osbuild.v1.Node/Explode", "osbuild.v1.Node", "cosi.resource.State/Get"] {
            assert!(role(vec![], &[call]).unwrap_err().contains("there is no call"), "{call}");
        }
        let [debug] = OF_ADMINS;
        assert!(role(vec![], &[debug]).unwrap_err().contains("an admin alone may call"));
        let spec = RoleSpec { resources: vec![], calls: vec![debug.to_owned()] };
        assert!(!CustomRole::new("helpdesk", &spec).unwrap().may_call(debug));
        assert!(role(vec![rule(&["get"], &["*"], &[]); 33], &[]).is_err());
    }

    proptest! {
        #[test]
        fn no_role_of_any_names_writes_what_gives_rights(
            name in "[a-z-]{0,8}",
            verbs in prop::collection::vec("(get|create|update|destroy|\\PC{0,2})", 0..4),
            types in prop::collection::vec("(\\*|Roles.osbuild|Hostnames.osbuild|\\PC{0,3})", 0..4),
            namespaces in prop::collection::vec("(system|plugins|\\PC{0,2})", 0..2),
        ) {
            let resources = vec![RoleRule { verbs, types, namespaces }];
            if let Ok(role) = CustomRole::new(&name, &RoleSpec { resources, calls: vec![] }) {
                for one in ClientType::all().filter(|one| one.gives_rights()) {
                    for verb in [Verb::Create, Verb::Update, Verb::Destroy] {
                        prop_assert!(!role.may(verb, &one.kind()));
                    }
                }
            }
        }
    }
}
