//! The types of resources that a node has, which the node itself describes.

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::resource;
use osbuild_abi::osd;
use osbuild_cosi::resource::Resource;
use osbuild_cosi::resource::meta::ResourceDefinitionSpec;
use osbuild_cosi::resource::meta::resource_definition_spec::PrintColumn;
use prost::Message;

/// The namespace and the type of the descriptions.
const META: (&str, &str) = ("meta", "ResourceDefinitions.meta.cosi.dev");

/// A type.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The namespace of its resources.
    pub namespace: String,
    /// Its name: `Hostnames.osbuild`.
    pub type_name: String,
    /// Its singular: `Hostname`.
    pub singular: String,
    /// Who writes its resources: a role, [`osd::ITSELF`] or [`osd::PLUGIN`]. A node from before
    /// `osctl explain` does not say.
    pub writer: Option<String>,
    /// Shorter names.
    pub aliases: Vec<String>,
    /// The columns of a table of its resources, after those that all have.
    pub columns: Vec<PrintColumn>,
}

impl Definition {
    /// Whether the user may mean this type: its name with or without what follows the dot, or an
    /// alias, in any case.
    fn is_named(&self, name: &str) -> bool {
        self.names().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether no client writes its resources.
    pub fn is_read_only(&self) -> bool {
        self.writer.as_deref().is_some_and(|writer| [osd::ITSELF, osd::PLUGIN].contains(&writer))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let plural = self.type_name.split('.').next();
        [self.type_name.as_str()].into_iter().chain(plural).chain(self.aliases())
    }

    fn aliases(&self) -> impl Iterator<Item = &str> {
        self.aliases.iter().map(String::as_str)
    }
}

/// The descriptions as they are.
pub async fn resources(connection: &Connection) -> Result<Vec<Resource>> {
    let (namespace, type_name) = META;
    resource::list(connection, namespace, type_name).await
}

/// All types of the node, in order of name.
pub async fn all(connection: &Connection) -> Result<Vec<Definition>> {
    let mut definitions = Vec::new();
    for resource in resources(connection).await? {
        let writer = resource::metadata(&resource).annotations.remove(osd::WRITER);
        let proto = &resource.spec.unwrap_or_default().proto_spec;
        let spec = ResourceDefinitionSpec::decode(proto.as_slice()).map_err(|error| {
            Error::failed("the node describes its types unreadably").caused_by(&error)
        })?;
        definitions.push(Definition {
            namespace: spec.default_namespace,
            type_name: spec.resource_type,
            singular: spec.display_type,
            writer,
            aliases: spec.all_aliases,
            columns: spec.print_columns,
        });
    }
    definitions.sort_by(|one, other| one.type_name.cmp(&other.type_name));
    Ok(definitions)
}

/// The type that the user means.
pub async fn named(connection: &Connection, name: &str) -> Result<Definition> {
    choose(all(connection).await?, name)
}

/// The type among these that the user means.
pub fn choose(definitions: Vec<Definition>, name: &str) -> Result<Definition> {
    let mut found: Vec<&Definition> =
        definitions.iter().filter(|definition| definition.is_named(name)).collect();
    if found.len() > 1 {
        let names: Vec<_> = found.iter().map(|one| one.type_name.as_str()).collect();
        return Err(Error::usage(format!("`{name}` may be {}", names.join(" or "))));
    }
    if let Some(found) = found.pop() {
        return Ok(found.clone());
    }
    let error = Error::usage(format!("the node has no type `{name}`"));
    Err(match nearest(definitions.iter().flat_map(Definition::names), name) {
        Some(known) => error.hint(format!("did you mean `{known}`?")),
        None => error.hint("`osctl get` lists the types"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(type_name: &str, aliases: &[&str]) -> Definition {
        Definition {
            namespace: "system".into(),
            type_name: type_name.into(),
            singular: String::new(),
            writer: None,
            aliases: aliases.iter().map(|&alias| alias.to_owned()).collect(),
            columns: Vec::new(),
        }
    }

    #[test]
    fn a_type_has_several_names() {
        let known = || {
            vec![
                definition("KernelParameters.osbuild", &["kernelparameter", "kp", "kps"]),
                definition("KernelParameterStatuses.osbuild", &["kps"]),
                definition("Things.osbuild", &["thing"]),
                definition("Things.example", &["thing"]),
            ]
        };
        for name in ["KernelParameters.osbuild", "kernelparameters", "KernelParameter", "kp"] {
            assert_eq!(choose(known(), name).unwrap().type_name, "KernelParameters.osbuild");
        }
        assert_eq!(choose(known(), "things.example").unwrap().type_name, "Things.example");
        let text = |name| choose(known(), name).unwrap_err().to_string();
        let both = "may be KernelParameters.osbuild or KernelParameterStatuses.osbuild";
        assert!(text("kps").contains(both));
        assert!(text("thing").contains("may be Things.osbuild or Things.example"));
        assert!(text("kernelparamter").contains("did you mean `kernelparameter`?"));
        assert!(text("deployments").contains("`osctl get` lists the types"));
    }
}
