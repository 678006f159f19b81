//! Text for the changes that a call makes or, in a dry run, would make.

use crate::error::printable;
use osbuild_cosi::v1::AppliedResource;
use osbuild_cosi::v1::applied_resource::Outcome;
use similar::{ChangeTag, TextDiff};

/// `created TYPE/ID`
pub fn line(change: &AppliedResource) -> String {
    let outcome = match change.outcome() {
        Outcome::Unchanged => "unchanged",
        Outcome::Created => "created",
        Outcome::Updated => "updated",
        Outcome::Destroyed => "deleted",
    };
    format!("{outcome} {}/{}", printable(&change.r#type), printable(&change.id))
}

/// The same, and the lines of the metadata and of the spec that go and come.
pub fn difference(change: &AppliedResource) -> Vec<String> {
    let metadata = lines_that_differ(&change.metadata_before, &change.metadata_after);
    let spec = lines_that_differ(&change.before, &change.after);
    [vec![line(change)], metadata, spec].concat()
}

fn lines_that_differ(before: &str, after: &str) -> Vec<String> {
    let diff = TextDiff::from_lines(before, after);
    let line = |change: similar::Change<&str>| {
        let sign = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => return None,
        };
        Some(format!("  {sign} {}", printable(change.value().trim_end_matches('\n'))))
    };
    diff.iter_all_changes().filter_map(line).collect()
}

/// The change as a unified diff, whose new side has this name. None if nothing changes.
pub fn unified(change: &AppliedResource, new: &str) -> Option<String> {
    if change.outcome() == Outcome::Unchanged {
        return None;
    }
    let before = document(&change.metadata_before, &change.before);
    let after = document(&change.metadata_after, &change.after);
    let name = printable(&format!("{}/{}", change.r#type, change.id));
    let old = match change.outcome() {
        Outcome::Created => "/dev/null".to_owned(),
        _ => format!("{name} (node)"),
    };
    let diff = TextDiff::from_lines(&before, &after);
    let text = diff.unified_diff().header(&old, &format!("{name} ({new})")).to_string();
    Some(text.lines().map(|line| printable(line) + "\n").collect())
}

/// Metadata and spec as they are in a document. Both are empty if there is no resource.
fn document(metadata: &str, spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    let head = if spec.is_empty() { "" } else { "spec:\n" };
    format!("{metadata}{head}{spec}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_shows_the_lines_that_change() {
        let change = AppliedResource {
            r#type: "Resolvers.osbuild".into(),
            id: "dns".into(),
            outcome: Outcome::Updated.into(),
            before: "nameserver:\n- 192.0.2.1\n".into(),
            after: "nameserver:\n- 192.0.2.2\n".into(),
            ..AppliedResource::default()
        };
        assert_eq!(
            difference(&change),
            ["updated Resolvers.osbuild/dns", "  - - 192.0.2.1", "  + - 192.0.2.2"]
        );
        let reordered = AppliedResource {
            before: "nameserver:\n- 192.0.2.1\n- 192.0.2.2\n".into(),
            after: "nameserver:\n- 192.0.2.2\n- 192.0.2.1\n".into(),
            ..change.clone()
        };
        let lines = difference(&reordered);
        assert_eq!(lines[1..], ["  + - 192.0.2.2", "  - - 192.0.2.2"]);
        let labelled = AppliedResource {
            metadata_before: "labels:\n  rack: '7'\n".into(),
            metadata_after: "labels:\n  rack: '8'\n".into(),
            after: change.before.clone(),
            ..change
        };
        assert_eq!(
            difference(&labelled),
            ["updated Resolvers.osbuild/dns", "  -   rack: '7'", "  +   rack: '8'"]
        );
    }

    #[test]
    fn a_unified_diff_has_both_sides() {
        let change = AppliedResource {
            r#type: "Resolvers.osbuild".into(),
            id: "dns\u{1b}".into(),
            outcome: Outcome::Updated.into(),
            before: "nameserver:\n- 192.0.2.1\n".into(),
            after: "nameserver:\n- 192.0.2.2\n".into(),
            metadata_after: "labels:\n  rack: '7'\n".into(),
            ..AppliedResource::default()
        };
        assert_eq!(
            unified(&change, "dns.yaml").unwrap().lines().collect::<Vec<_>>(),
            [
                "--- Resolvers.osbuild/dns\\u{1b} (node)",
                "+++ Resolvers.osbuild/dns\\u{1b} (dns.yaml)",
                "@@ -1,3 +1,5 @@",
                "+labels:",
                "+  rack: '7'",
                " spec:",
                "   nameserver:",
                "-  - 192.0.2.1",
                "+  - 192.0.2.2",
            ]
        );
        let created = AppliedResource {
            outcome: Outcome::Created.into(),
            before: String::new(),
            ..change.clone()
        };
        assert!(unified(&created, "a").unwrap().starts_with("--- /dev/null\n+++ Resolvers"));
        let unchanged = AppliedResource { outcome: Outcome::Unchanged.into(), ..change };
        assert_eq!(unified(&unchanged, "a"), None);
    }
}
