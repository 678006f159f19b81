//! The settings that the image gives its node, in the words of the node document.

use super::Resolver;
use crate::error::Problem;
use crate::plan::NodeSettings;
use crate::plan::document::{Item, Value, in_toml, read_parts};
use crate::plan::keys::{NodeTable, RecipeFile};

/// Keys with secrets, which an image cannot keep.
const SECRETS: [&str; 2] = ["private-key", "preshared-key"];

impl Resolver<'_> {
    /// The settings of `[node]`.
    pub(super) fn node_settings(&mut self, recipe: &RecipeFile) -> NodeSettings {
        let Some(section) = &recipe.node else { return NodeSettings::default() };
        let parts = parts(section);
        for (key, item) in &parts {
            self.note(format!("node.{key}"), &item.key);
        }
        let secrets: Vec<Problem> = parts.iter().flat_map(|(_, item)| secrets(item)).collect();
        if !secrets.is_empty() {
            self.problems.extend(secrets);
            return NodeSettings::default();
        }
        match read_parts(parts.iter().copied()) {
            Ok(document) => {
                self.warnings.extend(document.warnings());
                let keys = parts.iter().map(|(key, item)| ((*key).to_owned(), in_toml(item)));
                let lines = document.settings().iter().map(|setting| setting.line()).collect();
                NodeSettings { keys: keys.collect(), lines }
            }
            Err(problems) => {
                self.problems.extend(problems);
                NodeSettings::default()
            }
        }
    }
}

/// The keys of the section that are present, each as a key of a node document.
fn parts(section: &NodeTable) -> Vec<(&'static str, &Item)> {
    let kubelet = section.kubelet.as_ref();
    let all = [
        ("resolver", &section.resolver),
        ("links", &section.links),
        ("addresses", &section.addresses),
        ("routes", &section.routes),
        ("routing-rules", &section.routing_rules),
        ("firewall-rules", &section.firewall_rules),
        ("nat", &section.nat),
        ("volumes", &section.volumes),
        ("swap", &section.swap),
        ("kernel-parameters", &section.kernel_parameters),
        ("system-images", &section.system_images),
        ("seccomp-profiles", &section.seccomp_profiles),
    ];
    let of_kubelet = kubelet.into_iter().flat_map(|kubelet| {
        [("kubelet.labels", &kubelet.labels), ("kubelet.taints", &kubelet.taints)]
    });
    let present = all.into_iter().chain(of_kubelet);
    present.filter_map(|(key, part)| Some((key, &part.as_ref()?.value.0))).collect()
}

/// A problem for each secret in a value.
fn secrets(item: &Item) -> Vec<Problem> {
    match &item.value {
        Value::List(list) => list.iter().flat_map(secrets).collect(),
        Value::Table(table) => {
            let one = |(key, item): (&String, &Item)| match SECRETS.contains(&key.as_str()) {
                true => vec![secret(key, item)],
                false => secrets(item),
            };
            table.iter().flat_map(one).collect()
        }
        _ => Vec::new(),
    }
}

fn secret(key: &str, item: &Item) -> Problem {
    Problem::new(format!("`{key}` cannot be in a recipe"))
        .cause("an image is public, and a recipe becomes part of one, so neither has secrets")
        .hint("leave it out: the node makes a key of its own; or put the link into a node document")
        .at(item.key.place())
}
