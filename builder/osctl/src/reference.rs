//! `builder/docs/reference.md`, made from the `.proto` files.

use crate::descriptions::{Call, Comment, Enum, Field, File, Message, Service};
use osbuild_cosi::{DESCRIPTORS, PLUGIN_DESCRIPTORS};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write;
use std::path::Path;

/// Has the test write the page in the place of comparing it.
const WRITE: &str = "WRITE_REFERENCE";

/// The suffix in the name of a message that is the spec of a type.
const SPEC: &str = "Spec";

/// The packages whose specs are types of the node.
const TYPE_PACKAGES: [&str; 2] = ["osbuild.v1", "cosi.resource.meta"];

const HEAD: &str = "\
# Reference of the node API

The types and calls that a node has, from the comments of the [`.proto`
files](../../components/shared/cosi/proto). `osctl explain` prints the same of the release that a
node runs. [The page about the API](api.md) says who writes each type, and how to open the API;
[`osctl`](osctl.md) is its client for people.

This page is generated: change the `.proto` files, then

    WRITE_REFERENCE=1 cargo test --package osctl reference
";

const TYPES: &str = "
## Types

The specs of resources, by the singular of each type, which documents have as `type`. YAML and JSON
have the names of the fields as they are here.
";

const SERVICES: &str = "
## Services
";

const PLUGIN_SERVICES: &str = "
## Services for plugins

A [plugin](plugins.md) finds these on its own socket.
";

const MESSAGES: &str = "
## Messages

What calls take and return, by file, with the numbers of the fields.
";

fn files(descriptors: &[u8]) -> Vec<File> {
    let files = FileDescriptorSet::decode(descriptors).unwrap().file;
    let own = files.iter().filter(|file| !file.name().starts_with("google/"));
    own.map(File::of).collect()
}

/// The page.
fn page() -> String {
    let (node, plugins) = (files(DESCRIPTORS), files(PLUGIN_DESCRIPTORS));
    // The files that both have are the node's.
    let plugins: Vec<File> = plugins.into_iter().filter(|file| !node.contains(file)).collect();
    let mut page = HEAD.to_owned() + TYPES;
    for file in node.iter().filter(|file| TYPE_PACKAGES.contains(&file.package.as_str())) {
        file.messages.iter().filter_map(|one| spec(one, file)).for_each(|text| page += &text);
    }
    for (head, files) in [(SERVICES, &node), (PLUGIN_SERVICES, &plugins)] {
        page += head;
        files.iter().flat_map(|file| &file.services).for_each(|one| page += &service(one));
    }
    page += MESSAGES;
    for file in node.iter().chain(&plugins) {
        page += &messages(file);
    }
    page
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// The type whose spec the message is, with the messages in it, each once. None if it is none.
fn spec(message: &Message, file: &File) -> Option<String> {
    let singular = short(&message.name).strip_suffix(SPEC)?;
    let mut text = format!("\n### `{singular}`\n\n{}", paragraphs(&message.comment));
    text += &fields(message, false);
    let mut inside: VecDeque<&Message> = messages_in(message, file).collect();
    let mut shown = BTreeSet::new();
    while let Some(message) = inside.pop_front() {
        if !shown.insert(&message.name) {
            continue;
        }
        write!(text, "\n`{}`: {}", short(&message.name), paragraphs(&message.comment)).unwrap();
        text += &fields(message, false);
        inside.extend(messages_in(message, file));
    }
    Some(text)
}

fn messages_in<'a>(message: &'a Message, file: &'a File) -> impl Iterator<Item = &'a Message> {
    message.fields.iter().filter_map(|field| file.message(field.message.as_ref()?))
}

/// Whether the message is the spec of a type, or in one.
fn is_in_types(message: &Message, file: &File) -> bool {
    let holds = |one: &&Message| {
        one.name != message.name
            && one.fields.iter().any(|field| field.message.as_deref() == Some(&*message.name))
    };
    TYPE_PACKAGES.contains(&file.package.as_str())
        && (message.name.ends_with(SPEC)
            || file.messages.iter().find(holds).is_some_and(|one| is_in_types(one, file)))
}

fn messages(file: &File) -> String {
    let shown: Vec<&Message> = file.messages.iter().filter(|one| !is_in_types(one, file)).collect();
    if shown.is_empty() && file.enums.is_empty() {
        return String::new();
    }
    let mut text = format!("\n### `{}`\n\n{}", file.name, paragraphs(&file.comment));
    for message in shown {
        let name = within(&message.name, file);
        write!(text, "\n**`{name}`**: {}", paragraphs(&message.comment)).unwrap();
        text += &fields(message, true);
    }
    file.enums.iter().for_each(|one| text += &enumeration(one, file));
    text
}

/// The name in its package.
fn within<'a>(name: &'a str, file: &File) -> &'a str {
    name.strip_prefix(&format!("{}.", file.package)).unwrap_or(name)
}

fn fields(message: &Message, with_numbers: bool) -> String {
    if message.fields.is_empty() {
        return String::new();
    }
    let mut text = match with_numbers {
        true => "\n| field | number | form | meaning |\n|---|---|---|---|\n".to_owned(),
        false => "\n| field | form | meaning |\n|---|---|---|\n".to_owned(),
    };
    for Field { name, proto_name, number, form, comment, .. } in &message.fields {
        let meaning = cell(comment);
        match with_numbers {
            true => writeln!(text, "| `{proto_name}` | {number} | {form} | {meaning} |"),
            false => writeln!(text, "| `{name}` | {form} | {meaning} |"),
        }
        .unwrap();
    }
    text
}

fn enumeration(one: &Enum, file: &File) -> String {
    let name = within(&one.name, file);
    let mut text = format!("\n**`{name}`**: {}", paragraphs(&one.comment));
    text += "\n| value | number | meaning |\n|---|---|---|\n";
    for (name, number, comment) in &one.values {
        writeln!(text, "| `{name}` | {number} | {} |", cell(comment)).unwrap();
    }
    text
}

fn service(Service { name, comment, calls }: &Service) -> String {
    let mut text = format!("\n### `{name}`\n\n{}", paragraphs(comment));
    text += "\n| call | takes | returns | does |\n|---|---|---|---|\n";
    for Call { name, request, response, comment } in calls {
        let [request, response] =
            [request, response].map(|message| match message.split_once(' ') {
                Some((stream, message)) => format!("{stream} `{}`", short(message)),
                None => format!("`{}`", short(message)),
            });
        writeln!(text, "| `{name}` | {request} | {response} | {} |", cell(comment)).unwrap();
    }
    text
}

fn cell(comment: &Comment) -> String {
    comment.text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn paragraphs(Comment { text, example }: &Comment) -> String {
    match example.is_empty() {
        true => format!("{text}\n"),
        false => format!("{text}\n\n```yaml\n{example}\n```\n"),
    }
}

#[test]
fn the_reference_is_what_the_proto_files_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference.md");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let remedy =
        "builder/docs/reference.md is old: WRITE_REFERENCE=1 cargo test -p osctl reference";
    assert!(found == page(), "{remedy}");
}
