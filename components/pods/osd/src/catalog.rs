//! The types that the node knows.

use crate::access::{Caller, Role, Verb};
use crate::client_type::{Checked, ClientType};
use crate::observed;
use crate::plugins::{CONTROLLER_STATUSES, PLUGINS, STATUS_COLUMNS, status};
use crate::settings::{NAMESPACE as SYSTEM, TYPES};
use crate::shared::SharedStore;
use crate::wire;
use osbuild_abi::osd;
use osbuild_cosi::resource::meta::resource_definition_spec::{PrintColumn, Sensitivity};
use osbuild_cosi::resource::meta::{NamespaceSpec, ResourceDefinitionSpec};
use osbuild_failure::{Explain, Outcome};
use osbuild_resources::{
    Content, Definition, Error, Expected, Key, Kind, Names, Owner, PrintColumn as Column, Query,
    Resource, Sensitivity as Secrecy, Spec, Store,
};
use prost::Message;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;
use tonic::Status;

/// The namespace of the resources that describe others, and their owner.
const META: &str = "meta";

/// Namespaces, each with its purpose.
const NAMESPACES: [(&str, &str); 3] = [
    (META, "Namespaces and types of resources."),
    (SYSTEM, "Settings and state of the node itself."),
    (PLUGINS, "What plugins write."),
];

const NAMESPACE_NAMES: Names =
    Names { plural: "Namespaces", singular: "Namespace", suffix: "meta.cosi.dev" };

const DEFINITION_NAMES: Names = Names {
    plural: "ResourceDefinitions",
    singular: "ResourceDefinition",
    suffix: "meta.cosi.dev",
};

/// Which types clients may write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    /// Those that have a definition, in the namespace that it names.
    Known,
    /// All but those of this program itself.
    Any,
}

/// Checks the writes of clients to resources.
pub struct Catalog {
    accepts: Accepts,
}

/// The types of this release: namespaces, definitions themselves, and those of the node.
pub fn definitions() -> Outcome<Vec<Definition<'static>>> {
    let define = |names: &Names<'static>, namespace, aliases: &[&str]| {
        Definition::new(names, namespace, aliases).explain("define a type")
    };
    let aliases = [Column { name: "Aliases", json_path: "{.aliases[:]}" }];
    let mut definitions = vec![
        define(&NAMESPACE_NAMES, META, &["ns"])?,
        define(&DEFINITION_NAMES, META, &["api-resources"])?.with_columns(&aliases),
        define(&CONTROLLER_STATUSES, SYSTEM, &[])?.with_columns(STATUS_COLUMNS),
    ];
    for one in ClientType::all() {
        let definition = define(&one.names(), SYSTEM, &[])?.with_columns(one.columns());
        let sensitivity = match one.secrets().is_empty() {
            true => Secrecy::NonSensitive,
            false => Secrecy::Sensitive,
        };
        definitions.push(Definition { sensitivity, ..definition });
    }
    for one in &TYPES {
        let definition = define(&one.status_names, SYSTEM, &[])?;
        definitions.push(definition.with_columns(one.status_columns));
    }
    for one in &observed::TYPES {
        definitions.push(define(&one.names, SYSTEM, &[])?.with_columns(one.columns));
    }
    Ok(definitions)
}

impl Catalog {
    /// A catalog that accepts these types.
    pub fn new(accepts: Accepts) -> Catalog {
        Catalog { accepts }
    }

    /// Refuses a write to resources of the kind.
    pub fn admit(&self, caller: &Caller, verb: Verb, kind: &Kind) -> Result<(), Status> {
        caller.may(verb, kind)?;
        if !is_kept(kind) {
            let writer = if kind.namespace() == PLUGINS { "a plugin" } else { "osd" };
            let message = format!("{writer} alone writes resources of {kind}");
            return Err(Status::permission_denied(message));
        }
        if ClientType::of(kind).is_some() || self.accepts == Accepts::Any {
            Ok(())
        } else {
            Err(Status::invalid_argument(format!("there is no kind {kind}")))
        }
    }

    /// Checks what a client wants to write, and adds the form of its spec that is missing.
    pub fn check(content: &mut Content, store: &Store) -> Result<(), Status> {
        let kind = content.key.kind();
        let Some(one) = ClientType::of(kind) else { return Ok(()) };
        let stored = store.get(&content.key).ok();
        let stored = stored.as_ref().map(|stored| &stored.content.spec);
        let checked = one.check_written(content.key.id(), &content.spec, stored);
        let checked = checked.map_err(wire::invalid)?;
        let Checked { spec, subject } = checked;
        let query = Query::default();
        let others = store.list(kind, &query).filter(|other| other.content.key != content.key);
        let others: Vec<_> = others.collect();
        if others.len() >= one.max_count() {
            let message = format!("there are at most {} resources of {kind}", one.max_count());
            return Err(Status::resource_exhausted(message));
        }
        if let Some(subject) = subject {
            let sets_it = |other: &&Arc<Resource>| {
                let other = one.check(other.content.key.id(), &other.content.spec);
                other.is_ok_and(|other| other.subject.as_ref() == Some(&subject))
            };
            if let Some(other) = others.iter().find(sets_it) {
                let message = format!("{} sets {subject} already", other.content.key);
                return Err(Status::invalid_argument(message));
            }
        }
        let specs = others.iter().map(|other| &other.content.spec).chain([&spec]);
        if let Some(reason) = one.conflict(specs) {
            return Err(Status::invalid_argument(reason));
        }
        content.spec = spec;
        Ok(())
    }
}

/// Creates the resources from which clients learn namespaces and types.
pub fn publish(store: &SharedStore) -> Outcome<()> {
    let kind = kind_of(&NAMESPACE_NAMES)?;
    for (name, description) in NAMESPACES {
        let message = NamespaceSpec { description: description.to_owned() };
        let spec = spec(&message, &Namespace { description });
        write(store, &kind, name, spec, BTreeMap::new()).explain("create a namespace")?;
    }
    for definition in &definitions()? {
        define(store, definition).explain("create a definition")?;
    }
    Ok(())
}

/// Publishes a definition, in the place of one of the same type.
pub fn define(store: &SharedStore, definition: &Definition) -> Result<(), Error> {
    let Ok(kind) = kind_of(&DEFINITION_NAMES) else { return Ok(()) };
    let spec = spec(&message(definition), &Yaml::of(definition));
    write(store, &kind, &definition.id(), spec, annotations(&definition.kind))
}

/// The annotations of a type's definition: the writer of its resources, whether a mistake in one of
/// them can keep clients from reaching the node, and its secret fields.
fn annotations(kind: &Kind) -> BTreeMap<String, String> {
    let writer = (osd::WRITER, writer_name(kind));
    let may_disconnect = ClientType::of(kind).is_some_and(ClientType::may_disconnect);
    let tried = may_disconnect.then_some((osd::MAY_DISCONNECT, "true"));
    let secrets = ClientType::of(kind).map(ClientType::secrets).unwrap_or_default().join(",");
    let secrets = (!secrets.is_empty()).then_some((osd::SECRET_FIELDS, secrets.as_str()));
    let all = [writer].into_iter().chain(tried).chain(secrets);
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Takes the definition of a type back.
pub fn undefine(store: &SharedStore, type_name: &str) -> Result<(), Error> {
    let key = kind_of(&DEFINITION_NAMES).map(|kind| Key::new(kind, &type_name.to_lowercase()));
    let Ok(Ok(key)) = key else { return Ok(()) };
    let owner = Owner(META.to_owned());
    store.write_beside(key.kind(), |store| store.destroy(&key, &owner))
}

fn kind_of(Names { plural, suffix, .. }: &Names) -> Outcome<Kind> {
    Kind::new(META, &format!("{plural}.{suffix}")).explain("name a type")
}

/// Whether clients write resources of the kind, which are kept over restarts. The others are those
/// that this program writes itself at each start.
pub fn is_kept(kind: &Kind) -> bool {
    static OWN: LazyLock<BTreeSet<Kind>> = LazyLock::new(|| {
        let statuses = TYPES.iter().map(|one| one.status_kind());
        let observed = observed::TYPES.iter().map(|one| one.kind());
        statuses.chain(observed).chain([status::kind()]).collect()
    });
    ![META, PLUGINS].contains(&kind.namespace()) && !OWN.contains(kind)
}

/// The least role that may write resources of the kind.
pub fn writer(kind: &Kind) -> Role {
    ClientType::of(kind).map_or(Role::Admin, ClientType::writer)
}

/// The name of the writer of the kind's resources: the least role that a client needs, or the
/// program that alone writes them (`plugin`, `osd`).
pub fn writer_name(kind: &Kind) -> &'static str {
    match is_kept(kind) {
        true => writer(kind).name(),
        false if kind.namespace() == PLUGINS => osd::PLUGIN,
        false => osd::ITSELF,
    }
}

fn write(
    store: &SharedStore,
    kind: &Kind,
    id: &str,
    spec: Spec,
    annotations: BTreeMap<String, String>,
) -> Result<(), Error> {
    let Ok(key) = Key::new(kind.clone(), id) else { return Ok(()) };
    let (owner, now) = (Owner(META.to_owned()), SystemTime::now());
    store.write_beside(kind, |store| match store.get(&key) {
        Err(_) => {
            let content = Content { annotations, ..Content::new(key, spec) };
            store.create(content, owner, now).map(drop)
        }
        Ok(found) if found.content.spec == spec => Ok(()),
        Ok(found) => {
            let content = Content { spec, ..found.content.clone() };
            let expected = Expected { version: Some(found.version), owner, phase: None };
            store.update(content, expected, now).map(drop)
        }
    })
}

fn spec(message: &impl Message, yaml: &impl Serialize) -> Spec {
    let yaml = serde_saphyr::to_string(yaml).expect("names and lists of names are YAML");
    Spec { proto: message.encode_to_vec(), yaml, ..Spec::default() }
}

fn message(definition: &Definition) -> ResourceDefinitionSpec {
    let columns = definition.print_columns.iter();
    ResourceDefinitionSpec {
        resource_type: definition.kind.type_name().to_owned(),
        display_type: definition.display_type.to_owned(),
        default_namespace: definition.kind.namespace().to_owned(),
        aliases: definition.aliases.clone(),
        all_aliases: definition.all_aliases.clone(),
        print_columns: columns
            .map(|column| PrintColumn {
                name: column.name.to_owned(),
                json_path: column.json_path.to_owned(),
            })
            .collect(),
        sensitivity: match definition.sensitivity {
            Secrecy::NonSensitive => Sensitivity::NonSensitive,
            Secrecy::Sensitive => Sensitivity::Sensitive,
        }
        .into(),
    }
}

/// The YAML of a namespace's spec.
#[derive(Serialize)]
struct Namespace {
    description: &'static str,
}

/// The YAML of a definition's spec, with the names that COSI's clients read.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Yaml<'a> {
    r#type: &'a str,
    display_type: &'a str,
    default_namespace: &'a str,
    aliases: &'a [String],
    all_aliases: &'a [String],
    print_columns: Vec<YamlColumn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct YamlColumn<'a> {
    name: &'a str,
    json_path: &'a str,
}

impl<'a> Yaml<'a> {
    fn of(definition: &'a Definition<'a>) -> Yaml<'a> {
        let columns = definition.print_columns.iter();
        Yaml {
            r#type: definition.kind.type_name(),
            display_type: definition.display_type,
            default_namespace: definition.kind.namespace(),
            aliases: &definition.aliases,
            all_aliases: &definition.all_aliases,
            print_columns: columns
                .map(|column| YamlColumn { name: column.name, json_path: column.json_path })
                .collect(),
            sensitivity: (definition.sensitivity == Secrecy::Sensitive).then_some("sensitive"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(namespace: &str, type_name: &str) -> Kind {
        Kind::new(namespace, type_name).unwrap()
    }

    #[test]
    fn only_known_types_are_accepted_unless_any_is() {
        let [known, any] = [Accepts::Known, Accepts::Any].map(Catalog::new);
        assert!(
            known
                .admit(&Caller::local(), Verb::Create, &kind(SYSTEM, "KernelParameters.osbuild"))
                .is_ok()
        );
        for kind in [kind("default", "os/path"), kind("default", "KernelParameters.osbuild")] {
            let refused = known.admit(&Caller::local(), Verb::Create, &kind).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument);
            assert!(any.admit(&Caller::local(), Verb::Create, &kind).is_ok());
        }
    }

    #[test]
    fn nobody_writes_definitions_and_statuses() {
        for accepts in [Accepts::Known, Accepts::Any] {
            let catalog = Catalog::new(accepts);
            for kind in [
                kind(META, "Namespaces.meta.cosi.dev"),
                kind(SYSTEM, "HostnameStatuses.osbuild"),
                kind(SYSTEM, "ControllerStatuses.osbuild"),
                kind(SYSTEM, "AddressStatuses.osbuild"),
                kind(SYSTEM, "KernelInfos.osbuild"),
                kind(PLUGINS, "Things.example"),
            ] {
                let refused = catalog.admit(&Caller::local(), Verb::Create, &kind).unwrap_err();
                assert_eq!(refused.code(), tonic::Code::PermissionDenied);
            }
        }
    }

    #[test]
    fn no_two_resources_set_the_same() {
        let content = |type_name: &str, id: &str, yaml: &str| {
            let key = Key::new(kind(SYSTEM, &format!("{type_name}.osbuild")), id).unwrap();
            Content::new(key, Spec { yaml: yaml.to_owned(), ..Spec::default() })
        };
        let parameter = |id: &str, key: &str| {
            content("KernelParameters", id, &format!("key: {key}\nvalue: 1\n"))
        };
        let shared = SharedStore::new().unwrap();
        let check = |mut content: Content| {
            shared.read(|store| Catalog::check(&mut content, store)).map(|()| content)
        };
        let create = |content| {
            let first = check(content).unwrap();
            assert!(!first.spec.proto.is_empty());
            let kind = first.key.kind().clone();
            let create =
                |store: &mut Store| store.create(first, Owner::default(), SystemTime::now());
            shared.write(&kind, create).unwrap();
        };
        create(parameter("a", "vm.swappiness"));
        create(content("Resolvers", "a", "search: local"));
        for content in [
            parameter("a", "vm.swappiness"),
            parameter("b", "vm.max_map_count"),
            content("Resolvers", "a", "nameserver: 10.0.2.3"),
            content("Hostnames", "a", "hostname: edge-7"),
        ] {
            assert!(check(content).is_ok());
        }
        for content in
            [parameter("b", "vm.swappiness"), content("Resolvers", "b", "nameserver: 10.0.2.3")]
        {
            let refused = check(content).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        }
    }

    #[test]
    fn a_definition_names_who_writes_the_type() {
        for (kind, writer) in [
            (kind(SYSTEM, "Resolvers.osbuild"), "operator"),
            (kind(SYSTEM, "KernelParameters.osbuild"), "admin"),
            (kind(SYSTEM, "PluginGrants.osbuild"), "admin"),
            (kind(SYSTEM, "ResolverStatuses.osbuild"), "osd"),
            (kind(META, "Namespaces.meta.cosi.dev"), "osd"),
            (kind(PLUGINS, "Things.example"), "plugin"),
        ] {
            assert_eq!(writer_name(&kind), writer, "{kind}");
        }
        let store = SharedStore::new().unwrap();
        publish(&store).unwrap();
        let key = Key::new(kind_of(&DEFINITION_NAMES).unwrap(), "resolvers.osbuild").unwrap();
        let annotations = store.read(|store| store.get(&key).unwrap().content.annotations.clone());
        assert_eq!(annotations["osbuild/writer"], "operator");
    }

    #[test]
    fn a_definition_is_published_with_the_names_that_clients_read() {
        let definitions = definitions().unwrap();
        let is_it = |one: &&Definition| one.display_type == "KernelParameter";
        let definition = definitions.iter().find(is_it).unwrap();
        let yaml = serde_saphyr::to_string(&Yaml::of(definition)).unwrap();
        assert_eq!(
            yaml.lines().collect::<Vec<_>>(),
            [
                "type: KernelParameters.osbuild",
                "displayType: KernelParameter",
                "defaultNamespace: system",
                "aliases:",
                "- kernelparameter",
                "- kp",
                "- kps",
                "allAliases:",
                "- kernelparameters",
                "- kernelparameter",
                "- kp",
                "- kps",
                "printColumns:",
                "- name: Key",
                "  jsonPath: \"{.key}\"",
                "- name: Value",
                "  jsonPath: \"{.value}\"",
            ]
        );
    }
}
