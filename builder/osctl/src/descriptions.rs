//! The content of `.proto` files: messages, enumerations and services, with their comments. A node
//! sends these files through server reflection, so it describes the types of its own release.

use crate::error::Error;
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    ServiceDescriptorProto,
};
use std::collections::HashMap;

/// The numbers of the fields of descriptors, of which the paths of comments consist.
mod number {
    pub const FILE_MESSAGE: i32 = 4;
    pub const FILE_ENUM: i32 = 5;
    pub const FILE_SERVICE: i32 = 6;
    pub const FILE_SYNTAX: i32 = 12;
    pub const MESSAGE_FIELD: i32 = 2;
    pub const MESSAGE_NESTED: i32 = 3;
    pub const MESSAGE_ENUM: i32 = 4;
    pub const VALUE: i32 = 2;
    pub const METHOD: i32 = 2;
}

/// The marks around an example in a comment.
const FENCE: &str = "```";

/// A `.proto` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Its path: `osbuild/v1/resolver.proto`.
    pub name: String,
    /// Its package: `osbuild.v1`.
    pub package: String,
    /// The comment of the package.
    pub comment: Comment,
    /// Its services.
    pub services: Vec<Service>,
    /// Its messages in order, each before those that are inside it.
    pub messages: Vec<Message>,
    /// Its enumerations, those of messages included.
    pub enums: Vec<Enum>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its full name: `osbuild.v1.ResolverSpec`.
    pub name: String,
    /// The comment of the message.
    pub comment: Comment,
    /// Its fields in order.
    pub fields: Vec<Field>,
}

/// A field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name in YAML and JSON: `lastReconcile`.
    pub name: String,
    /// Its name in the `.proto` file: `last_reconcile`.
    pub proto_name: String,
    /// Its number.
    pub number: i32,
    /// The form of its values, in words: `list of string`.
    pub form: String,
    /// The full name of the message that its values are.
    pub message: Option<String>,
    /// The comment of the field.
    pub comment: Comment,
}

/// An enumeration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enum {
    /// Its full name.
    pub name: String,
    /// The comment of the enumeration.
    pub comment: Comment,
    /// Its values: name, number and meaning.
    pub values: Vec<(String, i32, Comment)>,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its full name: `osbuild.v1.Node`.
    pub name: String,
    /// The comment of the service.
    pub comment: Comment,
    /// Its calls.
    pub calls: Vec<Call>,
}

/// A call of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// The full name of the message that it takes, with `stream ` before it if it takes several.
    pub request: String,
    /// The same of what it returns.
    pub response: String,
    /// The comment of the call.
    pub comment: Comment,
}

/// A comment without its marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comment {
    /// The text, which may have several paragraphs.
    pub text: String,
    /// The lines of the example in it. Empty if it has none.
    pub example: String,
}

impl Comment {
    /// A comment as a descriptor has it: each line begins with the space that follows `//`.
    fn read(raw: &str) -> Comment {
        let (mut text, mut example, mut is_inside) = (Vec::new(), Vec::new(), false);
        for line in raw.lines() {
            let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
            match line.starts_with(FENCE) {
                true => is_inside = !is_inside,
                false if is_inside => example.push(line),
                false => text.push(line),
            }
        }
        let text = text.join("\n").trim().to_owned();
        Comment { text, example: example.join("\n") }
    }

    /// Its first sentence, on one line.
    pub fn first_sentence(&self) -> String {
        let line = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.find(". ") {
            Some(end) => line[..=end].to_owned(),
            None => line,
        }
    }
}

impl File {
    /// Reads an encoded `FileDescriptorProto`.
    ///
    /// # Errors
    /// It is none.
    pub fn read(bytes: &[u8]) -> Result<File, Error> {
        let file = FileDescriptorProto::decode(bytes).map_err(|error| {
            Error::failed("the node describes its messages unreadably").caused_by(&error)
        })?;
        Ok(File::of(&file))
    }

    /// The file of a descriptor.
    pub fn of(file: &FileDescriptorProto) -> File {
        let locations = file.source_code_info.iter().flat_map(|info| &info.location);
        let comments = locations
            .filter_map(|one| Some((one.path.as_slice(), one.leading_comments.as_deref()?)));
        let comments = Comments(comments.collect());
        let package = file.package().to_owned();
        let mut read =
            File { name: file.name().to_owned(), comment: head_comment(file), ..File::default() };
        for (index, message) in (0..).zip(&file.message_type) {
            let place = Place::new(&package, &[], number::FILE_MESSAGE, index);
            read.add_message(message, &place, &comments);
        }
        for (index, one) in (0..).zip(&file.enum_type) {
            let place = Place::new(&package, &[], number::FILE_ENUM, index);
            read.enums.push(enumeration(one, &place, &comments));
        }
        for (index, one) in (0..).zip(&file.service) {
            let place = Place::new(&package, &[], number::FILE_SERVICE, index);
            read.services.push(service(one, &place, &comments));
        }
        read.package = package;
        read
    }

    /// The message with this full name.
    pub fn message(&self, name: &str) -> Option<&Message> {
        self.messages.iter().find(|message| message.name == name)
    }

    fn add_message(&mut self, message: &DescriptorProto, place: &Place, comments: &Comments) {
        let name = place.name_of(message.name());
        let fields = (0..).zip(&message.field).map(|(index, one)| Field {
            name: json_name(one),
            proto_name: one.name().to_owned(),
            number: one.number(),
            form: form(one, message),
            message: message_of(one),
            comment: comments.at(&place.path_to(number::MESSAGE_FIELD, index)),
        });
        let fields = fields.collect();
        self.messages.push(Message {
            name: name.clone(),
            comment: comments.at(&place.path),
            fields,
        });
        for (index, one) in (0..).zip(&message.nested_type) {
            // An entry of a map is no message that anybody writes.
            if !is_map_entry(one) {
                let place = Place::new(&name, &place.path, number::MESSAGE_NESTED, index);
                self.add_message(one, &place, comments);
            }
        }
        for (index, one) in (0..).zip(&message.enum_type) {
            let place = Place::new(&name, &place.path, number::MESSAGE_ENUM, index);
            self.enums.push(enumeration(one, &place, comments));
        }
    }
}

/// The comment at the top of a file: a blank line is between it and the first declaration.
fn head_comment(file: &FileDescriptorProto) -> Comment {
    let mut locations = file.source_code_info.iter().flat_map(|info| &info.location);
    let syntax = locations.find(|location| location.path == [number::FILE_SYNTAX]);
    let raw = syntax.and_then(|syntax| syntax.leading_detached_comments.first());
    raw.map(|raw| Comment::read(raw)).unwrap_or_default()
}

/// The comments of a file by the paths of what they are about.
struct Comments<'a>(HashMap<&'a [i32], &'a str>);

impl Comments<'_> {
    fn at(&self, path: &[i32]) -> Comment {
        self.0.get(path).map(|raw| Comment::read(raw)).unwrap_or_default()
    }
}

/// Where something is in a file.
struct Place<'a> {
    scope: &'a str,
    path: Vec<i32>,
}

impl<'a> Place<'a> {
    fn new(scope: &'a str, path: &[i32], number: i32, index: i32) -> Place<'a> {
        Place { scope, path: [path, &[number, index]].concat() }
    }

    fn name_of(&self, name: &str) -> String {
        if self.scope.is_empty() { name.to_owned() } else { format!("{}.{name}", self.scope) }
    }

    fn path_to(&self, number: i32, index: i32) -> Vec<i32> {
        [self.path.as_slice(), &[number, index]].concat()
    }
}

fn enumeration(one: &EnumDescriptorProto, place: &Place, comments: &Comments) -> Enum {
    let value = |(index, value): (i32, &prost_types::EnumValueDescriptorProto)| {
        let comment = comments.at(&place.path_to(number::VALUE, index));
        (value.name().to_owned(), value.number(), comment)
    };
    Enum {
        name: place.name_of(one.name()),
        comment: comments.at(&place.path),
        values: (0..).zip(&one.value).map(value).collect(),
    }
}

fn service(one: &ServiceDescriptorProto, place: &Place, comments: &Comments) -> Service {
    let message = |name: &str, is_stream| {
        let name = name.trim_start_matches('.');
        if is_stream { format!("stream {name}") } else { name.to_owned() }
    };
    let calls = (0..).zip(&one.method).map(|(index, call)| Call {
        name: call.name().to_owned(),
        request: message(call.input_type(), call.client_streaming()),
        response: message(call.output_type(), call.server_streaming()),
        comment: comments.at(&place.path_to(number::METHOD, index)),
    });
    let calls = calls.collect();
    Service { name: place.name_of(one.name()), comment: comments.at(&place.path), calls }
}

fn is_map_entry(message: &DescriptorProto) -> bool {
    message.options.as_ref().is_some_and(|options| options.map_entry())
}

/// The name in JSON, which the compiler of `.proto` files derives.
fn json_name(field: &FieldDescriptorProto) -> String {
    field.json_name.clone().unwrap_or_else(|| field.name().to_owned())
}

/// The full name of the message that the values are.
fn message_of(field: &FieldDescriptorProto) -> Option<String> {
    let is_message = field.r#type() == Type::Message;
    is_message.then(|| field.type_name().trim_start_matches('.').to_owned())
}

/// The form of the values in words.
fn form(field: &FieldDescriptorProto, parent: &DescriptorProto) -> String {
    let short = field.type_name().rsplit('.').next().unwrap_or_default();
    let entry = parent.nested_type.iter().find(|one| one.name() == short && is_map_entry(one));
    if let Some(entry) = entry {
        let words: Vec<String> = entry.field.iter().map(|one| form(one, entry)).collect();
        return format!("map of {}", words.join(" to "));
    }
    let word = match field.r#type() {
        Type::Double | Type::Float => "number",
        Type::String => "string",
        Type::Bytes => "bytes",
        Type::Bool => "boolean",
        Type::Message | Type::Group | Type::Enum => short,
        _ => "integer",
    };
    match field.label() {
        Label::Repeated => format!("list of {word}"),
        _ if field.proto3_optional() => format!("{word}, optional"),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild_cosi::DESCRIPTORS;
    use proptest::prelude::*;
    use prost_types::FileDescriptorSet;

    fn file(name: &str) -> FileDescriptorProto {
        let files = FileDescriptorSet::decode(DESCRIPTORS).unwrap().file;
        files.into_iter().find(|file| file.name() == name).unwrap()
    }

    #[test]
    fn a_comment_has_a_text_and_an_example() {
        let comment = Comment::read(" One\n two. Three.\n\n Four.\n\n ```yaml\n a:\n   b\n ```\n");
        assert_eq!(comment.text, "One\ntwo. Three.\n\nFour.");
        assert_eq!(comment.example, "a:\n  b");
        assert_eq!(comment.first_sentence(), "One two.");
        assert_eq!(Comment::default().first_sentence(), "");
    }

    #[test]
    fn a_file_has_the_comments_of_all_its_parts() {
        let plugin = File::of(&file("osbuild/v1/plugin.proto"));
        let grant = plugin.message("osbuild.v1.PluginGrantSpec").unwrap();
        assert!(grant.comment.text.starts_with("The rights of a plugin"));
        assert_eq!(grant.fields[0].form, "list of PluginInput");
        assert_eq!(grant.fields[0].message.as_deref(), Some("osbuild.v1.PluginInput"));
        let input = plugin.message("osbuild.v1.PluginInput").unwrap();
        assert_eq!(input.fields[2].form, "string, optional");
        let column = &plugin.message("osbuild.v1.PluginColumn").unwrap().fields[1];
        assert_eq!((&*column.name, &*column.proto_name), ("jsonPath", "json_path"));
        let resource = File::of(&file("cosi/resource/resource.proto"));
        let labels = &resource.message("cosi.resource.Metadata").unwrap().fields[9];
        assert_eq!(labels.form, "map of string to string");
        assert!(resource.message("cosi.resource.Metadata.LabelsEntry").is_none());
        let operation = &resource.enums[0];
        assert_eq!(operation.name, "cosi.resource.LabelTerm.Operation");
        assert_eq!(operation.values[1].2.text, "The value is the given one.");
        let state = File::of(&file("cosi/resource/state.proto"));
        assert_eq!(state.comment.text, "The service that keeps resources.");
        let list = &state.services[0].calls[1];
        assert_eq!(list.response, "stream cosi.resource.ListResponse");
        assert!(list.comment.text.starts_with("Reads the resources of a type"));
    }

    #[test]
    fn everything_in_the_proto_files_has_a_comment() {
        for file in FileDescriptorSet::decode(DESCRIPTORS).unwrap().file {
            let file = File::of(&file);
            if !file.name.starts_with("osbuild/") && !file.name.starts_with("cosi/") {
                continue;
            }
            assert_ne!(file.comment.text, "", "{}", file.name);
            for message in &file.messages {
                assert_ne!(message.comment.text, "", "{}", message.name);
                for field in &message.fields {
                    assert_ne!(field.comment.text, "", "{}.{}", message.name, field.name);
                }
            }
            for one in &file.enums {
                assert!(one.values.iter().all(|(.., text)| !text.text.is_empty()), "{}", one.name);
            }
            for service in &file.services {
                for call in &service.calls {
                    assert_ne!(call.comment.text, "", "{}/{}", service.name, call.name);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn no_answer_of_a_node_ends_the_program(bytes: Vec<u8>) {
            let _ = File::read(&bytes);
        }

        #[test]
        fn no_damage_to_a_file_ends_the_program(at: prop::sample::Index, value: u8) {
            let mut bytes = file("osbuild/v1/plugin.proto").encode_to_vec();
            *at.get_mut(&mut bytes) = value;
            let _ = File::read(&bytes);
        }
    }
}
