//! The types that the node knows.

use crate::shared::SharedStore;
use osbuild_cosi::resource::meta::resource_definition_spec::{PrintColumn, Sensitivity};
use osbuild_cosi::resource::meta::{NamespaceSpec, ResourceDefinitionSpec};
use osbuild_failure::{Explain, Outcome};
use osbuild_resources::{
    Content, Definition, Key, Kind, Names, Owner, PrintColumn as Column, Sensitivity as Secrecy,
    Spec,
};
use prost::Message;
use serde::Serialize;
use std::time::SystemTime;
use tonic::Status;

/// The namespace of the resources that describe others, and their owner.
const META: &str = "meta";

/// The namespace of the settings of the node itself.
const SYSTEM: &str = "system";

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
    definitions: [Definition; 3],
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
            define(&KERNEL_PARAMETER_NAMES, SYSTEM, &[])?
                .with_columns(&[Column { name: "Value", json_path: "{.value}" }]),
        ];
        Ok(Catalog { definitions, accepts })
    }

    /// Refuses a write to resources of the kind.
    pub fn admit(&self, kind: &Kind) -> Result<(), Status> {
        if kind.namespace() == META {
            let message = "osd alone writes to the namespace `meta`";
            return Err(Status::permission_denied(message));
        }
        let is_known = self.definitions.iter().any(|definition| definition.kind == *kind);
        if is_known || self.accepts == Accepts::Any {
            Ok(())
        } else {
            Err(Status::invalid_argument(format!("there is no kind {kind}")))
        }
    }

    /// Creates the resources from which clients learn namespaces and types.
    pub fn publish(&self, store: &SharedStore) -> Outcome<()> {
        let [namespaces, types, _] = &self.definitions;
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
    fn nobody_writes_definitions() {
        for accepts in [Accepts::Known, Accepts::Any] {
            let catalog = Catalog::new(accepts).unwrap();
            let refused = catalog.admit(&kind(META, "Namespaces.meta.cosi.dev")).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        }
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
                "- name: Value",
                "  jsonPath: \"{.value}\"",
            ]
        );
    }
}
