//! A resource gives the kubelet a program for the credentials of registries.

use super::node::{Node, yaml};
use super::{EVENT_TIMEOUT, was_repaired};
use crate::check::Outcome;
use osbuild::error::Result;
use osbuild_abi::paths::CREDENTIAL_PROVIDERS;

const PROVIDERS: &str = "CredentialProviders";
const STATUSES: &str = "CredentialProviderStatuses";
const ID: &str = "registry";
const SPEC: &str = "{name: registry-provider, matchImages: ['*.example'], \
     defaultCacheDuration: 12h, apiVersion: credentialprovider.kubelet.k8s.io/v1, args: [get]}";
const NAME: &str = "registry-provider";
/// The file that the kubelet reads, and a part of it.
const FILE: &str = "/run/osbuild/kubelet/credential-providers.json";
const PART: &str = "\"name\": \"registry-provider\"";

/// The folder of the programs, which the recipe declares.
pub const WRITABLE: &str = "\n[writable]\n\"/opt/credential-providers/bin\" = { data = \
     \"credential-providers\", mode = 0o755, exec = true }\n";

/// The kubelet runs on without the program, and with it once a pod has delivered it. Its file is
/// put back.
pub fn waits_for_its_program(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create(PROVIDERS, ID, SPEC)?;
    let is_missing = |yaml: &str| yaml.contains("set: false") && yaml.contains("is not there");
    let status = node.resource_with(STATUSES, ID, is_missing)?;
    let claim = "a credential provider without its program has an error";
    outcome.check(claim, is_missing(yaml(&status)), || status.to_string());
    let text = node.read(FILE).unwrap_or_default();
    outcome.check("the kubelet does not get it", !text.contains(PART), || text.clone());
    deliver(node)?;
    has_status(node, "the kubelet runs with it when the program is there", outcome)?;
    let text = node.read(FILE)?;
    outcome.check("its file has the provider", text.contains(PART), || text.clone());
    node.write(FILE, "{}")?;
    let within = node.becomes(FILE, &text)?;
    was_repaired("the file of credential providers is put back", within, EVENT_TIMEOUT, outcome);
    Ok(())
}

/// It is there after a power cut, and goes with its resource.
pub fn outlasts_a_power_cut_and_goes(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_status(node, "a credential provider outlasts a power cut", outcome)?;
    node.destroy(PROVIDERS, ID)?;
    let is_gone = node.is_gone(STATUSES, ID)?;
    outcome.check("its status goes with its resource", is_gone, || "it has a status".into());
    let within = node.becomes_such(FILE, |text| !text.contains(PART))?;
    outcome.check("the kubelet's file goes with it", within.is_some(), || "it is there".into());
    Ok(())
}

/// Writes the program as a pod would.
fn deliver(node: &Node) -> Result<()> {
    node.place(&format!("{CREDENTIAL_PROVIDERS}/{NAME}"), 0o755, "#!/bin/false\n")
}

fn has_status(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let is_set = |yaml: &str| yaml.contains("set: true");
    let status = node.resource_with(STATUSES, ID, is_set)?;
    outcome.check(claim, is_set(yaml(&status)), || status.to_string());
    Ok(())
}
