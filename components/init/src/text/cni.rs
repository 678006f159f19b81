//! Network configurations of pods (CNI), as containerd's library reads them.

use serde_json::{Map, Value};

/// How the names of configurations end: of a list of plugins, and of a single one.
pub const SUFFIXES: [&str; 3] = [".conf", ".conflist", ".json"];
const LIST: &str = ".conflist";

/// The most plugins of a configuration.
const MAX_PLUGINS: usize = 64;

/// A network configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The name of the network.
    pub name: String,
    /// The version of CNI that it is written for; empty if it names none.
    pub version: String,
    /// The types of its plugins, each of which is the name of a program.
    pub plugins: Vec<String>,
}

/// Reads the configuration in the file of this name.
///
/// # Errors
/// containerd would refuse it. The text says why, and has nothing of the file in it, which may
/// contain a secret.
pub fn read(file: &str, bytes: &[u8]) -> Result<Configuration, String> {
    // The error of a mistake in the syntax has its place and no value.
    let found: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
    let Value::Object(found) = found else { return Err("it is not a JSON object".to_owned()) };
    let is_list = file.ends_with(LIST);
    let name = text(&found, "name")?;
    if is_list && name.is_empty() {
        return Err("it has no `name`".to_owned());
    }
    let version = text(&found, "cniVersion")?;
    let plugins = match is_list {
        true => listed(&found)?,
        false if text(&found, "type")?.is_empty() => {
            return Err(format!("it has no `type`; a list of plugins needs a name with `{LIST}`"));
        }
        false => vec![program(&found)?],
    };
    Ok(Configuration { name, version, plugins })
}

/// The types of the plugins of a list.
fn listed(found: &Map<String, Value>) -> Result<Vec<String>, String> {
    let Some(Value::Array(plugins)) = found.get("plugins") else {
        return Err("it has no list `plugins`".to_owned());
    };
    if plugins.is_empty() || plugins.len() > MAX_PLUGINS {
        return Err(format!(
            "it has {} plugins: one is needed, and {MAX_PLUGINS} are the most",
            plugins.len()
        ));
    }
    let types = plugins.iter().enumerate().map(|(index, plugin)| {
        let plugin = plugin.as_object().ok_or_else(|| "it is not a JSON object".to_owned());
        plugin.and_then(program).map_err(|error| format!("plugin {}: {error}", index + 1))
    });
    types.collect()
}

/// The type of a plugin, which is the name of a program.
fn program(plugin: &Map<String, Value>) -> Result<String, String> {
    match text(plugin, "type")? {
        name if name.is_empty() => Err("it has no `type`".to_owned()),
        name if name.contains('/') || name.starts_with('.') => {
            Err("its `type` is not the name of a program".to_owned())
        }
        name => Ok(name),
    }
}

/// The text with this key; empty if there is none.
fn text(found: &Map<String, Value>, key: &str) -> Result<String, String> {
    match found.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(format!("its `{key}` is not a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_name_a_version_and_the_types_of_its_plugins() {
        let list = r#"{"name": "cbr0", "cniVersion": "0.3.1", "plugins": [
            {"type": "flannel", "delegate": {"hairpinMode": true}}, {"type": "portmap"}]}"#;
        let expected = Configuration {
            name: "cbr0".to_owned(),
            version: "0.3.1".to_owned(),
            plugins: vec!["flannel".to_owned(), "portmap".to_owned()],
        };
        assert_eq!(read("10-flannel.conflist", list.as_bytes()), Ok(expected));
        let one = read("10-a.conf", br#"{"name": "a", "type": "bridge"}"#).unwrap();
        assert_eq!(one.plugins, ["bridge"]);
    }

    #[test]
    fn a_broken_one_has_the_reason_and_no_secret() {
        let file = "10-a.conflist";
        for (text, reason) in [
            ("", "it is not JSON: EOF while parsing a value at line 1 column 0"),
            ("{\"token\": \"s3cret\",}", "it is not JSON: trailing comma at line 1 column 20"),
            ("[\"s3cret\"]", "it is not a JSON object"),
            (r#"{"name": 7, "plugins": []}"#, "its `name` is not a string"),
            (r#"{"plugins": [{"type": "a"}]}"#, "it has no `name`"),
            (r#"{"name": "a", "type": "bridge"}"#, "it has no list `plugins`"),
            (
                r#"{"name": "a", "plugins": []}"#,
                "it has 0 plugins: one is needed, and 64 are the most",
            ),
            (r#"{"name": "a", "plugins": [{"type": "a"}, {}]}"#, "plugin 2: it has no `type`"),
            (
                r#"{"name": "a", "plugins": [{"type": "../s3cret"}]}"#,
                "plugin 1: its `type` is not the name of a program",
            ),
        ] {
            assert_eq!(read(file, text.as_bytes()), Err(reason.to_owned()), "{text}");
        }
        let list = br#"{"name": "a", "plugins": [{"type": "a"}]}"#;
        assert_eq!(
            read("10-a.conf", list).unwrap_err(),
            "it has no `type`; a list of plugins needs a name with `.conflist`"
        );
    }
}
