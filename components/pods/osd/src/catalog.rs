//! The types that the node knows.

use crate::kernel_parameters;
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

/// The namespace of the settings of the node itself.
pub const SYSTEM: &str = "system";

/// The type of kernel parameters, and that of their statuses.
pub const KERNEL_PARAMETERS: &str = "KernelParameters.osbuild";
pub const KERNEL_PARAMETER_STATUSES: &str = "KernelParameterStatuses.osbuild";

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

const KERNEL_PARAMETER_NAMES: Names =
    Names { plural: "KernelParameters", singular: "KernelParameter", suffix: "osbuild" };

const KERNEL_PARAMETER_STATUS_NAMES: Names = Names {
    plural: "KernelParameterStatuses",
    singular: "KernelParameterStatus",
    suffix: "osbuild",
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
    definitions: [Definition; 4],
    accepts: Accepts,
}

impl Catalog {
    /// The types of this release: namespaces, definitions themselves, and settings.
    pub fn new(accepts: Accepts) -> Outcome<Catalog> {
        let define = |names, namespace, aliases: &[&str]| {
            Definition::new(names, namespace, aliases).explain("define a type")
        };
        let definitions = [
            define(&NAMESPACE_NAMES, META, &["ns"])?,
            define(&DEFINITION_NAMES, META, &["api-resources"])?
                .with_columns(&[Column { name: "Aliases", json_path: "{.aliases[:]}" }]),
            define(&KERNEL_PARAMETER_NAMES, SYSTEM, &[])?.with_columns(&[KEY, VALUE]),
            define(&KERNEL_PARAMETER_STATUS_NAMES, SYSTEM, &[])?.with_columns(&[
                KEY,
                VALUE,
                Column { name: "Current", json_path: "{.current}" },
                Column { name: "Error", json_path: "{.error}" },
            ]),
        ];
        Ok(Catalog { definitions, accepts })
    }

    /// Refuses a write to resources of the kind.
    pub fn admit(&self, kind: &Kind) -> Result<(), Status> {
        if !is_kept(kind) {
            return Err(Status::permission_denied(format!("osd alone writes resources of {kind}")));
        }
        let is_known = self.definitions.iter().any(|definition| definition.kind == *kind);
        if is_known || self.accepts == Accepts::Any {
            Ok(())
        } else {
            Err(Status::invalid_argument(format!("there is no kind {kind}")))
        }
    }

    /// Checks what a client wants to write, and adds the form of its spec that is missing.
    pub fn check(content: &mut Content, store: &Store) -> Result<(), Status> {
        let kind = content.key.kind();
        if (kind.namespace(), kind.type_name()) != (SYSTEM, KERNEL_PARAMETERS) {
            return Ok(());
        }
        let parameter = kernel_parameters::read(&content.spec).map_err(wire::invalid)?;
        let query = Query::default();
        let other = store.list(kind, &query).find(|other| {
            let other_parameter = kernel_parameters::read(&other.content.spec);
            other.content.key != content.key
                && other_parameter.is_ok_and(|other| other.key == parameter.key)
        });
        if let Some(other) = other {
            let (key, other) = (&parameter.key, &other.content.key);
            let message = format!("`{key}` is the parameter of {other} already");
            return Err(Status::invalid_argument(message));
        }
        content.spec = kernel_parameters::write(&parameter).map_err(wire::invalid)?;
        Ok(())
    }

    /// Creates the resources from which clients learn namespaces and types.
    pub fn publish(&self, store: &SharedStore) -> Outcome<()> {
        let [namespaces, types, ..] = &self.definitions;
        for (name, description) in NAMESPACES {
            let spec = NamespaceSpec { description: description.to_owned() };
            create(store, namespaces, name, &spec, &Namespace { description })?;
        }
        for definition in &self.definitions {
            let yaml = Yaml::of(definition);
            create(store, types, &definition.id(), &message(definition), &yaml)?;
        }
        Ok(())
    }
}

/// The columns of both types of kernel parameters.
const KEY: Column = Column { name: "Key", json_path: "{.key}" };
const VALUE: Column = Column { name: "Value", json_path: "{.value}" };

/// Whether clients write resources of the kind, which are kept over restarts. The others are those
/// that this program writes itself at each start.
pub fn is_kept(kind: &Kind) -> bool {
    kind.namespace() != META && kind.type_name() != KERNEL_PARAMETER_STATUSES
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
        assert!(known.admit(&kind(SYSTEM, "KernelParameters.osbuild")).is_ok());
        for kind in [kind("default", "os/path"), kind("default", "KernelParameters.osbuild")] {
            let refused = known.admit(&kind).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument);
            assert!(any.admit(&kind).is_ok());
        }
    }

    #[test]
    fn nobody_writes_definitions_and_statuses() {
        for accepts in [Accepts::Known, Accepts::Any] {
            let catalog = Catalog::new(accepts).unwrap();
            for kind in
                [kind(META, "Namespaces.meta.cosi.dev"), kind(SYSTEM, KERNEL_PARAMETER_STATUSES)]
            {
                let refused = catalog.admit(&kind).unwrap_err();
                assert_eq!(refused.code(), tonic::Code::PermissionDenied);
            }
        }
    }

    #[test]
    fn no_two_resources_are_about_the_same_kernel_parameter() {
        let content = |id: &str, key: &str| {
            let key_of = Key::new(kind(SYSTEM, KERNEL_PARAMETERS), id).unwrap();
            let yaml = format!("key: {key}\nvalue: 1\n");
            Content::new(key_of, Spec { proto: Vec::new(), yaml })
        };
        let shared = SharedStore::new().unwrap();
        let check = |mut content: Content| {
            shared.read(|store| Catalog::check(&mut content, store)).map(|()| content)
        };
        let first = check(content("a", "vm.swappiness")).unwrap();
        assert!(!first.spec.proto.is_empty());
        let kind = first.key.kind().clone();
        let create = |store: &mut Store| store.create(first, Owner::default(), SystemTime::now());
        shared.write(&kind, create).unwrap();
        assert!(check(content("a", "vm.swappiness")).is_ok());
        assert!(check(content("b", "vm.max_map_count")).is_ok());
        let refused = check(content("b", "vm.swappiness")).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    }

    #[test]
    fn a_definition_is_published_with_the_names_that_clients_read() {
        let definitions = Catalog::new(Accepts::Known).unwrap().definitions;
        let yaml = serde_saphyr::to_string(&Yaml::of(&definitions[2])).unwrap();
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
