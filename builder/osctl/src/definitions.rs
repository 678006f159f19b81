//! The types of resources that a node has, which the node itself describes.

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::resource;
use osbuild_abi::osd;
use osbuild_cosi::resource::Resource;
use osbuild_cosi::resource::meta::ResourceDefinitionSpec;
use osbuild_cosi::resource::meta::resource_definition_spec::{PrintColumn, Sensitivity};
use prost::Message;

/// The namespace and the type of the descriptions.
const META: (&str, &str) = ("meta", "ResourceDefinitions.meta.cosi.dev");

/// A type.
#[derive(Clone, Debug, Default)]
pub struct Definition {
    /// The namespace of its resources.
    pub namespace: String,
    /// Its name: `Hostnames.osbuild`.
    pub type_name: String,
    /// Its singular: `Hostname`.
    pub singular: String,
    /// The writer of its resources: a role, [`osd::ITSELF`] or [`osd::PLUGIN`]. `None` for a node
    /// from before `osctl explain`, which does not report it.
    pub writer: Option<String>,
    /// Whether a mistake in one of its resources can keep clients from reaching the node.
    pub may_disconnect: bool,
    /// Shorter names.
    pub aliases: Vec<String>,
    /// Whether its resources may have secrets.
    pub is_sensitive: bool,
    /// The fields of its specs that the node never shows.
    pub secrets: Vec<String>,
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
    let definitions = resources(connection).await?.into_iter().map(definition);
    let mut definitions = definitions.collect::<Result<Vec<_>>>()?;
    definitions.sort_by(|one, other| one.type_name.cmp(&other.type_name));
    Ok(definitions)
}

/// The type that a resource describes.
fn definition(resource: Resource) -> Result<Definition> {
    let mut annotations = resource::metadata(&resource).annotations;
    let writer = annotations.remove(osd::WRITER);
    let may_disconnect = annotations.remove(osd::MAY_DISCONNECT).is_some_and(|it| it == "true");
    let secrets = annotations.remove(osd::SECRET_FIELDS).unwrap_or_default();
    let secrets = secrets.split(',').filter(|field| !field.is_empty()).map(str::to_owned);
    let secrets = secrets.collect();
    let proto = &resource.spec.unwrap_or_default().proto_spec;
    let spec = ResourceDefinitionSpec::decode(proto.as_slice()).map_err(|error| {
        Error::failed("the node describes its types unreadably").caused_by(&error)
    })?;
    // A value that this program does not know may be a secret one.
    let is_sensitive = spec.sensitivity != i32::from(Sensitivity::NonSensitive);
    Ok(Definition {
        namespace: spec.default_namespace,
        type_name: spec.resource_type,
        singular: spec.display_type,
        writer,
        may_disconnect,
        aliases: spec.all_aliases,
        is_sensitive,
        secrets,
        columns: spec.print_columns,
    })
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
    use osbuild_cosi::resource::Spec;

    fn described(type_name: &str, aliases: &[&str]) -> Definition {
        Definition {
            namespace: "system".into(),
            type_name: type_name.into(),
            aliases: aliases.iter().map(|&alias| alias.to_owned()).collect(),
            ..Definition::default()
        }
    }

    #[test]
    fn a_type_may_be_sensitive_also_in_a_way_that_is_not_known() {
        let is_sensitive = |sensitivity| {
            let spec = ResourceDefinitionSpec { sensitivity, ..ResourceDefinitionSpec::default() };
            let spec = Spec { proto_spec: spec.encode_to_vec(), ..Spec::default() };
            let resource = Resource { spec: Some(spec), ..Resource::default() };
            definition(resource).unwrap().is_sensitive
        };
        assert_eq!([0, 1, 7].map(is_sensitive), [false, true, true]);
    }

    #[test]
    fn a_type_has_several_names() {
        let known = || {
            vec![
                described("KernelParameters.osbuild", &["kernelparameter", "kp", "kps"]),
                described("KernelParameterStatuses.osbuild", &["kps"]),
                described("Things.osbuild", &["thing"]),
                described("Things.example", &["thing"]),
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
