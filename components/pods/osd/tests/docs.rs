//! The comments of the `.proto` files, and the page for administrators, cover the types and calls
//! that this program has.

use osbuild_cosi::{DESCRIPTORS, spec_message};
use pod_osd::access::guard::least;
use pod_osd::catalog::{definitions, writer_name};
use pod_osd::client_type::ClientType;
use pod_osd::documents;
use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use std::collections::BTreeSet;

const README: &str = include_str!("../../README.md");
const PAGE: &str = include_str!("../../../../builder/docs/api.md");

/// The number of the field of a file that has its messages, with which the paths of their comments
/// begin.
const MESSAGES: i32 = 4;

fn files() -> Vec<FileDescriptorProto> {
    FileDescriptorSet::decode(DESCRIPTORS).unwrap().file
}

/// The comment of the message, as it is in the `.proto` file without `//`.
fn comment(name: &str) -> Option<String> {
    for file in files() {
        let is_it = |message: &str| format!("{}.{message}", file.package()) == name;
        let Some(index) = file.message_type.iter().position(|one| is_it(one.name())) else {
            continue;
        };
        let path = [MESSAGES, i32::try_from(index).unwrap()];
        let mut locations = file.source_code_info.iter().flat_map(|info| &info.location);
        let found = locations.find(|one| one.path == path)?;
        let lines = found.leading_comments().lines();
        return Some(
            lines.map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned() + "\n").collect(),
        );
    }
    None
}

#[test]
fn every_type_has_a_message_whose_comment_explains_it() {
    for definition in definitions().unwrap() {
        let type_name = definition.kind.type_name();
        let name = spec_message(type_name, definition.display_type).unwrap();
        let text = comment(&name).unwrap_or_else(|| panic!("{name} has no comment"));
        if ClientType::of(&definition.kind).is_some() {
            let example = text.split("```yaml").nth(1).and_then(|rest| rest.split("```").next());
            let example = example.unwrap_or_else(|| panic!("{name} has no example"));
            let drafts = documents::read(example, |_| None).unwrap();
            assert!(drafts.iter().any(|draft| *draft.key.kind() == definition.kind), "{name}");
        }
    }
}

/// The cells of the rows of the table with this head.
fn rows(head: &str) -> Vec<Vec<&str>> {
    let table = PAGE.split(head).nth(1).unwrap_or_else(|| panic!("api.md has no table `{head}`"));
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").map(str::trim).collect();
    lines.map(cells).collect()
}

#[test]
fn the_page_for_administrators_has_every_type_with_its_writer() {
    let mut found = BTreeSet::new();
    for row in rows("| type | writer | what its writer becomes on the node |") {
        let [type_name, writer, meaning] = row[..] else { panic!("{row:?}") };
        assert!(!meaning.is_empty(), "{type_name}");
        assert!(found.insert((type_name.trim_matches('`').to_owned(), writer.to_owned())));
    }
    let known: BTreeSet<_> = definitions()
        .unwrap()
        .iter()
        .map(|one| (one.kind.type_name().to_owned(), writer_name(&one.kind).to_owned()))
        .collect();
    assert_eq!(found, known, "builder/docs/api.md on the left, this program on the right");
}

#[test]
fn the_readme_has_every_setting_with_its_fields() {
    let of_host = ClientType::all().filter(|one| one.of_host().is_some());
    let missing: Vec<_> = of_host
        .map(|one| one.kind().type_name().to_owned())
        .filter(|name| !README.contains(&format!("\n| `{name}` | `")))
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn the_page_for_administrators_has_every_call_with_its_role() {
    let mut found = BTreeSet::new();
    for row in rows("| role | calls |") {
        let [role, services] = row[..] else { panic!("{row:?}") };
        for service in services.split("; ") {
            let (service, calls) = service.split_once(": ").unwrap();
            for call in calls.split(", ") {
                let call = format!("{}/{}", service.trim_matches('`'), call.trim_matches('`'));
                assert!(found.insert((call, role.to_owned())));
            }
        }
    }
    let mut known = BTreeSet::new();
    for file in files() {
        for service in &file.service {
            for call in &service.method {
                let call = format!("{}.{}/{}", file.package(), service.name(), call.name());
                let role = least(&call).name().to_owned();
                known.insert((call, role));
            }
        }
    }
    assert_eq!(found, known, "builder/docs/api.md on the left, this program on the right");
}
