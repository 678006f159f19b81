//! Where the node gets its updates. The recipe must also have the pod that gets them.

use super::Resolver;
use crate::plan::Updates;
use crate::plan::keys::{RecipeFile, Table};
use osbuild_abi::update::COMPONENT;
use osbuild_release::Channel;

/// The default number of seconds between two checks for updates.
const INTERVAL_S: u64 = 3600;

impl Resolver<'_> {
    pub(super) fn updates(&mut self, recipe: &RecipeFile) -> Option<Updates> {
        let section = self.with_its_pod(
            recipe,
            (COMPONENT, COMPONENT),
            recipe.updates.as_ref(),
            "updates",
            "add `[updates]` with the `url` of releases and their `root`, or remove the pod",
        )?;
        for (key, spot) in section.present() {
            self.note(format!("updates.{key}"), spot);
        }
        Some(Updates {
            url: section.url.as_ref()?.to_string(),
            channel: section.channel.as_ref().map_or(Channel::Stable, |channel| channel.value),
            root: section.root.as_ref()?.to_string(),
            interval_s: section.interval_s.as_ref().map_or(INTERVAL_S, |time| (&time.value).into()),
            waits_for_grant: section.waits_for_grant.as_ref().is_none_or(|waits| waits.value),
        })
    }
}
