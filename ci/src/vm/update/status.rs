//! Resources of a node during its update: its `UpdateStatuses`, and a setting that is kept.

use super::{NEW, OLD, TIMEOUT};
use crate::site::Site;
use crate::state_api;
use crate::vm::node::NodeUnderTest;
use crate::vm::probe;
use crate::vm::settings::node::{name, resource};
use osbuild::error::{Error, Result};
use osbuild_protocol::{UpdatePhase, UpdaterState};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often `init` is asked while phases pass.
const PAUSE: Duration = Duration::from_millis(200);

/// A kernel parameter that no release sets, and a value that is not the kernel's own.
const PARAMETERS: &str = "KernelParameters";
const PARAMETER_STATUSES: &str = "KernelParameterStatuses";
const PARAMETER: &str = "vm.swappiness";
const PARAMETER_SPEC: &str = "{key: vm.swappiness, value: '37'}";
const PARAMETER_IS_SET: &str = "current: 37\n";

/// The client of the node's pod `osd`.
pub struct Statuses<'a> {
    site: &'a Site<'a>,
    grpcurl: PathBuf,
    /// The port of this host that leads to it.
    port: u16,
}

impl<'a> Statuses<'a> {
    /// A client of the `osd` to which the port leads.
    pub fn new(site: &'a Site<'a>, port: u16) -> Result<Self> {
        Ok(Statuses { site, grpcurl: state_api::grpcurl(site)?, port })
    }

    /// The channel offers nothing yet, so the check fails.
    pub fn shows_a_failure(&self, node: &NodeUnderTest) -> Result<()> {
        let running = format!("version: {OLD}\n");
        self.shows(node, &[&running, "onTrial: false", "phase: failed", "message: load https://"])
    }

    /// The release waits for its wave.
    pub fn shows_the_offer(&self, node: &NodeUnderTest, message: &str) -> Result<()> {
        let (running, offered) = (format!("version: {OLD}\n"), format!("offeredVersion: {NEW}\n"));
        let message = format!("message: {message}");
        self.shows(node, &[&running, &offered, "phase: waiting", &message, "nextCheckTime: "])
    }

    /// The release runs and is good, and there is nothing to do.
    pub fn shows_the_update(&self, node: &NodeUnderTest) -> Result<()> {
        let (running, offered) = (format!("version: {NEW}\n"), format!("offeredVersion: {NEW}\n"));
        self.shows(node, &[&running, &offered, "onTrial: false", "phase: idle"])
    }

    /// Sets a kernel parameter, as soon as the client reaches `osd`.
    pub fn set_parameter(&self, node: &NodeUnderTest) -> Result<()> {
        let ends = Instant::now() + TIMEOUT;
        let request = resource(PARAMETERS, PARAMETER, "undefined", PARAMETER_SPEC);
        while let Err(error) = self.call("Create", &request) {
            if Instant::now() > ends {
                return Err(error);
            }
            sleep(Duration::from_secs(1));
        }
        self.shows_the_parameter(node)
    }

    /// The kernel has the parameter, and there is its resource.
    pub fn shows_the_parameter(&self, node: &NodeUnderTest) -> Result<()> {
        self.shows_of(node, PARAMETER_STATUSES, PARAMETER, &[PARAMETER_IS_SET])?;
        self.shows_of(node, PARAMETERS, PARAMETER, &["value: 37\n"])
    }

    /// Waits until the YAML of the node's `UpdateStatuses` has all these parts.
    fn shows(&self, node: &NodeUnderTest, parts: &[&str]) -> Result<()> {
        self.shows_of(node, "UpdateStatuses", "node", parts)
    }

    /// Waits until the YAML of the resource has all these parts.
    fn shows_of(
        &self,
        node: &NodeUnderTest,
        type_name: &str,
        id: &str,
        parts: &[&str],
    ) -> Result<()> {
        let ends = Instant::now() + TIMEOUT;
        loop {
            let yaml = self.yaml(type_name, id);
            match yaml {
                Ok(yaml) if parts.iter().all(|part| yaml.contains(part)) => return Ok(()),
                found if Instant::now() > ends => {
                    return Err(node.failure(format!("{parts:?} are not all in {found:?}")));
                }
                _ => sleep(Duration::from_secs(1)),
            }
        }
    }

    /// The YAML without quotation marks, which some words need.
    fn yaml(&self, type_name: &str, id: &str) -> Result<String> {
        let answer = self.call("Get", &name(type_name, id))?;
        let yaml = answer["resource"]["spec"]["yamlSpec"].as_str().unwrap_or_default();
        Ok(yaml.replace(['"', '\''], "") + "\n")
    }

    /// Calls a method of `State`, and returns its answer.
    fn call(&self, method: &str, request: &Value) -> Result<Value> {
        let mut command = Command::new(&self.grpcurl);
        command.args(["-plaintext", "-d", &request.to_string()]);
        command.arg(format!("127.0.0.1:{}", self.port));
        command.arg(format!("cosi.resource.State/{method}"));
        let output = self.site.finish("update-grpcurl", &mut command)?.output;
        serde_json::from_str(&output)
            .map_err(|_| Error::build("grpcurl has printed no JSON").cause(output))
    }
}

/// The phases that the updater reports until the release is installed. They pass too fast
/// for the resource, so `init` is asked, through the port of this host that leads to its sockets.
pub fn phases_of_installation(port: u16) -> Vec<&'static str> {
    let (mut phases, ends) = (Vec::new(), Instant::now() + TIMEOUT);
    let last = [UpdatePhase::Installed, UpdatePhase::Idle].map(|phase| Some(phase.word()));
    while !last.contains(&phases.last().copied()) && Instant::now() < ends {
        // The node may reboot at any time.
        if let Ok(status) = probe::status(port)
            && let UpdaterState::Reported { report, is_running: true, .. } = status.updater
            && phases.last() != Some(&report.phase.word())
        {
            phases.push(report.phase.word());
        }
        sleep(PAUSE);
    }
    phases
}
