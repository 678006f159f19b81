//! `osctl get`: resources, and the types that the node has.

use super::output::Output;
use super::{lines_of, print_part};
use crate::connection::Connection;
use crate::definitions::{self, Definition};
use crate::error::{Error, Result, printable};
use crate::form::Form;
use crate::resource;
use crate::table::{self, Table, Width};
use osbuild_cosi::resource::{Event, EventType, Resource, WatchOptions, WatchRequest};
use serde_json::json;

/// The version of the API whose clients know the events `BOOTSTRAPPED` and `ERRORED`.
const API_VERSION: i32 = 1;

/// The types of the node.
pub async fn types(connection: &Connection, form: &Form) -> Result<Output> {
    let definitions = definitions::all(connection).await?;
    let row = |one: Definition| {
        let mut cells = vec![one.type_name, one.namespace, one.aliases.join(",")];
        cells.extend(matches!(form, Form::Wide).then(|| one.writer.unwrap_or_default()));
        cells.iter().map(|cell| printable(cell)).collect()
    };
    match form {
        Form::Name => {
            let names = definitions.iter().map(|one| printable(&one.type_name));
            Ok(Output::Lines(names.collect()))
        }
        Form::Table | Form::Wide => {
            let mut titles = vec!["TYPE", "NAMESPACE", "ALIASES"];
            titles.extend(matches!(form, Form::Wide).then_some("WRITER"));
            let titles = titles.into_iter().map(str::to_owned).collect();
            let rows = definitions.into_iter().map(row);
            Ok(Output::Table(std::iter::once(titles).chain(rows).collect()))
        }
        Form::Json | Form::Toml | Form::Yaml | Form::JsonPath(_) => {
            all(&definitions::resources(connection).await?, &[], form)
        }
    }
}

/// The resources of a type, or one of them.
pub async fn resources(
    connection: &Connection,
    type_name: &str,
    id: Option<&str>,
    form: &Form,
) -> Result<Output> {
    let definition = definitions::named(connection, type_name).await?;
    let Definition { namespace, type_name, columns, .. } = definition;
    match id {
        None => all(&resource::list(connection, &namespace, &type_name).await?, &columns, form),
        Some(id) => {
            let found = resource::get(connection, &namespace, &type_name, id).await?;
            match form {
                Form::Json => Ok(Output::Json(resource::json(&found))),
                form => all(&[found], &columns, form),
            }
        }
    }
}

type Columns = [osbuild_cosi::resource::meta::resource_definition_spec::PrintColumn];

fn all(resources: &[Resource], columns: &Columns, form: &Form) -> Result<Output> {
    let width = width(form);
    let lines = |line: &dyn Fn(&Resource) -> String| resources.iter().map(line).collect();
    Ok(match form {
        Form::Table | Form::Wide => {
            let rows = resources.iter().map(|one| table::row(one, columns, width));
            Output::Table(std::iter::once(table::titles(columns, width)).chain(rows).collect())
        }
        Form::Name => Output::Lines(lines(&resource::name)),
        Form::JsonPath(template) => {
            Output::Lines(lines(&|one| template.apply(&resource::json(one))))
        }
        Form::Json => Output::Json(resources.iter().map(resource::json).collect()),
        // Those of several nodes one after the other are TOML, too.
        Form::Toml => {
            let tables = resources.iter().map(resource::toml).collect::<Result<Vec<String>>>()?;
            Output::Text(tables.join("\n"))
        }
        Form::Yaml => {
            let documents =
                resources.iter().map(resource::yaml).collect::<Result<Vec<String>>>()?;
            Output::Yaml(documents.join("---\n"))
        }
    })
}

/// Prints the resources of a type, or one of them, and their changes.
pub async fn watch(
    connection: &Connection,
    type_name: &str,
    id: Option<String>,
    form: &Form,
) -> Result<()> {
    let definition = definitions::named(connection, type_name).await?;
    let Definition { namespace, type_name, columns, .. } = definition;
    // A watch of one resource begins with it; that of a type has to ask for those that exist.
    let bootstrap_contents = id.is_none();
    let request = WatchRequest {
        namespace,
        r#type: type_name,
        id,
        options: Some(WatchOptions { bootstrap_contents, ..WatchOptions::default() }),
        api_version: API_VERSION,
    };
    let mut stream = connection.state().watch(request).await?.into_inner();
    let mut printed = Changes::begin(&columns, form)?;
    while let Some(message) = stream.message().await? {
        for Event { resource, event_type, error, .. } in message.events()? {
            let event = match EventType::try_from(event_type) {
                Ok(EventType::Created) => "created",
                Ok(EventType::Updated) => "updated",
                Ok(EventType::Destroyed) => "destroyed",
                Ok(EventType::Errored) => {
                    return Err(
                        Error::failed("the watch has ended").cause(error.unwrap_or_default())
                    );
                }
                Ok(EventType::Bootstrapped | EventType::Noop) | Err(_) => continue,
            };
            if let Some(resource) = resource {
                printed.add(event, &resource)?;
            }
        }
    }
    Err(Error::failed("the node has ended the watch"))
}

/// Changes as they are printed.
struct Changes<'a> {
    table: Table,
    columns: &'a Columns,
    form: &'a Form,
}

impl<'a> Changes<'a> {
    fn begin(columns: &'a Columns, form: &'a Form) -> Result<Changes<'a>> {
        let mut titles = table::titles(columns, width(form));
        titles.insert(0, "EVENT".to_owned());
        let (table, lines) = Table::with(&[titles]);
        if matches!(form, Form::Table | Form::Wide) {
            print_part(&lines_of(&lines))?;
        }
        Ok(Changes { table, columns, form })
    }

    fn add(&mut self, event: &str, resource: &Resource) -> Result<()> {
        match self.form {
            Form::Table | Form::Wide => {
                let mut row = table::row(resource, self.columns, width(self.form));
                row.insert(0, event.to_owned());
                print_part(&lines_of(&[self.table.add(&row)]))
            }
            Form::Name => print_part(&format!("{event} {}\n", resource::name(resource))),
            Form::JsonPath(template) => {
                print_part(&format!("{event} {}\n", template.apply(&resource::json(resource))))
            }
            Form::Json => {
                let json = json!({ "event": event, "resource": resource::json(resource) });
                print_part(&(resource::escaped_json(&json.to_string()) + "\n"))
            }
            Form::Toml => print_part(&format!("# {event}\n{}\n", resource::toml(resource)?)),
            Form::Yaml => print_part(&format!("# {event}\n{}---\n", resource::yaml(resource)?)),
        }
    }
}

fn width(form: &Form) -> Width {
    if matches!(form, Form::Wide) { Width::Wide } else { Width::Normal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_cosi::resource::meta::resource_definition_spec::PrintColumn;
    use osbuild_cosi::resource::{Metadata, Spec};
    use serde_json::Value;

    fn resource() -> Resource {
        let metadata = Metadata {
            namespace: "system".into(),
            r#type: "Hostnames.osbuild".into(),
            id: "a".into(),
            version: "2".into(),
            owner: "me".into(),
            phase: "running".into(),
            created: Some(prost_types::Timestamp { seconds: 0, nanos: 0 }),
            updated: Some(prost_types::Timestamp { seconds: 86_400, nanos: 0 }),
            labels: [("zone".into(), "1".into()), ("rack".into(), "7".into())].into(),
            ..Metadata::default()
        };
        let spec = Spec { proto_spec: vec![], yaml_spec: "hostname: edge-7\n".into() };
        Resource { metadata: Some(metadata), spec: Some(spec) }
    }

    #[test]
    fn a_resource_is_printed_in_each_form() {
        let column = PrintColumn { name: "Hostname".into(), json_path: "{.hostname}".into() };
        let output = |form: Form| all(&[resource()], std::slice::from_ref(&column), &form).unwrap();
        let rows = |form| {
            let Output::Table(rows) = output(form) else { panic!("no table") };
            Table::with(&rows).1
        };
        assert_eq!(
            rows(Form::Table),
            ["ID  VERSION  PHASE    HOSTNAME", "a   2        running  edge-7"]
        );
        assert_eq!(
            rows(Form::Wide),
            [
                "ID  VERSION  PHASE    HOSTNAME  OWNER  UPDATED               LABELS",
                "a   2        running  edge-7    me     1970-01-02T00:00:00Z  rack=7,zone=1",
            ]
        );
        let lines = |line: &str| Output::Lines(vec![line.to_owned()]);
        assert_eq!(output(Form::Name), lines("Hostnames.osbuild/a"));
        let template = "{.id}={.spec.hostname}".parse().unwrap();
        assert_eq!(output(Form::JsonPath(template)), lines("a=edge-7"));
        let yaml = "namespace: system\ntype: Hostnames.osbuild\nid: a\nlabels:\n  rack: \"7\"\n  \
                    zone: \"1\"\nspec:\n  hostname: edge-7\n";
        assert_eq!(output(Form::Yaml), Output::Yaml(yaml.to_owned()));
        let Output::Json(Value::Array(all)) = output(Form::Json) else { panic!("no list") };
        assert_eq!(all[0]["spec"]["hostname"], "edge-7");
    }
}
