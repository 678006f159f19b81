//! An API server, a network and a registry that are away for a while.

use super::{AWAY, Faults, IS_READY};
use crate::vm::machine::HOST;
use osbuild::error::Result;
use serde_json::json;
use std::thread::sleep;

/// Pods that are made while the registry is away.
const LATE: &str = include_str!("late.yaml");

/// Whether the containers of these pods are ready.
const HAS_IMAGE: &str = "get pod has-image -o jsonpath={.status.containerStatuses[0].ready}";
const ASKS: &str = "get pod asks -o jsonpath={.status.containerStatuses[0].ready}";

/// The events of the Pod whose image has to be asked for.
const EVENTS: &str = "get events --field-selector=involvedObject.name=asks,reason=Failed -o \
    jsonpath={.items[*].message}";

/// Everything is as before once they are back.
pub fn is_away(faults: &mut Faults) -> Result<()> {
    faults.survives("an API server that is away", |faults| {
        faults.cluster.plane.stop_serving();
        sleep(AWAY);
        faults.cluster.plane.serve(faults.site)
    })?;
    faults.survives("a network that is away", |faults| {
        faults.link(false)?;
        faults.hold("a node without a network is not Ready", IS_READY, "Unknown")?;
        faults.link(true)
    })?;
    faults.survives("a registry that is away", |faults| {
        faults.registry.stop();
        faults.kubectl.apply(LATE)?;
        faults.hold(
            "a Pod starts without the registry if its image is there",
            HAS_IMAGE,
            "true",
        )?;
        faults.hold(
            "a Pod whose image is missing names the registry",
            EVENTS,
            &HOST.to_string(),
        )?;
        faults.registry.serve(faults.site)?;
        faults.hold("that Pod runs once the registry is back", ASKS, "true")
    })
}

impl Faults<'_> {
    /// Connects the machine's cable, or pulls it.
    fn link(&self, up: bool) -> Result<()> {
        self.qmp.execute("set_link", json!({ "name": "net", "up": up }))
    }
}
