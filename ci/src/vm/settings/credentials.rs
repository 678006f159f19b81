//! A resource sets the credentials of a registry, and nothing shows them.

use super::node::{Node, yaml};
use super::{BY_EVENT, was_repaired};
use crate::check::Outcome;
use osbuild::error::Result;
use serde_json::json;

const CREDENTIALS: &str = "RegistryCredentials";
const STATUSES: &str = "RegistryCredentialStatuses";
const ID: &str = "private";
const SPEC: &str = "{registry: private.example, username: node, password: pl4nted-s3cret}";
/// The password, and what the registry gets (RFC 7617).
pub const SECRET: &str = "pl4nted-s3cret";
pub const BASIC: &str = "bm9kZTpwbDRudGVkLXMzY3JldA==";
/// The file that containerd reads, and its text with this resource.
const FILE: &str = "/run/osbuild/registries/private.example/hosts.toml";
const TEXT: &str = "server = \"https://private.example\"\n[header]\n\
                    Authorization = \"Basic bm9kZTpwbDRudGVkLXMzY3JldA==\"";

/// containerd finds them, also after another program has written the file. The API does not show
/// them.
pub fn are_set(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create(CREDENTIALS, ID, SPEC)?;
    has_file(node, "a resource sets the credentials of a registry", outcome)?;
    let is_set = |yaml: &str| yaml.contains("set: true");
    let status = node.resource_with(STATUSES, ID, is_set)?;
    let claim = "the status of the credentials says that they are set";
    outcome.check(claim, is_set(yaml(&status)), || status.to_string());
    let resource = node.resource(CREDENTIALS, ID)?;
    let generations = node.configure("ListGenerations", &json!({}))?;
    let shown = format!("{resource}{status}{generations}");
    let is_hidden = yaml(&resource).contains("password: (hidden)");
    let is_clean = !shown.contains(SECRET) && !shown.contains(BASIC);
    outcome.check("the API hides the password", is_hidden && is_clean, || shown);
    node.write(FILE, "server = \"http://stolen.example\"")?;
    let within = node.becomes(FILE, TEXT)?;
    was_repaired("credentials of a registry are put back", within, BY_EVENT, outcome);
    Ok(())
}

/// They are there after a power cut, and go with their resource.
pub fn outlast_a_power_cut(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_file(node, "credentials of a registry outlast a power cut", outcome)?;
    node.destroy(CREDENTIALS, ID)?;
    let is_gone = node.is_gone(STATUSES, ID)?;
    outcome.check("credentials go with their resource", is_gone, || "they have a status".into());
    Ok(())
}

fn has_file(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let is_there = node.becomes(FILE, TEXT)?.is_some();
    outcome.check(claim, is_there, || format!("`{FILE}` has another text"));
    Ok(())
}
