//! A resource writes a seccomp profile into the kubelet's folder.

use super::node::{Node, yaml};
use super::{EVENT_TIMEOUT, was_repaired};
use crate::check::Outcome;
use osbuild::error::Result;
use osbuild_abi::paths::{SECCOMP_LINK, SECCOMP_PROFILES};

const PROFILES: &str = "SeccompProfiles";
const STATUSES: &str = "SeccompProfileStatuses";
const ID: &str = "quiet";
const SPEC: &str = "{name: no-mounts, defaultAction: SCMP_ACT_ALLOW, syscalls: [{names: [mount], \
     action: SCMP_ACT_ERRNO, errnoRet: 1}]}";
const NAME: &str = "no-mounts.json";
/// Its file, as the probe answers with it: without the newline at the end.
const TEXT: &str = "{
  \"defaultAction\": \"SCMP_ACT_ALLOW\",
  \"syscalls\": [
    {
      \"action\": \"SCMP_ACT_ERRNO\",
      \"errnoRet\": 1,
      \"names\": [
        \"mount\"
      ]
    }
  ]
}";

/// Its file is below the kubelet's folder of profiles, and is put back.
pub fn is_written(node: &Node, outcome: &mut Outcome) -> Result<()> {
    node.create(PROFILES, ID, SPEC)?;
    has_status(node, "a resource sets a seccomp profile", outcome)?;
    let text = node.read(&format!("{SECCOMP_LINK}/{NAME}"))?;
    outcome.check("the kubelet's folder has the profile", text == TEXT, || text.clone());
    let file = format!("{SECCOMP_PROFILES}/{NAME}");
    node.write(&file, "{}")?;
    let within = node.becomes(&file, TEXT)?;
    was_repaired("a seccomp profile is put back", within, EVENT_TIMEOUT, outcome);
    Ok(())
}

/// It is there after a power cut, and goes with its resource.
pub fn outlasts_a_power_cut_and_goes(node: &Node, outcome: &mut Outcome) -> Result<()> {
    has_status(node, "a seccomp profile outlasts a power cut", outcome)?;
    let path = format!("{SECCOMP_LINK}/{NAME}");
    let text = node.read(&path)?;
    outcome.check("its file outlasts a power cut", text == TEXT, || text.clone());
    node.destroy(PROFILES, ID)?;
    let is_gone = node.is_gone(STATUSES, ID)?;
    outcome.check("its status goes with its resource", is_gone, || "it has a status".into());
    let left = node.read(&path).unwrap_or_default();
    outcome.check("its file goes with its resource", left != TEXT, || left.clone());
    Ok(())
}

fn has_status(node: &Node, claim: &str, outcome: &mut Outcome) -> Result<()> {
    let is_set = |yaml: &str| yaml.contains("set: true");
    let status = node.resource_with(STATUSES, ID, is_set)?;
    outcome.check(claim, is_set(yaml(&status)), || status.to_string());
    Ok(())
}
