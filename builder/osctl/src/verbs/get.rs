//! `osctl get`: resources, and the types that the node has.

use super::{print, print_json, print_lines};
use crate::cli::Form;
use crate::connection::Connection;
use crate::definitions::{self, Definition};
use crate::error::{Error, Result, printable};
use crate::resource;
use crate::table::{self, Table};
use osbuild_cosi::resource::{Event, EventType, GetRequest, Resource, WatchOptions, WatchRequest};
use serde_json::{Value, json};

/// The version of the API whose clients know the events `BOOTSTRAPPED` and `ERRORED`.
const API_VERSION: i32 = 1;

/// Prints the types of the node.
pub async fn types(connection: &Connection, form: Form) -> Result<()> {
    let definitions = definitions::all(connection).await?;
    match form {
        Form::Name => {
            let names: Vec<String> =
                definitions.iter().map(|one| printable(&one.type_name)).collect();
            print_lines(&names)
        }
        Form::Table => {
            let titles = ["TYPE", "NAMESPACE", "ALIASES"].map(str::to_owned).to_vec();
            let row = |one: Definition| {
                let cells = [one.type_name, one.namespace, one.aliases.join(",")];
                cells.iter().map(|cell| printable(cell)).collect()
            };
            let rows: Vec<_> =
                std::iter::once(titles).chain(definitions.into_iter().map(row)).collect();
            print_lines(&Table::with(&rows).1)
        }
        Form::Json | Form::Yaml => {
            let resources = definitions::resources(connection).await?;
            print_all(&resources, &[], form)
        }
    }
}

/// Prints the resources of a type, or one of them.
pub async fn run(
    connection: &Connection,
    type_name: &str,
    id: Option<String>,
    form: Form,
    watch: bool,
) -> Result<()> {
    let definition = definitions::named(connection, type_name).await?;
    if watch {
        return self::watch(connection, definition, id, form).await;
    }
    let Definition { namespace, type_name, columns, .. } = definition;
    match id {
        None => {
            let found = resource::list(connection, &namespace, &type_name).await?;
            print_all(&found, &columns, form)
        }
        Some(id) => {
            let request = GetRequest { namespace, r#type: type_name, id, options: None };
            let found = connection.state().get(request).await?.into_inner().resource;
            let found = found.ok_or_else(|| Error::failed("the node sends no resource"))?;
            match form {
                Form::Json => print_json(&resource::json(&found)),
                form => print_all(&[found], &columns, form),
            }
        }
    }
}

type Columns = [osbuild_cosi::resource::meta::resource_definition_spec::PrintColumn];

fn print_all(resources: &[Resource], columns: &Columns, form: Form) -> Result<()> {
    match form {
        Form::Table => {
            let rows = resources.iter().map(|one| table::row(one, columns));
            let rows: Vec<_> = std::iter::once(table::titles(columns)).chain(rows).collect();
            print_lines(&Table::with(&rows).1)
        }
        Form::Name => print_lines(&resources.iter().map(resource::name).collect::<Vec<_>>()),
        Form::Json => {
            let all: Vec<Value> = resources.iter().map(resource::json).collect();
            print_json(&Value::Array(all))
        }
        Form::Yaml => {
            let documents =
                resources.iter().map(resource::yaml).collect::<Result<Vec<String>>>()?;
            print(&documents.join("---\n"))
        }
    }
}

/// Prints the resources of a type, or one of them, and their changes.
async fn watch(
    connection: &Connection,
    definition: Definition,
    id: Option<String>,
    form: Form,
) -> Result<()> {
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
    let mut titles = table::titles(&columns);
    titles.insert(0, "EVENT".to_owned());
    let (mut table, lines) = Table::with(&[titles]);
    if form == Form::Table {
        print_lines(&lines)?;
    }
    while let Some(message) = stream.message().await? {
        for Event { resource, event_type, error, .. } in message.event {
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
            let Some(resource) = resource else { continue };
            let mut row = table::row(&resource, &columns);
            row.insert(0, event.to_owned());
            match form {
                Form::Table => print_lines(&[table.add(&row)])?,
                Form::Name => print_lines(&[format!("{event} {}", resource::name(&resource))])?,
                Form::Json => {
                    let json = json!({ "event": event, "resource": resource::json(&resource) });
                    print_lines(&[resource::escaped_json(&json.to_string())])?;
                }
                Form::Yaml => print(&format!("# {event}\n{}---\n", resource::yaml(&resource)?))?,
            }
        }
    }
    Err(Error::failed("the node has ended the watch"))
}
