//! Kernel parameters as resources: grpcurl writes them to the pod `osd` of a running node.

use super::data::Data;
use super::kept_disk::KeptDisk;
use super::machine::Machine;
use super::node::NodeUnderTest;
use super::probe::{self, free_port};
use crate::check::Outcome;
use crate::recipe;
use crate::site::Site;
use crate::state_api;
use osbuild::error::{Error, Result};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The recipe of this check, and what it adds to that with the probe.
const RECIPE: &str = "kernel-parameters";
const PODS: &str = "\n[pods]\nosd = { component = \"osd\" }\n";

/// The file of `osd` on DATA.
const KEPT: &str = "osd/resources";

const PARAMETERS: &str = "KernelParameters.osbuild";
const STATUSES: &str = "KernelParameterStatuses.osbuild";

/// A parameter that the image allows, the kernel's own value, and the one that a resource gives it.
const BACKLOG: (&str, &str, &str) = ("net.core.somaxconn", "4096", "8192");
/// The value that another program gives it.
const FOREIGN: &str = "128";
/// Another one that the image allows.
const SWAPPINESS: (&str, &str) = ("vm.swappiness", "17");
/// One that the kubelet demands, so that the image does not allow it, and its value.
const PANIC: (&str, &str) = ("kernel.panic", "10");

/// How long a change may take to have its effect, on an emulated processor.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a parameter may have a foreign value.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause before a value is read again.
const PAUSE: Duration = Duration::from_millis(20);

/// A resource sets a kernel parameter of the node. The value is put back when another program
/// changes it, outlasts a crash of `osd` and a power cut, and goes with its resource. A parameter
/// that the image does not allow is refused. Without its file `osd` begins with what `init` holds.
pub fn a_resource_holds_a_kernel_parameter(site: &Site) -> Result<Outcome> {
    let project = site.root.join("out/ci").join(RECIPE);
    site.copy_to(&project)?;
    recipe::inherit(site, &project, RECIPE, probe::RECIPE, PODS)?;
    let disk = KeptDisk::in_project(&project, RECIPE);
    let node = Node {
        site,
        grpcurl: state_api::grpcurl(site)?,
        osd: free_port()?,
        parameters: free_port()?,
        signals: free_port()?,
    };
    let boot = |log: &str| {
        Machine::of_recipe_in(site, &project, RECIPE, log)?
            .keep(disk.path())
            .forward(node.osd, probe::OSD)
            .forward(node.parameters, probe::KERNEL_PARAMETER)
            .forward(node.signals, probe::SIGNAL)
            .boot()
    };
    let mut outcome = Outcome::default();

    let mut running = boot("kernel-parameters-first")?;
    node.sets_a_parameter(&mut outcome)?;
    let repaired = node.puts_it_back(&mut running, &mut outcome)?;
    node.refuses_another(&mut outcome)?;
    node.remembers_it_after_a_crash(&mut outcome)?;
    node.create("swappiness", SWAPPINESS.0, SWAPPINESS.1)?;
    running.power_off()?;

    let running = boot("kernel-parameters-again")?;
    node.has_both_after_a_power_cut(&mut outcome)?;
    running.power_off()?;

    let data = Data::of(site, disk.path())?;
    data.change(&format!("rm {KEPT}\n"))?;
    data.put_into(disk.path())?;
    let _running = boot("kernel-parameters-without-file")?;
    node.begins_with_what_init_holds(&mut outcome)?;
    node.gives_the_value_back(&mut outcome)?;
    outcome.summary =
        format!("{} claims, put back after {:.2} s", outcome.passed, repaired.as_secs_f64());
    Ok(outcome)
}

/// The node, through the ports of this host that lead to it.
struct Node<'a> {
    site: &'a Site<'a>,
    grpcurl: PathBuf,
    osd: u16,
    parameters: u16,
    signals: u16,
}

impl Node<'_> {
    fn sets_a_parameter(&self, outcome: &mut Outcome) -> Result<()> {
        let (key, own, value) = BACKLOG;
        let found = self.parameter(key, "")?;
        outcome.check("the kernel has its own value first", found == own, || found);
        self.create("backlog", key, value)?;
        let within = self.becomes(key, value)?;
        outcome.check("a resource sets a parameter", within.is_some(), || "it is not set".into());
        let status = self.status("backlog", |status| status["spec"]["yamlSpec"] != Value::Null)?;
        let text = status["spec"]["yamlSpec"].as_str().unwrap_or_default();
        let holds = text.contains(&format!("current: \"{value}\"")) && !text.contains("error");
        outcome.check("its status has the kernel's value", holds, || status.to_string());
        Ok(())
    }

    /// Returns how long it took.
    fn puts_it_back(&self, node: &mut NodeUnderTest, outcome: &mut Outcome) -> Result<Duration> {
        let (key, _, value) = BACKLOG;
        self.parameter(key, FOREIGN)?;
        let took = self.becomes(key, value)?.unwrap_or(TIMEOUT);
        let claim = "a value of another program is replaced within a second";
        outcome.check(claim, took <= REPAIR_TIMEOUT, || format!("it took {took:?}"));
        node.wait_until_printed(&format!("another program set `{key}` to `{FOREIGN}`"))?;
        Ok(took)
    }

    fn refuses_another(&self, outcome: &mut Outcome) -> Result<()> {
        let (key, value) = PANIC;
        self.create("panic", key, "0")?;
        let status = self.status("panic", |status| status["spec"]["yamlSpec"] != Value::Null)?;
        let holds = status.to_string().contains("the image does not allow");
        outcome.check("a parameter that is not allowed is an error", holds, || status.to_string());
        let found = self.parameter(key, "")?;
        outcome.check("it keeps its value", found == value, || found);
        self.call("Destroy", &name(PARAMETERS, "panic")).map(drop)
    }

    fn remembers_it_after_a_crash(&self, outcome: &mut Outcome) -> Result<()> {
        probe::command(self.signals, |stream| write!(stream, "osd KILL"))?;
        let found = self.resource("backlog")?;
        let version = &found["metadata"]["version"];
        outcome.check("osd keeps a resource over a crash", version == "1", || found.to_string());
        let value = self.parameter(BACKLOG.0, "")?;
        outcome.check("the parameter is still set", value == BACKLOG.2, || value);
        Ok(())
    }

    fn has_both_after_a_power_cut(&self, outcome: &mut Outcome) -> Result<()> {
        for (key, value) in [(BACKLOG.0, BACKLOG.2), SWAPPINESS] {
            let found = self.parameter(key, "")?;
            let claim = "a parameter is set after a power cut";
            outcome.check(claim, found == value, || format!("`{key}` is `{found}`"));
        }
        let found = self.resource("backlog")?;
        let version = &found["metadata"]["version"];
        outcome.check("osd keeps it over a power cut", version == "1", || found.to_string());
        Ok(())
    }

    /// `init` has set the parameters of the boot before without `osd`, which names each resource
    /// after its parameter.
    fn begins_with_what_init_holds(&self, outcome: &mut Outcome) -> Result<()> {
        for (key, value) in [(BACKLOG.0, BACKLOG.2), SWAPPINESS] {
            let found = self.resource(key)?;
            let text = found["spec"]["yamlSpec"].as_str().unwrap_or_default();
            let claim = "osd has a resource for what init holds";
            outcome.check(claim, text.contains(value), || found.to_string());
            let found = self.parameter(key, "")?;
            let claim = "a parameter stays set without a resource";
            outcome.check(claim, found == value, || format!("`{key}` is `{found}`"));
        }
        Ok(())
    }

    fn gives_the_value_back(&self, outcome: &mut Outcome) -> Result<()> {
        self.call("TeardownAndDestroy", &name(PARAMETERS, BACKLOG.0))?;
        let (key, own, _) = BACKLOG;
        let within = self.becomes(key, own)?;
        let claim = "a destroyed resource gives the value back";
        outcome.check(claim, within.is_some(), || "it does not".into());
        let found = self.parameter(SWAPPINESS.0, "")?;
        outcome.check("another one keeps its own", found == SWAPPINESS.1, || found);
        Ok(())
    }

    /// Creates a kernel parameter.
    fn create(&self, id: &str, key: &str, value: &str) -> Result<()> {
        let mut metadata = name(PARAMETERS, id);
        metadata["version"] = json!("undefined");
        metadata["phase"] = json!("running");
        let spec = json!({ "yamlSpec": format!("key: {key}\nvalue: \"{value}\"\n") });
        let resource = json!({ "resource": { "metadata": metadata, "spec": spec } });
        self.call("Create", &resource).map(drop)
    }

    /// The kernel parameter with this identifier, as soon as `osd` has it.
    fn resource(&self, id: &str) -> Result<Value> {
        let began = Instant::now();
        loop {
            match self.call("Get", &name(PARAMETERS, id)) {
                Err(error) if began.elapsed() > TIMEOUT => return Err(error),
                Err(_) => sleep(Duration::from_secs(1)),
                Ok(found) => return Ok(found["resource"].clone()),
            }
        }
    }

    /// The status of a kernel parameter, as soon as there is one that `holds`.
    fn status(&self, id: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let began = Instant::now();
        loop {
            let found = self.call("Get", &name(STATUSES, id));
            match found.map(|found| found["resource"].clone()) {
                Ok(found) if holds(&found) => return Ok(found),
                Err(error) if began.elapsed() > TIMEOUT => return Err(error),
                _ => sleep(PAUSE),
            }
        }
    }

    /// Calls a method of `State`, and returns its answer.
    fn call(&self, method: &str, request: &Value) -> Result<Value> {
        let mut command = Command::new(&self.grpcurl);
        command.args(["-plaintext", "-d", &request.to_string()]);
        command.arg(format!("127.0.0.1:{}", self.osd)).arg(format!("cosi.resource.State/{method}"));
        let output = self.site.finish("kernel-parameters-grpcurl", &mut command)?.output;
        serde_json::from_str(&output)
            .map_err(|_| Error::build("grpcurl has printed no JSON").cause(output))
    }

    /// Sets a parameter behind `init`'s back, if there is a value, and returns its value.
    fn parameter(&self, key: &str, value: &str) -> Result<String> {
        probe::request(self.parameters, |stream| write!(stream, "{key} {value}"))
    }

    /// Waits until a parameter has a value. Returns how long it took, unless that was too long.
    fn becomes(&self, key: &str, value: &str) -> Result<Option<Duration>> {
        let began = Instant::now();
        while self.parameter(key, "")? != value {
            if began.elapsed() > TIMEOUT {
                return Ok(None);
            }
            sleep(PAUSE);
        }
        Ok(Some(began.elapsed()))
    }
}

/// The name of a resource, as every request has it.
fn name(type_name: &str, id: &str) -> Value {
    json!({ "namespace": "system", "type": type_name, "id": id })
}
