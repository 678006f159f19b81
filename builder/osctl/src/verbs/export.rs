//! `osctl export`: everything that clients have written, as documents that `apply` reads.

use super::output::Output;
use crate::connection::Connection;
use crate::definitions::{self, Definition};
use crate::error::Result;
use crate::resource;
use osbuild_cosi::resource::Resource;

/// The phase of a resource that is not being torn down.
const RUNNING: &str = "running";

/// The resources of all types that clients write.
pub async fn run(connection: &Connection) -> Result<Output> {
    let mut documents = Vec::new();
    for definition in definitions::all(connection).await? {
        // A node that names no writers has no types that clients do not write, but for statuses.
        if definition.writer.is_none() || definition.is_read_only() {
            continue;
        }
        let Definition { namespace, type_name, .. } = &definition;
        for one in resource::list(connection, namespace, type_name).await? {
            if resource::metadata(&one).phase == RUNNING {
                documents.push(document(&definition, &one)?);
            }
        }
    }
    Ok(Output::Yaml(documents.join("---\n")))
}

/// A resource, with a comment about what no client reads.
fn document(definition: &Definition, resource: &Resource) -> Result<String> {
    let comment = match definition.secrets.is_empty() {
        true => String::new(),
        false => format!(
            "# {}: secret. `osctl apply` keeps what the node has; for another node, add it.\n",
            definition.secrets.join(", ")
        ),
    };
    Ok(comment + &resource::yaml(resource)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_cosi::resource::{Metadata, Spec};

    #[test]
    fn a_document_names_the_fields_that_are_not_shown() {
        let definition = Definition {
            secrets: vec!["password".into(), "token".into()],
            ..Definition::default()
        };
        let resource = Resource {
            metadata: Some(Metadata { id: "a".into(), ..Metadata::default() }),
            spec: Some(Spec { yaml_spec: "registry: a\n".into(), ..Spec::default() }),
        };
        let text = document(&definition, &resource).unwrap();
        assert!(text.starts_with("# password, token: secret."), "{text}");
        assert!(text.ends_with("spec:\n  registry: a\n"), "{text}");
    }
}
