//! Where the node gets its updates, and that something on it gets them.

use super::Resolver;
use crate::error::Problem;
use crate::plan::Updates;
use crate::plan::document::{Entry, Node};
use osbuild_abi::update::COMPONENT;
use osbuild_release::Channel;

/// How many seconds a node waits between two looks if its recipe does not say.
const INTERVAL_S: u64 = 3600;

impl Resolver<'_> {
    pub(super) fn updates(&mut self, recipe: &Node) -> Option<Updates> {
        let is_updater =
            |(_, entry): &(&String, &Entry)| entry.node.text_of("component") == Some(COMPONENT);
        let pod = recipe.entries_of("pods").find(is_updater).map(|(_, entry)| entry.key.place());
        let section = match (recipe.get("updates"), pod) {
            (None, None) => return None,
            (None, Some(place)) => {
                let problem = Problem::new(format!(
                    "the pod `{COMPONENT}` has nothing to do without `[updates]`"
                ))
                .at(place);
                let hint = "add `[updates]` with the `url` of releases and their `root`, or take the pod away";
                self.problems.push(problem.hint(hint));
                return None;
            }
            (Some(section), None) => {
                let problem = Problem::new(format!(
                    "`[updates]` has no effect without the pod `{COMPONENT}`"
                ));
                let hint =
                    format!("add `{COMPONENT} = {{ component = \"{COMPONENT}\" }}` to `[pods]`");
                self.problems.push(problem.at(section.spot.place()).hint(hint));
                section
            }
            (Some(section), Some(_)) => section,
        };
        for (key, entry) in recipe.entries_of("updates") {
            self.note(format!("updates.{key}"), &entry.key);
        }
        let interval = section
            .get("interval-s")
            .and_then(Node::integer)
            .and_then(|seconds| u64::try_from(seconds).ok());
        Some(Updates {
            url: section.text_of("url")?.to_owned(),
            channel: section
                .text_of("channel")
                .map_or(Some(Channel::Stable), |name| name.parse().ok())?,
            root: section.text_of("root")?.to_owned(),
            interval_s: interval.unwrap_or(INTERVAL_S),
        })
    }
}
