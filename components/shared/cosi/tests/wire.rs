//! Clients of an earlier release go on to work: no message, field, value or call that they know
//! changes or goes. `wire.txt` has those of all releases.

use osbuild_cosi::{DESCRIPTORS, PLUGIN_DESCRIPTORS};
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use std::collections::BTreeSet;

/// The variable with which this test adds what is new to the file. It removes nothing.
const WRITE: &str = "WRITE_WIRE";
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/wire.txt");

/// The words that clients rely on, one line each: place, number and type.
fn lines() -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for set in [DESCRIPTORS, PLUGIN_DESCRIPTORS] {
        for file in FileDescriptorSet::decode(set).unwrap().file {
            let package = file.package();
            for message in &file.message_type {
                of_message(package, message, &mut lines);
            }
            for one in &file.enum_type {
                of_enum(package, one, &mut lines);
            }
            for service in &file.service {
                for call in &service.method {
                    let stream = |is: bool| if is { "stream " } else { "" };
                    lines.insert(format!(
                        "{package}.{}/{} {}{} {}{}",
                        service.name(),
                        call.name(),
                        stream(call.client_streaming()),
                        call.input_type(),
                        stream(call.server_streaming()),
                        call.output_type(),
                    ));
                }
            }
        }
    }
    lines
}

fn of_message(scope: &str, message: &DescriptorProto, lines: &mut BTreeSet<String>) {
    let name = format!("{scope}.{}", message.name());
    for field in &message.field {
        lines.insert(format!(
            "{name}.{} {} {}{}",
            field.name(),
            field.number(),
            if field.label() == Label::Repeated { "repeated " } else { "" },
            type_of(field)
        ));
    }
    message.nested_type.iter().for_each(|one| of_message(&name, one, lines));
    message.enum_type.iter().for_each(|one| of_enum(&name, one, lines));
}

fn of_enum(scope: &str, one: &EnumDescriptorProto, lines: &mut BTreeSet<String>) {
    for value in &one.value {
        lines.insert(format!("{scope}.{}.{} {}", one.name(), value.name(), value.number()));
    }
}

fn type_of(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum => field.type_name().to_owned(),
        scalar => scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    }
}

#[test]
fn what_clients_know_neither_changes_nor_goes() {
    let known: BTreeSet<String> = include_str!("wire.txt").lines().map(str::to_owned).collect();
    let lines = lines();
    let broken: Vec<_> = known.difference(&lines).collect();
    assert!(broken.is_empty(), "clients rely on these: {broken:#?}");
    let new: Vec<_> = lines.difference(&known).collect();
    if std::env::var_os(WRITE).is_some() {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(PATH, text).unwrap();
    } else {
        assert!(new.is_empty(), "`{WRITE}=1` adds these to {PATH}: {new:#?}");
    }
}
