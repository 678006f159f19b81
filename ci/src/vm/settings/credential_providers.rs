//! A resource gives the kubelet a program for the credentials of registries.

use super::image_server::{ImageServer, PASSWORD, USER};
use super::node::{Node, TIMEOUT, yaml};
use super::{BY_EVENT, was_repaired};
use crate::check::Outcome;
use osbuild::error::{Context, Result};
use osbuild_abi::paths::CREDENTIAL_PROVIDERS;
use serde_json::json;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PROVIDERS: &str = "CredentialProviders";
const STATUSES: &str = "CredentialProviderStatuses";
const ID: &str = "registry";
const API_VERSION: &str = "credentialprovider.kubelet.k8s.io/v1";
const NAME: &str = "registry-provider";
/// The file that the kubelet reads, and a part of it.
const FILE: &str = "/run/osbuild/kubelet/credential-providers.json";
const PART: &str = "\"name\": \"registry-provider\"";

/// The folder of the programs, which the recipe declares.
pub const WRITABLE: &str = "\n[writable]\n\"/opt/credential-providers/bin\" = { data = \
     \"credential-providers\", mode = 0o755, exec = true }\n";

/// The shell that runs the program, beside it, and its file on this machine.
const SHELL: &str = "busybox";
const SHELL_HERE: &str = "/bin/busybox";

/// A pod whose image the registry gives to clients with credentials alone.
const PODS: &str = "StaticPods";
const POD: &str = "private";

/// The pause before the server is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// The kubelet runs on without the program, and with it once a pod has delivered it. Its file is
/// put back. It asks the program for the credentials of an image.
pub fn waits_for_its_program(
    node: &Node,
    images: &ImageServer,
    outcome: &mut Outcome,
) -> Result<()> {
    let registry = images.registry();
    let spec = format!(
        "{{name: {NAME}, matchImages: ['{registry}'], defaultCacheDuration: 12h, apiVersion: \
         {API_VERSION}, args: [get]}}"
    );
    node.create(PROVIDERS, ID, &spec)?;
    let is_missing = |yaml: &str| yaml.contains("set: false") && yaml.contains("is not there");
    let status = node.resource_with(STATUSES, ID, is_missing)?;
    let claim = "a credential provider without its program has an error";
    outcome.check(claim, is_missing(yaml(&status)), || status.to_string());
    let text = node.read(FILE).unwrap_or_default();
    outcome.check("the kubelet does not get it", !text.contains(PART), || text.clone());
    deliver(node, &registry)?;
    has_status(node, "the kubelet runs with it when the program is there", outcome)?;
    let text = node.read(FILE)?;
    outcome.check("its file has the provider", text.contains(PART), || text.clone());
    node.write(FILE, "{}")?;
    let within = node.becomes(FILE, &text)?;
    was_repaired("the file of credential providers is put back", within, BY_EVENT, outcome);
    gives_credentials(node, images, outcome)
}

fn gives_credentials(node: &Node, images: &ImageServer, outcome: &mut Outcome) -> Result<()> {
    let image = images.private_image();
    let spec =
        format!("{{name: {POD}, hostNetwork: true, containers: [{{name: a, image: '{image}'}}]}}");
    node.create(PODS, POD, &spec)?;
    let began = Instant::now();
    while !images.was_authorized() && began.elapsed() < TIMEOUT {
        sleep(PAUSE);
    }
    let claim = "the kubelet pulls an image with the credentials of the program";
    outcome.check(claim, images.was_authorized(), || "no request had them".to_owned());
    node.destroy(PODS, POD)
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

/// Writes the program as a pod would, with the shell that runs it: the node has none.
fn deliver(node: &Node, registry: &str) -> Result<()> {
    let shell = fs::read(SHELL_HERE).or_build(|| format!("cannot read `{SHELL_HERE}`"))?;
    node.place(&format!("{CREDENTIAL_PROVIDERS}/{SHELL}"), 0o755, shell)?;
    let response = json!({
        "apiVersion": API_VERSION,
        "kind": "CredentialProviderResponse",
        "cacheKeyType": "Registry",
        "auth": { registry: { "username": USER, "password": PASSWORD } },
    });
    let text = format!("#!{CREDENTIAL_PROVIDERS}/{SHELL} sh\necho '{response}'\n");
    node.place(&format!("{CREDENTIAL_PROVIDERS}/{NAME}"), 0o755, text)
}

fn has_status(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let is_set = |yaml: &str| yaml.contains("set: true");
    let status = node.resource_with(STATUSES, ID, is_set)?;
    outcome.check(claim, is_set(yaml(&status)), || status.to_string());
    Ok(())
}
