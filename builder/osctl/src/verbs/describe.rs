//! `osctl describe`: all that is known of a resource.

use super::history;
use super::output::Output;
use crate::connection::Connection;
use crate::definitions::{self, Definition};
use crate::error::{Result, printable};
use crate::resource::{self, pairs, time};
use crate::table::Table;
use osbuild_cosi::resource::{Metadata, Resource};
use osbuild_cosi::v1::applied_resource::Outcome;
use osbuild_cosi::v1::{AppliedResource, Generation};
use osbuild_protocol::{REDACTED, REDACTED_CHANGE};
use serde_json::Value;

/// The identifier of a status of which a node has one.
const NODE: &str = "node";

/// Describes a resource, or all of a type. Without any, what the node has of the setting all the
/// same is shown.
pub async fn run(connection: &Connection, type_name: &str, id: Option<&str>) -> Result<Output> {
    let definitions = definitions::all(connection).await?;
    let definition = definitions::choose(definitions.clone(), type_name)?;
    let Definition { namespace, type_name, .. } = &definition;
    let resources = match id {
        Some(id) => vec![resource::get(connection, namespace, type_name, id).await?],
        None => resource::list(connection, namespace, type_name).await?,
    };
    let statuses = match statuses_of(&definitions, &definition) {
        Some(one) => resource::list(connection, &one.namespace, &one.type_name).await?,
        None => Vec::new(),
    };
    // Only the line about the last change needs them.
    let generations = history::generations_if_allowed(connection).await?;
    if resources.is_empty() {
        let head = format!("There is no resource of {}.\n", printable(type_name));
        return Ok(Output::Text(head + &statuses.iter().map(status_text).collect::<String>()));
    }
    let texts = resources.iter().map(|one| text(one, &statuses, &generations));
    Ok(Output::Text(texts.collect::<Vec<_>>().join("\n")))
}

/// The type of the statuses of a type, if it has one. Where what the node has in any case is of the
/// type `LinkStatus`, that of a setting is `LinkSettingStatus`.
pub fn statuses_of<'a>(definitions: &'a [Definition], of: &Definition) -> Option<&'a Definition> {
    ["SettingStatus", "Status"].iter().find_map(|end| {
        let singular = format!("{}{end}", of.singular);
        let is_it = |one: &&Definition| one.singular == singular && one.namespace == of.namespace;
        definitions.iter().find(is_it)
    })
}

fn text(resource: &Resource, statuses: &[Resource], generations: &[Generation]) -> String {
    let mut text = format!("{}\n", resource::name(resource));
    let metadata = resource::metadata(resource);
    let set_by = set_by(resource, &metadata, generations);
    let rows = head(metadata, set_by);
    text += &Table::with(&rows).1.iter().map(|row| format!("  {row}\n")).collect::<String>();
    text += &format!("spec:\n{}", yaml(resource));
    let about: Vec<_> = statuses.iter().filter(|one| is_about(one, resource)).collect();
    for status in &about {
        text += &status_text(status);
        text += &lag(status, resource);
    }
    if about.is_empty() && !statuses.is_empty() {
        text += "status: none yet\n";
    }
    text
}

/// The rows of what is known of the resource beside its spec. What is empty has none.
fn head(metadata: Metadata, set_by: String) -> Vec<Vec<String>> {
    let rows = [
        ("namespace", metadata.namespace),
        ("version", metadata.version),
        ("phase", metadata.phase),
        ("owner", metadata.owner),
        ("created", time(metadata.created).unwrap_or_default()),
        ("updated", time(metadata.updated).unwrap_or_default()),
        ("set by", set_by),
        ("finalizers", metadata.finalizers.join(", ")),
        ("labels", pairs(&metadata.labels).join(", ")),
        ("annotations", pairs(&metadata.annotations).join(", ")),
    ];
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    rows.map(|(title, value)| vec![title.to_owned(), printable(&value)]).collect()
}

/// The caller that last changed the resource, and the generation with that change. Empty if no
/// generation changed it, as for statuses. The changes of a running try are in no generation yet.
fn set_by(resource: &Resource, metadata: &Metadata, generations: &[Generation]) -> String {
    let is_of = |change: &AppliedResource| {
        change.outcome() != Outcome::Unchanged
            && (&change.namespace, &change.r#type, &change.id)
                == (&metadata.namespace, &metadata.r#type, &metadata.id)
    };
    let mut changes =
        generations.iter().flat_map(|one| one.changes.iter().map(move |change| (one, change)));
    let last = changes.find(|(_, change)| is_of(change));
    let Some((one, change)) = last else { return String::new() };
    // The resource itself does not show that its secrets have changed.
    let after = change.after.replace(REDACTED_CHANGE, REDACTED);
    let is_kept = resource.spec.as_ref().is_some_and(|spec| spec.yaml_spec == after);
    match is_kept {
        true => format!("{}, in generation {} of {}", one.caller, one.number, history::time(one)),
        false => format!("after generation {}, and not kept yet: `osctl try`", one.number),
    }
}

/// Whether the status is about the resource: the node has only one, it names the resource, or both
/// are about the same key.
fn is_about(status: &Resource, resource: &Resource) -> bool {
    let [status_id, id] = [status, resource].map(|one| resource::metadata(one).id);
    let [status, spec] = [status, resource].map(resource::spec);
    let is_same_key = !spec["key"].is_null() && status["key"] == spec["key"];
    status_id == NODE || status_id == id || status["resource"] == id || is_same_key
}

fn status_text(status: &Resource) -> String {
    format!("status: {}\n{}", resource::name(status), yaml(status))
}

/// Says that the node has not acted on the resource yet.
fn lag(status: &Resource, resource: &Resource) -> String {
    let acted = resource::spec(status)["version"].clone();
    let version = resource::metadata(resource).version;
    match acted {
        Value::String(acted) if acted != version => {
            let acted = printable(&acted);
            format!("The node has acted on version {acted}, and not on {version} yet.\n")
        }
        _ => String::new(),
    }
}

fn yaml(resource: &Resource) -> String {
    let text = resource.spec.as_ref().map_or("", |spec| spec.yaml_spec.as_str());
    text.lines().map(|line| format!("  {}\n", printable(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_cosi::resource::Spec;

    fn resource(type_name: &str, id: &str, version: &str, yaml: &str) -> Resource {
        let metadata = Metadata {
            namespace: "system".into(),
            r#type: format!("{type_name}.osbuild"),
            id: id.into(),
            version: version.into(),
            phase: "running".into(),
            labels: [("zone".into(), "1".into()), ("rack".into(), "7".into())].into(),
            ..Metadata::default()
        };
        let spec = Some(Spec { proto_spec: vec![], yaml_spec: yaml.into() });
        Resource { metadata: Some(metadata), spec }
    }

    fn generation(number: u64, id: &str, outcome: Outcome) -> Generation {
        let change = AppliedResource {
            namespace: "system".into(),
            r#type: "Resolvers.osbuild".into(),
            id: id.into(),
            outcome: outcome.into(),
            after: "nameserver:\n- 192.0.2.1\n".into(),
            ..AppliedResource::default()
        };
        let caller = format!("operator \"{number}\"");
        Generation { number, time_seconds: 86_400, caller, changes: vec![change] }
    }

    #[test]
    fn a_resource_has_its_status_and_who_set_it() {
        let resolver = resource("Resolvers", "dns", "3", "nameserver:\n- 192.0.2.1\n");
        let yaml = "nameserver: []\nerror: \"a\u{2066}b\"\nversion: '2'\n";
        let status = resource("ResolverStatuses", "node", "9", yaml);
        let generations = [
            generation(9, "other", Outcome::Updated),
            generation(8, "dns", Outcome::Unchanged),
            generation(7, "dns", Outcome::Updated),
            generation(6, "dns", Outcome::Created),
        ];
        assert_eq!(
            text(&resolver, &[status], &generations).lines().collect::<Vec<_>>(),
            [
                "Resolvers.osbuild/dns",
                "  namespace  system",
                "  version    3",
                "  phase      running",
                "  set by     operator \"7\", in generation 7 of 1970-01-02T00:00:00Z",
                "  labels     rack=7, zone=1",
                "spec:",
                "  nameserver:",
                "  - 192.0.2.1",
                "status: ResolverStatuses.osbuild/node",
                "  nameserver: []",
                "  error: \"a\\u{2066}b\"",
                "  version: '2'",
                "The node has acted on version 2, and not on 3 yet.",
            ]
        );
    }

    #[test]
    fn a_change_of_a_secret_is_in_its_generation() {
        let credential = resource("Resolvers", "dns", "3", "password: (hidden)\n");
        let mut changed = generation(7, "dns", Outcome::Updated);
        changed.changes[0].after = "password: (hidden, changed)\n".into();
        let by = set_by(&credential, &resource::metadata(&credential), &[changed]);
        assert!(by.contains("in generation 7"), "{by}");
    }

    #[test]
    fn a_change_of_a_try_is_not_of_an_earlier_caller() {
        let resolver = resource("Resolvers", "dns", "4", "nameserver:\n- 192.0.2.2\n");
        let text = text(&resolver, &[], &[generation(7, "dns", Outcome::Updated)]);
        assert!(text.contains("after generation 7, and not kept yet"), "{text}");
    }

    #[test]
    fn a_status_of_another_parameter_is_not_shown() {
        let parameter =
            |id: &str, key: &str| resource("KernelParameters", id, "1", &format!("key: {key}\n"));
        let status = |id: &str, key: &str| {
            resource("KernelParameterStatuses", id, "1", &format!("key: {key}\n"))
        };
        let one = parameter("a", "vm.swappiness");
        assert!(is_about(&status("a", "vm.swappiness"), &one));
        assert!(is_about(&status("vm.swappiness", "vm.swappiness"), &one));
        assert!(!is_about(&status("b", "vm.max_map_count"), &one));
        let text = text(&one, &[status("b", "vm.max_map_count")], &[]);
        assert!(text.ends_with("status: none yet\n"), "{text}");
    }
}
