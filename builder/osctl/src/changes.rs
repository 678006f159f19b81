//! What a call changes, or would change.

use crate::error::printable;
use osbuild_cosi::v1::AppliedResource;
use osbuild_cosi::v1::applied_resource::Outcome;

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
    let [before, after] = [before, after].map(|yaml| yaml.lines().collect::<Vec<_>>());
    let only = |sign, lines: &[&str], others: &[&str]| {
        let lines = lines.iter().filter(|line| !others.contains(line));
        lines.map(|line| format!("  {sign} {}", printable(line))).collect::<Vec<_>>()
    };
    let mut lines = [only('-', &before, &after), only('+', &after, &before)].concat();
    if lines.is_empty() && before != after {
        // The same lines in another order.
        lines = [only('-', &before, &[]), only('+', &after, &[])].concat();
    }
    lines
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
        assert_eq!(lines[1..4], ["  - nameserver:", "  - - 192.0.2.1", "  - - 192.0.2.2"]);
        assert_eq!(lines[4..], ["  + nameserver:", "  + - 192.0.2.2", "  + - 192.0.2.1"]);
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
}
