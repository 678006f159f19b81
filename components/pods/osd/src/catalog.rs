//! The types that the node knows.

use crate::access::{Caller, Role};
use crate::settings::{NAMESPACE as SYSTEM, SettingType, TYPES};
use crate::shared::SharedStore;
use crate::wire;
use osbuild_cosi::resource::meta::resource_definition_spec::{PrintColumn, Sensitivity};
use osbuild_cosi::resource::meta::{NamespaceSpec, ResourceDefinitionSpec};
use osbuild_failure::{Explain, Outcome};
use osbuild_resources::{
    Content, Definition, Key, Kind, Names, Owner, PrintColumn as Column, Query,
    Sensitivity as Secrecy, Spec, Store,
};
use prost::Message;
use serde::Serialize;
use std::time::SystemTime;
use tonic::Status;

/// The namespace of the resources that describe others, and their owner.
const META: &str = "meta";

/// Namespaces, each with its purpose.
const NAMESPACES: [(&str, &str); 2] =
    [(META, "Namespaces and types of resources."), (SYSTEM, "Settings of the node itself.")];

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

/// The known types, and what else is accepted.
pub struct Catalog {
    namespaces: Definition,
    types: Definition,
    /// The types of settings and of their statuses.
    settings: Vec<Definition>,
    accepts: Accepts,
}

impl Catalog {
    /// The types of this release: namespaces, definitions themselves, and settings.
    pub fn new(accepts: Accepts) -> Outcome<Catalog> {
        let define = |names, namespace, aliases: &[&str]| {
            Definition::new(names, namespace, aliases).explain("define a type")
        };
        let mut settings = Vec::new();
        for SettingType { names, columns, status_names, status_columns, .. } in &TYPES {
            settings.push(define(names, SYSTEM, &[])?.with_columns(columns));
            settings.push(define(status_names, SYSTEM, &[])?.with_columns(status_columns));
        }
        Ok(Catalog {
            namespaces: define(&NAMESPACE_NAMES, META, &["ns"])?,
            types: define(&DEFINITION_NAMES, META, &["api-resources"])?
                .with_columns(&[Column { name: "Aliases", json_path: "{.aliases[:]}" }]),
            settings,
            accepts,
        })
    }

    /// Refuses a write to resources of the kind.
    pub fn admit(&self, caller: &Caller, kind: &Kind) -> Result<(), Status> {
        caller.require(writer(kind), format_args!("a change of {kind}"))?;
        if !is_kept(kind) {
            return Err(Status::permission_denied(format!("osd alone writes resources of {kind}")));
        }
        if SettingType::of(kind).is_some() || self.accepts == Accepts::Any {
            Ok(())
        } else {
            Err(Status::invalid_argument(format!("there is no kind {kind}")))
        }
    }

    /// Checks what a client wants to write, and adds the form of its spec that is missing.
    pub fn check(content: &mut Content, store: &Store) -> Result<(), Status> {
        let kind = content.key.kind();
        let Some(SettingType { read, write, subject, .. }) = SettingType::of(kind) else {
            return Ok(());
        };
        let settings = read(&content.spec).map_err(wire::invalid)?;
        let subject_of_this = subject(&settings);
        let query = Query::default();
        let other = store.list(kind, &query).find(|other| {
            let subject = read(&other.content.spec).map(|settings| subject(&settings));
            other.content.key != content.key && subject.as_ref() == Ok(&subject_of_this)
        });
        if let Some(other) = other {
            let message = format!("{} sets {subject_of_this} already", other.content.key);
            return Err(Status::invalid_argument(message));
        }
        content.spec = write(&settings);
        Ok(())
    }

    /// Creates the resources from which clients learn namespaces and types.
    pub fn publish(&self, store: &SharedStore) -> Outcome<()> {
        for (name, description) in NAMESPACES {
            let spec = NamespaceSpec { description: description.to_owned() };
            create(store, &self.namespaces, name, &spec, &Namespace { description })?;
        }
        for definition in [&self.namespaces, &self.types].into_iter().chain(&self.settings) {
            let yaml = Yaml::of(definition);
            create(store, &self.types, &definition.id(), &message(definition), &yaml)?;
        }
        Ok(())
    }
}

/// Whether clients write resources of the kind, which are kept over restarts. The others are those
/// that this program writes itself at each start.
pub fn is_kept(kind: &Kind) -> bool {
    kind.namespace() != META && !TYPES.iter().any(|one| one.status_kind() == *kind)
}

/// The least role that may write resources of the kind.
pub fn writer(kind: &Kind) -> Role {
    SettingType::of(kind).map_or(Role::Admin, |setting| setting.writer)
}

fn create(
    store: &SharedStore,
    definition: &Definition,
    id: &str,
    message: &impl Message,
    yaml: &impl Serialize,
) -> Outcome<()> {
    let key = Key::new(definition.kind.clone(), id).explain("name a resource")?;
    let yaml = serde_saphyr::to_string(yaml).explain("write YAML")?;
    let content = Content::new(key, Spec { proto: message.encode_to_vec(), yaml });
    let owner = Owner(META.to_owned());
    let created =
        store.write(&definition.kind, |store| store.create(content, owner, SystemTime::now()));
    created.explain("create a resource").map(drop)
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
    print_columns: Vec<YamlColumn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sensitivity: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct YamlColumn {
    name: &'static str,
    json_path: &'static str,
}

impl<'a> Yaml<'a> {
    fn of(definition: &'a Definition) -> Yaml<'a> {
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
        let [known, any] = [Accepts::Known, Accepts::Any].map(|it| Catalog::new(it).unwrap());
        assert!(known.admit(&Caller::local(), &kind(SYSTEM, "KernelParameters.osbuild")).is_ok());
        for kind in [kind("default", "os/path"), kind("default", "KernelParameters.osbuild")] {
            let refused = known.admit(&Caller::local(), &kind).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument);
            assert!(any.admit(&Caller::local(), &kind).is_ok());
        }
    }

    #[test]
    fn nobody_writes_definitions_and_statuses() {
        for accepts in [Accepts::Known, Accepts::Any] {
            let catalog = Catalog::new(accepts).unwrap();
            for kind in
                [kind(META, "Namespaces.meta.cosi.dev"), kind(SYSTEM, "HostnameStatuses.osbuild")]
            {
                let refused = catalog.admit(&Caller::local(), &kind).unwrap_err();
                assert_eq!(refused.code(), tonic::Code::PermissionDenied);
            }
        }
    }

    #[test]
    fn no_two_resources_set_the_same() {
        let content = |type_name: &str, id: &str, yaml: &str| {
            let key = Key::new(kind(SYSTEM, &format!("{type_name}.osbuild")), id).unwrap();
            Content::new(key, Spec { proto: Vec::new(), yaml: yaml.to_owned() })
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
    fn a_definition_is_published_with_the_names_that_clients_read() {
        let definitions = Catalog::new(Accepts::Known).unwrap().settings;
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
