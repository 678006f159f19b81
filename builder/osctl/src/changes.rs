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

/// The same, and the lines of the spec that go and come.
pub fn difference(change: &AppliedResource) -> Vec<String> {
    let [before, after] =
        [&change.before, &change.after].map(|yaml| yaml.lines().collect::<Vec<_>>());
    let only = |sign, lines: &[&str], others: &[&str]| {
        let lines = lines.iter().filter(|line| !others.contains(line));
        lines.map(|line| format!("  {sign} {}", printable(line))).collect::<Vec<_>>()
    };
    let mut lines = [only('-', &before, &after), only('+', &after, &before)].concat();
    if lines.is_empty() && before != after {
        // The same lines in another order.
        lines = [only('-', &before, &[]), only('+', &after, &[])].concat();
    }
    [vec![line(change)], lines].concat()
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
    }
}
