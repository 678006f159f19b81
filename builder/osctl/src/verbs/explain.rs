//! `osctl explain`: what types and their fields mean, in the words of the node's own release.

use super::output::Output;
use crate::connection::Connection;
use crate::definitions::{self, Definition};
use crate::descriptions::{Comment, Field, File, Message};
use crate::error::{Error, Result, printable};
use crate::nearest::nearest;
use osbuild_abi::osd;
use osbuild_cosi::spec_message;

/// How far a field is to the right of the message that it is in.
const INDENT: &str = "  ";

/// The part of a path that people put before a field because documents have it.
const SPEC: &str = "spec";

/// Lists all types with the first sentence of each.
pub async fn list(connection: &Connection) -> Result<Output> {
    let titles = ["TYPE", "WRITER", "MEANING"].map(str::to_owned).to_vec();
    let mut rows = vec![titles];
    for definition in definitions::all(connection).await? {
        let meaning = match message_name(&definition) {
            None => String::new(),
            Some(name) => {
                let file = connection.file_of(&name).await?;
                file.message(&name).map(|one| one.comment.first_sentence()).unwrap_or_default()
            }
        };
        let writer = definition.writer.unwrap_or_default();
        let cells = [definition.type_name, writer, meaning];
        rows.push(cells.iter().map(|cell| printable(cell)).collect());
    }
    Ok(Output::Table(rows))
}

/// Explains what the path names: a type, or a field of it, as `resolvers.nameserver`.
pub async fn run(connection: &Connection, path: &str) -> Result<Output> {
    let (definition, fields) = split(definitions::all(connection).await?, path)?;
    let Some(name) = message_name(&definition) else {
        return Ok(Output::Text(undescribed(&definition, &fields)?));
    };
    let file = connection.file_of(&name).await?;
    let message = file.message(&name).ok_or_else(|| {
        Error::failed(format!("the node has no description of {}", definition.type_name))
    })?;
    Ok(Output::Text(match fields.as_slice() {
        [] => type_text(&definition, message, &file),
        fields => field_text(message, fields, &file)?,
    }))
}

fn message_name(definition: &Definition) -> Option<String> {
    spec_message(&definition.type_name, &definition.singular)
}

/// The type that the beginning of the path names, and the fields after it. Names of types have
/// dots, too: the longest beginning that names one counts.
fn split(definitions: Vec<Definition>, path: &str) -> Result<(Definition, Vec<String>)> {
    let dots = path.match_indices('.').map(|(at, _)| at);
    let ends: Vec<usize> = dots.chain([path.len()]).collect();
    for end in ends.iter().rev() {
        if let Ok(definition) = definitions::choose(definitions.clone(), &path[..*end]) {
            let fields = path[*end..].split('.').skip(1);
            let fields: Vec<String> = fields.map(str::to_owned).collect();
            let is_spec = fields.first().is_some_and(|field| field == SPEC);
            return Ok((definition, fields.into_iter().skip(is_spec.into()).collect()));
        }
    }
    // The mistake is in the name of the type, which is most likely the part before the first dot.
    let first = path.split('.').next().unwrap_or(path);
    let mistake = definitions::choose(definitions, first).err();
    Err(mistake.unwrap_or_else(|| Error::usage(format!("the node has no type `{first}`"))))
}

fn type_text(definition: &Definition, message: &Message, file: &File) -> String {
    let mut text = head(definition);
    text += &format!("\n{}", paragraphs(&message.comment, ""));
    text += "\nSPEC\n";
    text += &fields(message, file, INDENT, &mut Vec::new());
    if !message.comment.example.is_empty() {
        text += &format!("\nEXAMPLE\n{}", indented(&message.comment.example, INDENT));
    }
    text
}

fn head(definition: &Definition) -> String {
    let Definition { namespace, type_name, singular, writer, secrets, .. } = definition;
    let writer = match writer.as_deref() {
        None => "unknown".to_owned(),
        Some(osd::ITSELF) => "the node itself".to_owned(),
        Some(osd::PLUGIN) => "a plugin".to_owned(),
        Some(osd::ADMIN) => "the role admin".to_owned(),
        Some(role) => format!("the role {role}, or a higher one"),
    };
    let rows = [("TYPE", type_name), ("SHORT", singular), ("NAMESPACE", namespace)];
    let hidden = format!("{}: nobody reads them back", secrets.join(", "));
    let hidden = (!secrets.is_empty()).then_some(("SECRET", &hidden));
    let rows = rows.into_iter().chain([("WRITER", &writer)]).chain(hidden);
    rows.map(|(title, value)| format!("{title:9}  {}\n", printable(value))).collect()
}

/// The fields of a message, and below each those of its message. One that was described above, as
/// that of a message inside itself, is not described again.
fn fields(message: &Message, file: &File, indent: &str, above: &mut Vec<String>) -> String {
    above.push(message.name.clone());
    let mut text = String::new();
    for field in &message.fields {
        text += &field_lines(field, indent);
        let inner = field.message.as_ref().filter(|name| !above.contains(name));
        if let Some(inner) = inner.and_then(|name| file.message(name)) {
            text += &fields(inner, file, &format!("{indent}{INDENT}{INDENT}"), above);
        }
    }
    text
}

fn field_lines(field: &Field, indent: &str) -> String {
    let Field { name, form, comment, .. } = field;
    let text = paragraphs(comment, &format!("{indent}{INDENT}"));
    format!("{indent}{}  <{}>\n{text}", printable(name), printable(form))
}

fn field_text(message: &Message, path: &[String], file: &File) -> Result<String> {
    let (mut message, mut path) = (message, path);
    while let [name, rest @ ..] = path {
        let found = message.fields.iter().find(|field| field.name == *name);
        let field = found.ok_or_else(|| no_field(message, name))?;
        let inner = field.message.as_ref().and_then(|name| file.message(name));
        match (rest, inner) {
            ([], inner) => {
                let mut text = field_lines(field, "");
                if let Some(inner) = inner {
                    text += &format!("\nFIELDS\n{}", fields(inner, file, INDENT, &mut Vec::new()));
                }
                return Ok(text);
            }
            (_, Some(inner)) => (message, path) = (inner, rest),
            (_, None) => {
                return Err(Error::usage(format!("`{}` has no fields", field.name))
                    .cause(format!("its form is {}", field.form)));
            }
        }
    }
    Ok(fields(message, file, "", &mut Vec::new()))
}

fn no_field(message: &Message, name: &str) -> Error {
    let names = || message.fields.iter().map(|field| field.name.as_str());
    let error = Error::usage(format!("{} has no field `{name}`", message.name));
    match nearest(names(), name) {
        Some(known) => error.hint(format!("did you mean `{known}`?")),
        None => error.hint(format!("it has {}", names().collect::<Vec<_>>().join(", "))),
    }
}

/// The text for a type that only a plugin's grant describes. The grant names columns; the specs may
/// have any fields.
fn undescribed(definition: &Definition, fields: &[String]) -> Result<String> {
    if let Some(field) = fields.first() {
        let message = format!("the node does not know the field `{field}`");
        return Err(Error::usage(message).cause(format!(
            "a plugin writes {}, and its grant names columns alone",
            definition.type_name
        )));
    }
    let mut text = head(definition);
    text +=
        "\nA plugin writes this type. Its grant names these columns; its specs may have more.\n";
    text += "\nCOLUMNS\n";
    for column in &definition.columns {
        let [name, path] = [&column.name, &column.json_path].map(|text| printable(text));
        text += &format!("{INDENT}{name}  {path}\n");
    }
    Ok(text)
}

fn paragraphs(comment: &Comment, indent: &str) -> String {
    indented(&comment.text, indent)
}

fn indented(text: &str, indent: &str) -> String {
    let line = |line: &str| format!("{indent}{}", printable(line)).trim_end().to_owned() + "\n";
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_cosi::DESCRIPTORS;
    use prost::Message as _;
    use prost_types::FileDescriptorSet;

    fn definition(type_name: &str, singular: &str, writer: &str) -> Definition {
        Definition {
            namespace: "system".into(),
            type_name: type_name.into(),
            singular: singular.into(),
            writer: Some(writer.into()),
            may_disconnect: false,
            aliases: vec![singular.to_lowercase()],
            is_sensitive: false,
            secrets: Vec::new(),
            columns: Vec::new(),
        }
    }

    fn file(name: &str) -> File {
        let files = FileDescriptorSet::decode(DESCRIPTORS).unwrap().file;
        File::of(files.iter().find(|file| file.name() == name).unwrap())
    }

    fn message<'a>(file: &'a File, name: &str) -> &'a Message {
        file.message(&format!("osbuild.v1.{name}")).unwrap()
    }

    #[test]
    fn a_type_is_explained_with_its_writer_fields_and_example() {
        let file = file("osbuild/v1/hostname.proto");
        let hostnames = definition("Hostnames.osbuild", "Hostname", "operator");
        let text = type_text(&hostnames, message(&file, "HostnameSpec"), &file);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "TYPE       Hostnames.osbuild",
                "SHORT      Hostname",
                "NAMESPACE  system",
                "WRITER     the role operator, or a higher one",
            ]
        );
        let end = [
            "SPEC",
            "  hostname  <string>",
            "    The name (RFC 1123): at most 63 letters, digits, `-` and `.`.",
            "",
            "EXAMPLE",
            "  type: Hostname",
            "  id: name",
            "  spec:",
            "    hostname: edge-7",
        ];
        assert!(text.ends_with(&(end.join("\n") + "\n")), "{text}");
    }

    #[test]
    fn a_type_is_explained_with_its_secret_fields() {
        let file = file("osbuild/v1/registry_credential.proto");
        let mut credentials =
            definition("RegistryCredentials.osbuild", "RegistryCredential", "admin");
        credentials.secrets = ["password", "token"].map(str::to_owned).to_vec();
        let text = type_text(&credentials, message(&file, "RegistryCredentialSpec"), &file);
        let expected = "SECRET     password, token: nobody reads them back";
        assert_eq!(text.lines().nth(4), Some(expected), "{text}");
    }

    #[test]
    fn a_field_is_found_by_its_path() {
        let file = file("osbuild/v1/plugin.proto");
        let grant = message(&file, "PluginGrantSpec");
        let explain = |path: &str| {
            let path: Vec<String> = path.split('.').map(str::to_owned).collect();
            field_text(grant, &path, &file).map_err(|error| error.to_string())
        };
        assert!(explain("inputs").unwrap().contains("\nFIELDS\n  namespace  <string>\n"));
        let column = explain("outputs.columns.jsonPath").unwrap();
        assert!(column.starts_with("jsonPath  <string>\n  Where its value is"), "{column}");
        assert!(explain("inputs.kinds").unwrap_err().contains("did you mean `kind`?"));
        assert!(explain("hostname").unwrap_err().contains("it has inputs, outputs"));
        assert!(explain("inputs.kind.x").unwrap_err().contains("`kind` has no fields"));
    }

    #[test]
    fn a_path_begins_with_any_name_of_a_type() {
        let known = || {
            vec![
                definition("Resolvers.osbuild", "Resolver", "operator"),
                definition("Things.example", "Thing", "plugin"),
            ]
        };
        for path in ["resolver.search", "Resolvers.osbuild.search", "resolvers.spec.search"] {
            let (found, fields) = split(known(), path).unwrap();
            assert_eq!((&*found.singular, &*fields.join(".")), ("Resolver", "search"), "{path}");
        }
        assert!(split(known(), "things.example").unwrap().1.is_empty());
        let mistake = split(known(), "resolvr.search").unwrap_err().to_string();
        assert!(mistake.contains("did you mean `resolver`?"), "{mistake}");
        let (things, fields) = split(known(), "things.size").unwrap();
        assert!(undescribed(&things, &fields).unwrap_err().to_string().contains("`size`"));
        assert!(undescribed(&things, &[]).unwrap().contains("WRITER     a plugin"));
    }

    #[test]
    fn a_message_inside_itself_is_described_once() {
        let mut file = file("osbuild/v1/plugin.proto");
        let name = "osbuild.v1.PluginInput";
        let input = file.messages.iter_mut().find(|message| message.name == name).unwrap();
        input.fields.iter_mut().for_each(|field| field.message = Some(name.to_owned()));
        let text = fields(message(&file, "PluginGrantSpec"), &file, "", &mut Vec::new());
        assert_eq!(text.matches("namespace  <").count(), 1, "{text}");
    }

    #[test]
    fn the_words_of_a_node_do_not_control_the_terminal() {
        let hostile = definition("Things.\u{1b}[2J", "\u{202e}", "\u{9b}");
        let text = undescribed(&hostile, &[]).unwrap();
        assert!(text.lines().all(|line| printable(line) == line), "{text}");
    }
}
