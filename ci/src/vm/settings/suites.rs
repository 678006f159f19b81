//! The suites of COSI's implementation in Go, with the pod `osd` of a node.

use super::{Lab, PODS};
use crate::check::Outcome;
use crate::site::Site;
use crate::state_api::{suite_of_plugins_passes, suite_of_states_passes};
use osbuild::error::{Context, Result};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// The manifest of `osd` in the project, and where its arguments begin.
const MANIFEST: &str = "components/pods/osd/pod.yaml";
const ARGUMENTS: &str = "      args:\n        - --socket\n        - /run/osbuild/osd/socket\n";

/// The arguments with which `osd` accepts the suites' types and their plugin, whose socket is the
/// one to which the probe connects.
const FOR_SUITES: &str =
    "        - --accept-any-type\n        - --test-plugin\n        - full-name\n";

/// Both suites pass through the sockets of `osd` on a node, which serves all tests one after the
/// other.
pub fn suites_of_others_pass(site: &Site) -> Result<Outcome> {
    let lab = Lab::with(site, "suites", |project| {
        accept_suites(project)?;
        Ok(PODS.to_owned())
    })?;
    let mut outcome = Outcome::default();
    let running = lab.boot("first")?;
    let [state, plugin] = [lab.node.osd, lab.node.plugin].map(|port| format!("127.0.0.1:{port}"));
    let states = suite_of_states_passes(site, "suites-state", &state, &mut outcome)?;
    let osd = [("OSD_STATE", OsStr::new(&state)), ("OSD_PLUGIN", OsStr::new(&plugin))];
    let plugins = suite_of_plugins_passes(site, "suites-plugin", &osd, &mut outcome)?;
    running.power_off()?;
    outcome.summary = format!("{states} tests of StateSuite, {plugins} of RuntimeSuite");
    Ok(outcome)
}

fn accept_suites(project: &Path) -> Result<()> {
    let path = project.join(MANIFEST);
    let cannot = || format!("cannot change `{}`", path.display());
    let manifest = fs::read_to_string(&path).or_build(cannot)?;
    let changed = manifest.replacen(ARGUMENTS, &[ARGUMENTS, FOR_SUITES].concat(), 1);
    fs::write(&path, changed).or_build(cannot)
}
