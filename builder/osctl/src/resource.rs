//! Resources as a node sends them, and as people and programs read them.

use crate::connection::Connection;
use crate::error::{Error, Result, is_deceptive, printable};
use jiff::Timestamp;
use osbuild_cosi::resource::{GetRequest, ListRequest, Metadata, Resource, Spec};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// All resources of a type.
pub async fn list(
    connection: &Connection,
    namespace: &str,
    type_name: &str,
) -> Result<Vec<Resource>> {
    let request =
        ListRequest { namespace: namespace.into(), r#type: type_name.into(), options: None };
    let mut stream = connection.state().list(request).await?.into_inner();
    let mut resources = Vec::new();
    while let Some(message) = stream.message().await? {
        resources.extend(message.resource);
    }
    Ok(resources)
}

/// One resource of a type.
pub async fn get(
    connection: &Connection,
    namespace: &str,
    type_name: &str,
    id: &str,
) -> Result<Resource> {
    let request = GetRequest {
        namespace: namespace.into(),
        r#type: type_name.into(),
        id: id.into(),
        options: None,
    };
    let found = connection.state().get(request).await?.into_inner().resource;
    found.ok_or_else(|| Error::failed("the node sends no resource"))
}

/// A time as RFC 3339 has it.
pub fn time(time: Option<prost_types::Timestamp>) -> Option<String> {
    let time = time.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok());
    time.map(|time| time.to_string())
}

/// `KEY=VALUE` of all labels or annotations, sorted.
pub fn pairs(map: &HashMap<String, String>) -> Vec<String> {
    let mut pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.sort_unstable();
    pairs
}

/// The metadata of a resource, which every answer has.
pub fn metadata(resource: &Resource) -> Metadata {
    resource.metadata.clone().unwrap_or_default()
}

/// `TYPE/ID`.
pub fn name(resource: &Resource) -> String {
    let Metadata { r#type, id, .. } = metadata(resource);
    printable(&format!("{}/{id}", r#type))
}

/// The spec as data. A spec that is no YAML is a string.
pub fn spec(resource: &Resource) -> Value {
    let yaml = resource.spec.as_ref().map_or("", |spec| spec.yaml_spec.as_str());
    serde_saphyr::from_str(yaml).unwrap_or_else(|_| Value::String(yaml.to_owned()))
}

/// All of a resource as data.
pub fn json(resource: &Resource) -> Value {
    let metadata = metadata(resource);
    let sorted =
        |map: HashMap<String, String>| -> BTreeMap<String, String> { map.into_iter().collect() };
    json!({
        "namespace": metadata.namespace,
        "type": metadata.r#type,
        "id": metadata.id,
        "version": metadata.version,
        "owner": metadata.owner,
        "phase": metadata.phase,
        "created": time(metadata.created),
        "updated": time(metadata.updated),
        "finalizers": metadata.finalizers,
        "labels": sorted(metadata.labels),
        "annotations": sorted(metadata.annotations),
        "spec": spec(resource),
    })
}

/// All of a resource as an element of the array `resources` in TOML, which has no value for what a
/// resource does not have.
///
/// # Errors
/// It has a character that [`printable`] escapes: TOML has texts without escapes.
pub fn toml(resource: &Resource) -> Result<String> {
    let mut value = json(resource);
    drop_null(&mut value);
    let text = toml::to_string(&json!({ "resources": [value] }))
        .map_err(|error| Error::failed("cannot write TOML").caused_by(&error))?;
    if text.contains(|c| is_deceptive(c) && c != '\n' && c != '\t') {
        let name = name(resource);
        let error = Error::failed(format!("TOML does not show a character of `{name}`"));
        return Err(error.hint("`-o json` shows it as an escape"));
    }
    Ok(text)
}

fn drop_null(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_null);
        }
        Value::Array(all) => {
            all.retain(|value| !value.is_null());
            all.iter_mut().for_each(drop_null);
        }
        _ => {}
    }
}

/// The same JSON without the characters that [`printable`] escapes. JSON has them in strings alone,
/// where their escapes mean the same; those of ASCII but DEL it escapes itself.
pub fn escaped_json(text: &str) -> String {
    let escape = |c: char| match is_deceptive(c) && c != '\n' {
        true => format!("\\u{:04x}", u32::from(c)),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// The head of a YAML document, before its spec.
#[derive(Serialize)]
struct Head {
    namespace: String,
    r#type: String,
    id: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

/// A resource as a YAML document that `osctl apply` reads. The spec has the node's own words,
/// unless they contain characters that [`printable`] escapes: the document is JSON then, which YAML
/// includes and whose escapes lose nothing.
pub fn yaml(resource: &Resource) -> Result<String> {
    let Metadata { namespace, r#type, id, labels, annotations, .. } = metadata(resource);
    let (labels, annotations) = (labels.into_iter().collect(), annotations.into_iter().collect());
    let head = Head { namespace, r#type, id, labels, annotations };
    let mut text = serde_saphyr::to_string(&head)
        .map_err(|error| Error::failed("cannot write YAML").caused_by(&error))?
        + "spec:\n";
    let Spec { yaml_spec, .. } = resource.spec.clone().unwrap_or_default();
    for line in yaml_spec.lines() {
        text += &format!("  {line}\n");
    }
    if !text.contains(|c| is_deceptive(c) && c != '\n' && c != '\t') {
        return Ok(text);
    }
    let mut json = json!(head);
    json["spec"] = spec(resource);
    Ok(escaped_json(&json.to_string()) + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource() -> Resource {
        let metadata = Metadata {
            namespace: "system".into(),
            r#type: "Resolvers.osbuild".into(),
            id: "a: b".into(),
            version: "3".into(),
            created: Some(prost_types::Timestamp { seconds: 86_400, nanos: 0 }),
            labels: [("zone".to_owned(), "1".to_owned())].into(),
            ..Metadata::default()
        };
        let yaml_spec = "nameserver:\n- 192.0.2.1\n".to_owned();
        Resource { metadata: Some(metadata), spec: Some(Spec { proto_spec: vec![], yaml_spec }) }
    }

    #[test]
    fn a_resource_is_printed_as_a_document() {
        let text = yaml(&resource()).unwrap();
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(
            read,
            json!({
                "namespace": "system",
                "type": "Resolvers.osbuild",
                "id": "a: b",
                "labels": { "zone": "1" },
                "spec": { "nameserver": ["192.0.2.1"] },
            }),
            "{text}"
        );
    }

    #[test]
    fn a_document_keeps_what_a_terminal_must_not_see() {
        let mut resource = resource();
        let deceptive = "a\u{9b}2J\u{202e}b\u{7f}";
        let label = [("zone".to_owned(), deceptive.to_owned())];
        resource.metadata.as_mut().unwrap().labels = label.into();
        resource.spec.as_mut().unwrap().yaml_spec = "a: \"\u{2066}x\"\n".to_owned();
        let text = yaml(&resource).unwrap();
        assert_eq!(printable(text.trim_end()), text.trim_end());
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read["labels"]["zone"], deceptive);
        assert_eq!(read["spec"]["a"], "\u{2066}x");
        let text = escaped_json(&format!("{:#}", json(&resource)));
        assert!(text.lines().all(|line| printable(line) == line), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json(&resource));
    }

    #[test]
    fn toml_has_what_json_has_and_nothing_for_null() {
        let text = toml(&resource()).unwrap();
        let read: toml::Value = toml::from_str(&[text.as_str(), text.as_str()].concat()).unwrap();
        let mut expected = json(&resource());
        drop_null(&mut expected);
        let expected = json!({ "resources": [expected, expected] });
        assert_eq!(serde_json::to_value(read).unwrap(), expected);
        let mut deceptive = resource();
        deceptive.metadata.as_mut().unwrap().labels.insert("a".into(), "\u{202e}b".into());
        assert!(toml(&deceptive).unwrap_err().to_string().contains("does not show a character"));
    }

    #[test]
    fn json_has_all_of_a_resource() {
        let json = json(&resource());
        assert_eq!(json["spec"]["nameserver"][0], "192.0.2.1");
        assert_eq!(
            (&json["version"], &json["created"]),
            (&Value::from("3"), &Value::from("1970-01-02T00:00:00Z"))
        );
        assert_eq!(json["updated"], Value::Null);
    }
}
