//! The socket of a plugin on the node, which its grant makes.

use super::node::{Node, TIMEOUT};
use super::remote::Osctl;
use crate::check::Outcome;
use osbuild::error::Result;
use serde_json::json;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The grant of the documentation's example, in the checkout, and the plugin's name.
const GRANT: &str = "components/pods/osd/tests/full_name.yaml";
const NAME: &str = "full-name";

/// The pause before a call is repeated.
const PAUSE: Duration = Duration::from_millis(200);

/// A controller registers in the folder that a pod of the plugin would mount, as far as the grant
/// permits and as long as there is one.
pub fn registers_by_its_grant(node: &Node, osctl: &Osctl, outcome: &mut Outcome) -> Result<()> {
    let register = |input: &str| {
        let input = json!({ "namespace": "system", "type": input });
        let controller = json!({ "controllerName": NAME, "inputs": [input] });
        node.call_plugin("cosi.runtime.ControllerRuntime/RegisterController", &controller)
    };
    let early = register("Hostnames.osbuild");
    outcome.check("a plugin without a grant has no socket", early.is_err(), String::new);
    let grant = osctl.site.root.join(GRANT).display().to_string();
    osctl.finish(&["apply", "-f", &grant])?;
    let began = Instant::now();
    let mut registered = register("Hostnames.osbuild");
    while registered.is_err() && began.elapsed() < TIMEOUT {
        sleep(PAUSE);
        registered = register("Hostnames.osbuild");
    }
    let has_token = registered.as_ref().is_ok_and(|answer| answer["controllerToken"].is_string());
    outcome.check("its grant makes one, where a controller registers", has_token, || {
        format!("{registered:?}")
    });
    let more = register("KernelParameters.osbuild");
    let is_refused = more.as_ref().is_err_and(|error| format!("{error:?}").contains("the grant"));
    outcome.check("and not for more than it permits", is_refused, || format!("{more:?}"));
    osctl.finish(&["delete", "plugingrant", NAME])?;
    let (began, mut late) = (Instant::now(), register("Hostnames.osbuild"));
    while late.is_ok() && began.elapsed() < TIMEOUT {
        sleep(PAUSE);
        late = register("Hostnames.osbuild");
    }
    outcome.check("the end of the grant removes the socket", late.is_err(), String::new);
    Ok(())
}
