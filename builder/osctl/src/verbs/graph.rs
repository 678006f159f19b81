//! `osctl graph`: which controller turns resources of which types into which others.

use super::describe::statuses_of;
use super::output::Output;
use crate::cli::GraphForm;
use crate::connection::Connection;
use crate::definitions::{self, Definition};
use crate::error::{Result, printable};
use crate::resource;
use osbuild_abi::osd;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The type with a resource for each controller of a plugin.
const CONTROLLERS: &str = "ControllerStatuses.osbuild";

/// The controllers that every node has.
const INIT: &str = "init";
const OSD: &str = "osd";

/// A vertex of the graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Vertex {
    Type(String),
    Controller(String),
}

/// From where to where, and how: the kind of an input or output of a plugin, perhaps with an
/// identifier.
type Edge = (Vertex, Vertex, String);

/// The graph of a node.
pub async fn show(connection: &Connection, form: GraphForm) -> Result<Output> {
    let definitions = definitions::all(connection).await?;
    let controllers = match definitions.iter().find(|one| one.type_name == CONTROLLERS) {
        Some(one) => resource::list(connection, &one.namespace, &one.type_name).await?,
        None => Vec::new(),
    };
    let mut edges = of_node(&definitions);
    for controller in &controllers {
        edges.extend(of_plugin(&resource::metadata(controller).id, &resource::spec(controller)));
    }
    Ok(match form {
        GraphForm::Dot => Output::Text(dot(&edges)),
        GraphForm::Mermaid => Output::Mermaid(mermaid(&edges)),
    })
}

/// The edges of the node's own programs: `init` holds the node to settings, which have statuses;
/// `osd` acts on the other types that clients write, and observes the rest.
fn of_node(definitions: &[Definition]) -> Vec<Edge> {
    let to = |one: &Definition| Vertex::Type(one.type_name.clone());
    let by = |name: &str| Vertex::Controller(name.to_owned());
    let is_set = |one: &Definition| one.writer.is_some() && !one.is_read_only();
    let mut edges = Vec::new();
    let mut statuses = Vec::new();
    for one in definitions.iter().filter(|one| is_set(one)) {
        match statuses_of(definitions, one) {
            Some(status) => {
                edges.push((to(one), by(INIT), String::new()));
                statuses.push(status.type_name.as_str());
            }
            None => edges.push((to(one), by(OSD), String::new())),
        }
    }
    for one in definitions.iter().filter(|one| one.writer.as_deref() == Some(osd::ITSELF)) {
        let writer = if statuses.contains(&one.type_name.as_str()) { INIT } else { OSD };
        edges.push((by(writer), to(one), String::new()));
    }
    edges
}

/// The inputs and outputs of a controller of a plugin, as its status has them: `strong
/// NAMESPACE/TYPE/ID` and `exclusive TYPE`.
fn of_plugin(name: &str, status: &Value) -> Vec<Edge> {
    let controller = Vertex::Controller(name.to_owned());
    let words = |key: &str| -> Vec<(String, String)> {
        let lines = status[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        let words = lines.filter_map(|line| line.split_once(' '));
        words.map(|(kind, rest)| (kind.to_owned(), rest.to_owned())).collect()
    };
    let mut edges = Vec::new();
    for (kind, input) in words("inputs") {
        let (_, input) = input.split_once('/').unwrap_or(("", &input));
        let (type_name, id) = input.split_once('/').unwrap_or((input, ""));
        let label = format!("{kind} {id}").trim_end().to_owned();
        edges.push((Vertex::Type(type_name.to_owned()), controller.clone(), label));
    }
    for (kind, type_name) in words("outputs") {
        edges.push((controller.clone(), Vertex::Type(type_name), kind));
    }
    edges
}

/// The vertices by the names that they have in a text of a graph.
fn names(edges: &[Edge]) -> BTreeMap<&Vertex, String> {
    let vertices = edges.iter().flat_map(|(from, to, _)| [from, to]);
    let sorted: BTreeMap<&Vertex, ()> = vertices.map(|one| (one, ())).collect();
    sorted.into_keys().enumerate().map(|(number, one)| (one, format!("n{number}"))).collect()
}

impl Vertex {
    fn name(&self) -> String {
        let (Vertex::Type(name) | Vertex::Controller(name)) = self;
        printable(name)
    }
}

/// The graph in the language of Graphviz.
fn dot(edges: &[Edge]) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let names = names(edges);
    let mut text = "digraph {\n  rankdir=LR\n".to_owned();
    for (vertex, name) in &names {
        let shape = if matches!(vertex, Vertex::Type(_)) { "box" } else { "ellipse" };
        let label = quoted(&vertex.name());
        let _ = writeln!(text, "  {name} [shape={shape}, label=\"{label}\"]");
    }
    for (from, to, label) in edges {
        let label = match label.is_empty() {
            true => String::new(),
            false => format!(" [label=\"{}\"]", quoted(&printable(label))),
        };
        let _ = writeln!(text, "  {} -> {}{label}", names[from], names[to]);
    }
    text + "}\n"
}

/// The graph in the language of Mermaid, which many pages show as a picture.
fn mermaid(edges: &[Edge]) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "#quot;"));
    let names = names(edges);
    let mut text = "flowchart LR\n".to_owned();
    for (vertex, name) in &names {
        let label = quoted(&vertex.name());
        let _ = match vertex {
            Vertex::Type(_) => writeln!(text, "  {name}[{label}]"),
            Vertex::Controller(_) => writeln!(text, "  {name}([{label}])"),
        };
    }
    for (from, to, label) in edges {
        let arrow = match label.is_empty() {
            true => "-->".to_owned(),
            false => format!("-->|{}|", quoted(&printable(label))),
        };
        let _ = writeln!(text, "  {} {arrow} {}", names[from], names[to]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition(singular: &str, type_name: &str, writer: &str) -> Definition {
        Definition {
            type_name: type_name.to_owned(),
            singular: singular.to_owned(),
            writer: Some(writer.to_owned()),
            ..Definition::default()
        }
    }

    #[test]
    fn init_turns_settings_into_statuses_and_osd_does_the_rest() {
        let edges = of_node(&[
            definition("Resolver", "Resolvers.osbuild", "operator"),
            definition("ResolverStatus", "ResolverStatuses.osbuild", osd::ITSELF),
            definition("Role", "Roles.osbuild", "admin"),
            definition("LinkStatus", "LinkStatuses.osbuild", osd::ITSELF),
            definition("Link", "Links.osbuild", "admin"),
            definition("LinkSettingStatus", "LinkSettingStatuses.osbuild", osd::ITSELF),
        ]);
        assert_eq!(
            mermaid(&edges),
            "flowchart LR
  n0[\"LinkSettingStatuses.osbuild\"]
  n1[\"LinkStatuses.osbuild\"]
  n2[\"Links.osbuild\"]
  n3[\"ResolverStatuses.osbuild\"]
  n4[\"Resolvers.osbuild\"]
  n5[\"Roles.osbuild\"]
  n6([\"init\"])
  n7([\"osd\"])
  n4 --> n6
  n5 --> n7
  n2 --> n6
  n6 --> n3
  n7 --> n1
  n6 --> n0
"
        );
    }

    #[test]
    fn a_plugin_has_its_inputs_and_outputs_with_their_kinds() {
        let status = json!({
            "inputs": ["strong system/Hostnames.osbuild/node", "weak system/Resolvers.osbuild"],
            "outputs": ["exclusive Greetings.example"],
        });
        assert_eq!(
            dot(&of_plugin("greeter \"1\"", &status)),
            "digraph {\n  rankdir=LR\n  n0 [shape=box, label=\"Greetings.example\"]\n  n1 \
             [shape=box, label=\"Hostnames.osbuild\"]\n  n2 [shape=box, \
             label=\"Resolvers.osbuild\"]\n  n3 [shape=ellipse, label=\"greeter \\\"1\\\"\"]\n  n1 \
             -> n3 [label=\"strong node\"]\n  n2 -> n3 [label=\"weak\"]\n  n3 -> n0 \
             [label=\"exclusive\"]\n}\n"
        );
    }
}
