//! The rights of a plugin: the specs of `PluginGrants.osbuild`.

use super::access::{Access, Input, InputKind, Output, OutputKind};
use super::limits::{MAX_COLUMNS, MAX_GRANTED_INPUTS, MAX_GRANTED_OUTPUTS, MAX_NAME};
use super::{CONTROLLER_STATUSES, PLUGINS};
use crate::catalog;
use osbuild_cosi::v1::{PluginGrantSpec, PluginInput, PluginOutput};
use osbuild_resources::{Definition, Key, Kind, Names, PrintColumn};
use std::collections::BTreeMap;

/// The rights of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub enum Rights {
    /// All that controllers can do, in all namespaces: for the tests of other projects.
    Everything,
    /// The rights in a grant.
    Grant(Grant),
}

/// The resources that one plugin may read and write.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    inputs: Vec<Input>,
    outputs: Vec<PluginOutput>,
}

impl Rights {
    /// Refuses what a controller declares beyond the rights, with the reason.
    pub fn check(&self, access: &Access) -> Result<(), String> {
        let Rights::Grant(grant) = self else { return Ok(()) };
        if let Some(output) = access.outputs().iter().find(|output| !grant.has_output(output)) {
            return Err(format!("the grant has no output `{output}`"));
        }
        match access.inputs().iter().find(|input| !grant.has_input(input)) {
            Some(input) => Err(format!("the grant has no input `{input}`")),
            None => Ok(()),
        }
    }

    /// Whether the plugin may put finalizers on the resource.
    pub fn may_hold(&self, key: &Key) -> bool {
        let Rights::Grant(grant) = self else { return true };
        let mut strong = grant.inputs.iter().filter(|input| input.role == InputKind::Strong);
        strong.any(|input| input.covers(key.kind(), Some(key.id())))
    }

    /// Whether outputs may be in the namespace.
    pub fn may_write_in(&self, namespace: &str) -> bool {
        *self == Rights::Everything || namespace == PLUGINS
    }

    /// The kinds that a grant has as outputs.
    pub fn output_kinds(&self) -> Vec<Kind> {
        let Rights::Grant(grant) = self else { return Vec::new() };
        let kinds = grant.outputs.iter().filter_map(|one| Kind::new(PLUGINS, &one.r#type).ok());
        kinds.collect()
    }
}

impl Grant {
    /// Checks the spec of the grant for the plugin with this name.
    ///
    /// # Errors
    /// Something is malformed, or the type of an output belongs to the node.
    pub fn new(plugin: &str, spec: &PluginGrantSpec) -> Result<Grant, String> {
        check_plugin(plugin)?;
        let PluginGrantSpec { inputs, outputs } = spec;
        if inputs.len() > MAX_GRANTED_INPUTS || outputs.len() > MAX_GRANTED_OUTPUTS {
            return Err(format!(
                "a grant has at most {MAX_GRANTED_INPUTS} inputs and {MAX_GRANTED_OUTPUTS} outputs"
            ));
        }
        let inputs = inputs.iter().map(input).collect::<Result<Vec<_>, _>>()?;
        let declared = outputs.iter().map(output).collect::<Result<Vec<_>, _>>()?;
        let access = Access::new(inputs, declared).map_err(|error| error.to_string())?;
        let grant = Grant { inputs: access.inputs().to_vec(), outputs: outputs.clone() };
        grant.definitions().map(|_| grant.clone())
    }

    /// The definitions of the types of its outputs.
    ///
    /// # Errors
    /// Names do not follow COSI's rules, a type of the node has them, or two types differ only in
    /// case: a definition is found by the name in lower case.
    pub fn definitions(&self) -> Result<Vec<Definition<'_>>, String> {
        let own = catalog::definitions().map_err(|error| error.to_string())?;
        let own: Vec<&Definition> = own.iter().collect();
        let mut types = BTreeMap::new();
        let mut definitions = Vec::new();
        for output in &self.outputs {
            let definition = definition(output, &own)?;
            if let Some(other) = types.insert(definition.id(), &output.r#type) {
                return Err(format!(
                    "the outputs `{other}` and `{}` differ only in case",
                    output.r#type
                ));
            }
            definitions.push(definition);
        }
        Ok(definitions)
    }

    /// An output of the plugin's own has notices like a weak input.
    fn has_input(&self, wanted: &Input) -> bool {
        let is_granted = self.inputs.iter().any(|granted| {
            granted.covers(&wanted.kind, wanted.id.as_deref())
                && (granted.role == InputKind::Strong || wanted.role != InputKind::Strong)
        });
        let is_output = || self.outputs.iter().any(|one| one.r#type == wanted.kind.type_name());
        is_granted || (wanted.role != InputKind::Strong && is_output())
    }

    fn has_output(&self, wanted: &Output) -> bool {
        let granted = self.outputs.iter().find(|granted| granted.r#type == wanted.type_name);
        let kind = granted.and_then(|granted| output_kind(&granted.kind));
        kind.is_some_and(|kind| kind == OutputKind::Exclusive || wanted.kind == OutputKind::Shared)
    }
}

/// A plugin's name is that of a folder, and stands in messages.
fn check_plugin(name: &str) -> Result<(), String> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = name.len() <= 63
        && name.chars().all(is_inner)
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.is_empty();
    if is_label {
        return Ok(());
    }
    Err(format!(
        "`{}` is no name of a plugin, which has up to 63 lower-case letters, digits and dashes",
        name.escape_debug()
    ))
}

fn input(input: &PluginInput) -> Result<Input, String> {
    let PluginInput { namespace, r#type, id, kind } = input;
    let role = match kind.as_str() {
        "weak" => InputKind::Weak,
        "strong" => InputKind::Strong,
        _ => return Err(format!("the input `{type}` is `weak` or `strong`, not `{kind}`")),
    };
    short([namespace, r#type].into_iter().chain(id))?;
    let kind = Kind::new(namespace, r#type).map_err(|error| error.to_string())?;
    if id.as_ref().is_some_and(String::is_empty) {
        return Err(format!("the input `{type}` has an empty `id`"));
    }
    Ok(Input { kind, id: id.clone(), role })
}

fn output(output: &PluginOutput) -> Result<Output, String> {
    let PluginOutput { r#type, singular, kind, columns } = output;
    let kind = output_kind(kind)
        .ok_or_else(|| format!("the output `{type}` is `exclusive` or `shared`, not `{kind}`"))?;
    if columns.len() > MAX_COLUMNS {
        return Err(format!("the output `{type}` has more than {MAX_COLUMNS} columns"));
    }
    let columns = columns.iter().flat_map(|column| [&column.name, &column.json_path]);
    short([r#type, singular].into_iter().chain(columns))?;
    Ok(Output { type_name: r#type.clone(), kind })
}

fn output_kind(name: &str) -> Option<OutputKind> {
    match name {
        "exclusive" => Some(OutputKind::Exclusive),
        "shared" => Some(OutputKind::Shared),
        _ => None,
    }
}

fn short<'a>(mut names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    match names.find(|name| name.len() > MAX_NAME) {
        Some(_) => Err(format!("a name or path has more than {MAX_NAME} bytes")),
        None => Ok(()),
    }
}

/// Types of the node end in the same word, also those of later releases.
fn definition<'a>(output: &'a PluginOutput, own: &[&Definition]) -> Result<Definition<'a>, String> {
    let PluginOutput { r#type, singular, columns, .. } = output;
    let (plural, suffix) = r#type.split_once('.').unwrap_or((r#type, ""));
    let reserved = [CONTROLLER_STATUSES.suffix, "cosi.dev"];
    if reserved.iter().any(|own| suffix == *own || suffix.ends_with(&format!(".{own}"))) {
        return Err(format!("the output `{type}` has the suffix of a type of the node"));
    }
    let columns: Vec<_> = columns
        .iter()
        .map(|column| PrintColumn { name: &column.name, json_path: &column.json_path })
        .collect();
    let definition = Definition::new(&Names { plural, singular, suffix }, PLUGINS, &[]);
    let definition = definition.and_then(|definition| definition.beside(own));
    Ok(definition.map_err(|error| error.to_string())?.with_columns(&columns))
}

#[cfg(test)]
mod tests {
    use super::super::access::tests::{input as declared, output as written};
    use super::*;
    use proptest::prelude::*;

    fn grant() -> PluginGrantSpec {
        let granted = |type_name: &str, id: Option<&str>, kind: &str| PluginInput {
            namespace: "system".to_owned(),
            r#type: type_name.to_owned(),
            id: id.map(str::to_owned),
            kind: kind.to_owned(),
        };
        let output = |plural: &str, singular: &str, kind: &str| PluginOutput {
            r#type: plural.to_owned(),
            singular: singular.to_owned(),
            kind: kind.to_owned(),
            columns: vec![],
        };
        PluginGrantSpec {
            inputs: vec![
                granted("Hostnames.osbuild", None, "weak"),
                granted("Resolvers.osbuild", Some("dns"), "strong"),
            ],
            outputs: vec![
                output("Greetings.example", "Greeting", "exclusive"),
                output("Letters.example", "Letter", "shared"),
            ],
        }
    }

    fn check(inputs: Vec<Input>, outputs: Vec<Output>) -> Result<(), String> {
        let rights = Rights::Grant(Grant::new("greeter", &grant()).unwrap());
        let access = Access::new(inputs, outputs).unwrap();
        assert_eq!(Rights::Everything.check(&access), Ok(()));
        rights.check(&access)
    }

    #[test]
    fn a_controller_declares_no_more_than_its_grant() {
        use InputKind::{DestroyReady, Strong, Weak};
        let hosts = |role| declared(role, "Hostnames.osbuild", Some("a"));
        let dns = |role, id| declared(role, "Resolvers.osbuild", id);
        for input in [hosts(Weak), hosts(DestroyReady), dns(Strong, Some("dns"))] {
            assert_eq!(check(vec![input.clone()], vec![]), Ok(()), "{input}");
        }
        for input in [hosts(Strong), dns(Weak, None), dns(Strong, Some("other"))] {
            let refused = check(vec![input.clone()], vec![]).unwrap_err();
            assert_eq!(refused, format!("the grant has no input `{input}`"));
        }
        for role in [Weak, DestroyReady] {
            assert_eq!(check(vec![declared(role, "Letters.example", None)], vec![]), Ok(()));
        }
        assert!(check(vec![declared(Strong, "Letters.example", None)], vec![]).is_err());
        use OutputKind::{Exclusive, Shared};
        for (kind, name, is_granted) in [
            (Exclusive, "Greetings.example", true),
            (Shared, "Greetings.example", true),
            (Shared, "Letters.example", true),
            (Exclusive, "Letters.example", false),
            (Shared, "Hostnames.osbuild", false),
        ] {
            assert_eq!(check(vec![], vec![written(kind, name)]).is_ok(), is_granted, "{name}");
        }
    }

    #[test]
    fn outputs_are_of_types_that_the_node_does_not_have() {
        let refused = |type_name: &str, singular: &str| {
            let mut spec = grant();
            spec.outputs[0].r#type = type_name.to_owned();
            spec.outputs[0].singular = singular.to_owned();
            Grant::new("greeter", &spec).unwrap_err()
        };
        let reserved = "has the suffix of a type of the node";
        for name in ["Hostnames.osbuild", "Others.osbuild", "Others.my.osbuild", "Xs.cosi.dev"] {
            assert_eq!(refused(name, "Other"), format!("the output `{name}` {reserved}"));
        }
        assert!(refused("Hostnames.example", "Other").ends_with("has a name of another type"));
        assert!(refused("Others.example", "Hostname").ends_with("has a name of another type"));
        assert!(refused("greetings.example", "Greeting").ends_with("is not in camel case"));
        assert!(refused("Greetings", "Greeting").ends_with("no suffix of lower-case labels"));
        assert!(refused("Letters.example", "Letter").ends_with("is there twice"));
        assert!(refused("LetTers.example", "LetTer").ends_with("differ only in case"));
    }

    #[test]
    fn the_name_of_a_plugin_is_that_of_a_folder() {
        for name in ["", "..", "a/b", "A", "-a", "a-", "a b", &"a".repeat(64)] {
            assert!(Grant::new(name, &grant()).is_err(), "{name}");
        }
        assert!(Grant::new(&"a".repeat(63), &grant()).is_ok());
    }

    #[test]
    fn a_grant_has_a_size() {
        let mut spec = grant();
        spec.inputs[0].id = Some("a".repeat(129));
        assert!(Grant::new("greeter", &spec).is_err());
        spec.inputs[0].id = Some(String::new());
        assert!(Grant::new("greeter", &spec).is_err());
        spec.inputs = vec![grant().inputs[0].clone(); 33];
        assert!(Grant::new("greeter", &spec).unwrap_err().contains("at most 32 inputs"));
    }

    proptest! {
        #[test]
        fn a_grant_of_any_names_is_accepted_or_refused(
            plugin in "[a-z.-]{0,4}",
            [namespace, kind, type_name, singular] in prop::array::uniform4(
                "(weak|strong|exclusive|shared|Xs|X|\\.|example|\\PC{0,2}){0,4}",
            ),
        ) {
            let mut spec = grant();
            spec.inputs[0].namespace = namespace;
            spec.inputs[1].kind = kind.clone();
            spec.outputs[0].r#type = type_name;
            spec.outputs[0].singular = singular;
            spec.outputs[1].kind = kind;
            if let Ok(grant) = Grant::new(&plugin, &spec) {
                prop_assert_eq!(grant.definitions().unwrap().len(), 2);
            }
        }
    }
}
