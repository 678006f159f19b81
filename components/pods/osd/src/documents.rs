//! Resources as people write them: YAML documents with `---` between.

use crate::client_type::ClientType;
use crate::yaml;
use osbuild_cosi::text_mistake;
use osbuild_resources::{Key, Labels, Spec};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The values of two keys that COSI's engine of 2021 writes.
const API: &str = "cosi.dev";
const VERSION: &str = "1";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    api: Option<String>,
    version: Option<String>,
    r#type: String,
    namespace: Option<String>,
    id: String,
    labels: Option<Labels>,
    annotations: Option<BTreeMap<String, String>>,
    spec: Value,
}

/// A resource as a document specifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The resource.
    pub key: Key,
    /// Its labels, if the document has any.
    pub labels: Option<Labels>,
    /// Its annotations, if the document has any.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Its spec, in both forms.
    pub spec: Spec,
}

/// Reads the documents. `stored` is the spec of a resource as it is now, whose secrets a document
/// may hide.
///
/// # Errors
/// There is none, or some are malformed: all mistakes.
pub fn read(text: &str, stored: impl Fn(&Key) -> Option<Spec>) -> Result<Vec<Draft>, String> {
    let documents: Vec<Document> = yaml::read_all(text)?;
    if documents.is_empty() {
        return Err("there is no document".to_owned());
    }
    let (mut drafts, mut mistakes, mut keys) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (index, document) in documents.into_iter().enumerate() {
        match document.draft(&stored) {
            Ok(draft) if !keys.insert(draft.key.clone()) => {
                mistakes.push(format!("document {}: {} is there twice", index + 1, draft.key));
            }
            Ok(draft) => drafts.push(draft),
            Err(mistake) => mistakes.push(format!("document {}: {mistake}", index + 1)),
        }
    }
    if mistakes.is_empty() { Ok(drafts) } else { Err(mistakes.join("; ")) }
}

impl Document {
    fn draft(self, stored: impl Fn(&Key) -> Option<Spec>) -> Result<Draft, String> {
        let Document { api, version, r#type, namespace, id, labels, annotations, spec } = self;
        let one = ClientType::named(&r#type).ok_or_else(|| no_type(&r#type))?;
        let kind = one.kind();
        let fixed = [
            ("api", api, API),
            ("version", version, VERSION),
            ("namespace", namespace, kind.namespace()),
        ];
        for (key, found, expected) in fixed {
            if let Some(found) = found.filter(|found| found != expected) {
                return Err(format!("`{key}` is `{expected}`, not `{found}`"));
            }
        }
        let key = Key::new(kind, &id).map_err(|error| error.to_string())?;
        if let Some(mistake) = text_mistake(&spec, one.secrets()) {
            return Err(mistake);
        }
        let yaml = serde_saphyr::to_string(&spec).map_err(|error| error.to_string())?;
        let written = Spec { yaml, ..Spec::default() };
        let spec = one.check_written(&id, &written, stored(&key).as_ref())?.spec;
        Ok(Draft { key, labels, annotations, spec })
    }
}

fn no_type(name: &str) -> String {
    let known: Vec<&str> = ClientType::all().map(|one| one.names().singular).collect();
    format!("there is no type `{name}`; the types are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads documents of resources that are new.
    fn read(text: &str) -> Result<Vec<Draft>, String> {
        super::read(text, |_| None)
    }

    fn yaml(text: &str) -> Vec<(String, String)> {
        let drafts = read(text).unwrap().into_iter();
        drafts.map(|draft| (draft.key.id().to_owned(), draft.spec.yaml)).collect()
    }

    /// The form of COSI's engine of 2021.
    #[test]
    fn documents_of_the_engine_are_read() {
        let head = "api: cosi.dev\nversion: '1'\nnamespace: system\n";
        let text = format!(
            "{head}type: KernelParameter\nid: forward\nspec:\n  key: net.ipv4.ip_forward\n  \
             value: '0'\n---\n{head}type: Resolver\nid: local\nspec:\n  search: local\n"
        );
        assert_eq!(
            yaml(&text),
            [
                ("forward".to_owned(), "key: net.ipv4.ip_forward\nvalue: \"0\"\n".to_owned()),
                ("local".to_owned(), "nameserver: []\nsearch:\n- local\n".to_owned()),
            ]
        );
    }

    #[test]
    fn a_text_without_quotes_stays_as_it_is_written() {
        let label =
            |value| format!("{{type: NodeLabel, id: a, spec: {{key: rack, value: {value}}}}}");
        for value in ["no", "y", "Off", "0755", "1_000", "7", "true"] {
            let [(_, spec)] = yaml(&label(value)).try_into().unwrap();
            assert!(spec.contains(&format!("value: \"{value}\"\n")), "{spec}");
        }
        for value in ["1.10", "1e3", "12345678901234567890123"] {
            let mistake = read(&label(value)).unwrap_err();
            assert!(mistake.contains("write a text in quotes"), "{mistake}");
        }
        let pod = "{type: StaticPod, id: a, spec: {name: a, hostNetwork: yes, containers: \
                   [{name: a, image: example.org/a:1, env: [{name: A, value: on}]}]}}";
        let [(_, pod)] = yaml(pod).try_into().unwrap();
        assert!(pod.contains("hostNetwork: true\n"), "{pod}");
        assert!(pod.contains("value: \"on\"\n"), "{pod}");
    }

    #[test]
    fn a_type_has_its_singular_plural_or_whole_name() {
        for name in ["Hostname", "hostname", "Hostnames", "Hostnames.osbuild"] {
            let text = format!("{{type: {name}, id: a, spec: {{hostname: edge-7}}}}");
            assert_eq!(yaml(&text).len(), 1, "{name}");
        }
    }

    #[test]
    fn labels_are_read_and_absent_ones_are_none() {
        let text = "{type: Hostname, id: a, labels: {rack: '7'}, spec: {hostname: b}}";
        let [draft] = read(text).unwrap().try_into().unwrap();
        assert_eq!(draft.labels.unwrap()["rack"], "7");
        assert_eq!(draft.annotations, None);
    }

    #[test]
    fn all_mistakes_are_named_with_their_documents() {
        let text = "{type: Partition, id: a, spec: {source: tmpfs}}\n---\n\
                    {type: Hostname, id: a, spec: {hostname: b}}\n---\n\
                    {type: Hostname, id: a, spec: {hostname: c}}\n---\n\
                    {type: Hostname, id: b, namespace: meta, spec: {hostname: c}}\n---\n\
                    {type: Resolver, id: a, spec: {nameserver: ns.example}}\n";
        let mistakes = read(text).unwrap_err();
        for start in [
            "document 1: there is no type `Partition`",
            "document 3: ",
            "document 4: ",
            "document 5: ",
        ] {
            assert!(mistakes.contains(start), "{mistakes}");
        }
        assert!(!mistakes.contains("document 2"), "{mistakes}");
        for text in
            ["", "---\n", "a", "{type: Hostname, id: a}", "{type: Hostname, id: a, spec: 1, x: 2}"]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
